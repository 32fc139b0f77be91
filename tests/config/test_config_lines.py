"""Lines of a TOML text: the index must agree with tomllib on what the text sets."""

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.config.lines import ValuePlace, index_lines, index_values, line_of

TRICKY = '''\
# [targets.comment]
a.b = 1
"quoted key" = "x = [ # not a comment"
text = """
[targets.inside-a-string]
key = 1
"""
list = [
  "]", # ]
  { x = 1 },
  """
  unclosed [ in a string
  """,
]
literal = \'\'\'
x = 1\'\'\'
after = 1
inline = { deep = { er = 1 } }
[targets."a.b"]
command = ["ssh"]
[[launch]]
file = "a"
[launch.more]
x = 1
[[launch]]
  file = "b"
[ spaced . header ]
k = 1
'''


def test_a_tricky_text_is_indexed_by_what_it_really_sets():
    index = index_lines(TRICKY)
    assert index["a", "b"] == 2
    assert index["quoted key",] == 3
    assert index["text",] == 4
    assert index["list",] == 8
    assert index["after",] == 17
    assert index["targets", "a.b", "command"] == 20
    assert index["launch", 0, "file"] == 22
    assert index["launch", 0, "more", "x"] == 24
    assert index["launch", 1] == 25
    assert index["launch", 1, "file"] == 26
    assert index["spaced", "header", "k"] == 28
    assert not [path for path in index if "inside-a-string" in path or "comment" in path or "key" in path]


def test_the_place_of_a_value_is_where_its_first_letter_stands():
    index = index_values(TRICKY)
    assert index["a", "b"] == ValuePlace(2, 7)
    assert index["quoted key",] == ValuePlace(3, 17, exact=True)
    assert index["text",] == ValuePlace(5, 1, exact=True)
    assert index["list",] == ValuePlace(8, 8)
    assert index["literal",] == ValuePlace(16, 1, exact=True)
    assert index["launch", 1, "file"] == ValuePlace(26, 11, exact=True)
    assert ("a",) not in index


def test_a_string_with_escapes_or_without_an_end_is_not_exact():
    index = index_values('a = "x\\ty"\nb = \'x\\ty\'\nc = ""\nd = "open\n')
    assert [index[name,].exact for name in "abcd"] == [False, True, True, False]


def test_what_is_not_indexed_answers_with_what_stands_around_it():
    index = index_lines(TRICKY)
    assert line_of(index, ("inline", "deep", "er")) == 18
    assert line_of(index, ("targets", "a.b", "nothing")) == 19
    assert line_of(index, ("nowhere",)) is None


_KEYS = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True)
_VALUES = st.one_of(
    st.integers(0, 9).map(str),
    st.text("ab[]{}#='\n ", max_size=8).map(lambda t: '"""' + t + '"""'),
    st.lists(st.sampled_from(["'['", "']'", "1", "'#'"]), max_size=3).map(lambda v: "[\n" + ",\n".join(v) + "\n]"),
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=3), max_size=3))
def test_every_key_of_a_generated_text_is_found_on_its_own_line(document):
    text = "".join(f"[{t}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()) for t, keys in document.items())
    parsed = tomllib.loads(text)
    index = index_lines(text)
    lines = text.splitlines()
    assert set(index) == {(t,) for t in parsed} | {(t, k) for t, keys in parsed.items() for k in keys}
    for path, number in index.items():
        assert lines[number - 1].startswith(f"[{path[0]}]" if len(path) == 1 else f"{path[1]} =")
