"""Suggestions of several kernels of one file that are written at once."""

import pytest

from tritonforge.domain.source import Edit
from tritonforge.rewrite import together

A, B = Edit("k.py", 10, 20, "a"), Edit("k.py", 30, 40, "b")


def test_edits_apart_are_made_together_and_the_same_edit_once():
    assert together([[A], [B]]) == ((A, B), ())
    assert together([[A], [A, B]]) == ((A, B), ())
    assert together([[A], [Edit("other.py", 10, 20, "c")]])[1] == ()
    assert together([[A], [Edit("k.py", 20, 25, "c")]])[1] == ()


@pytest.mark.parametrize("other", [Edit("k.py", 15, 25, "c"), Edit("k.py", 12, 13, ""), Edit("k.py", 10, 10, "c")])
def test_what_meets_an_edit_before_it_is_left_out_whole(other):
    assert together([[A], [other, B]]) == ((A,), (1,))
    assert together([[A], [other, B], [B]]) == ((A, B), (1,))
