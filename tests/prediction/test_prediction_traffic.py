import pytest

from tritonforge.domain.launch import CallSite, Config, Items, Launch, Problem, Scalar, Tensor
from tritonforge.prediction import unique_bytes
from tritonforge.prediction.traffic import element_bytes


def launch(**arguments):
    site = CallSite("k.py", 1, "f")
    return Launch("l", "k.py", "k", Problem(tuple(arguments.items())), Config((), (), (1, 1, 1)), site)


def tensor(shape, strides, dtype="float32", buffer=-1, offset=0):
    return Tensor(shape, strides, dtype, buffer=buffer, offset=offset)


def test_distinct_tensors_add_up():
    assert unique_bytes(launch(x=tensor((10, 10), (10, 1)), y=tensor((8,), (1,), "float16"), n=Scalar(10))) == 416


def test_a_broadcast_dimension_counts_once():
    assert unique_bytes(launch(x=tensor((100, 10), (0, 1)))) == 40


def test_overlapping_windows_count_their_span():
    assert unique_bytes(launch(x=tensor((100, 8), (1, 1)))) == 4 * 107


def test_the_same_tensor_twice_counts_once():
    x = tensor((64,), (1,), buffer=0)
    assert unique_bytes(launch(x=x, y=x)) == 256


def test_a_view_inside_another_adds_nothing():
    assert unique_bytes(launch(x=tensor((64,), (1,), buffer=0), y=tensor((8,), (1,), buffer=0, offset=8))) == 256


def test_two_halves_of_one_storage_add_up():
    assert unique_bytes(launch(x=tensor((32,), (1,), buffer=0), y=tensor((32,), (1,), buffer=0, offset=32))) == 256


def test_a_strided_column_counts_its_elements_only():
    assert unique_bytes(launch(x=tensor((100,), (1000,)))) == 400


def test_tensors_inside_tuples_count_and_empty_ones_do_not():
    inside = Items("tuple", (tensor((4,), (1,)), Scalar(None)))
    assert unique_bytes(launch(x=inside, y=tensor((0, 5), (5, 1), buffer=3))) == 16


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("float32", 4),
        ("bfloat16", 2),
        ("float8_e4m3fn", 1),
        ("int64", 8),
        ("bool", 1),
        ("complex64", 8),
        ("strange", 4),
    ],
)
def test_element_sizes_follow_from_names(dtype, size):
    assert element_bytes(dtype) == size
