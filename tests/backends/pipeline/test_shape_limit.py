"""Which input shapes get an engine, where an engine knows one shape alone."""

import pytest

from dynamo_ext.backends.pipeline.shape_limit import AT_ONCE, MOST_SHAPES, ShapeLimit


def built(lengths: list[int]) -> list[int]:
    """The lengths that get an engine, in their order."""
    limit, found = ShapeLimit(), list[int]()
    for each in lengths:
        if each not in found and not limit.refusal((each,), len(found)):
            found.append(each)
    return found


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([*range(1, 100)] * 2, [1, 2]),
        ([5, 5, 5, 3], [5, 3]),
        ([32, 7, 32, 9, 9], [32, 7, 9]),
        ([1, 4, 7] * 2, [1, 4, 7]),
        ([1, 4, 7, 9] * 2, [1, 4]),
    ],
    ids=["a length that grows", "a last batch", "twice in a row", "three sizes", "too early"],
)
def test_which_shapes_get_one(lengths: list[int], expected: list[int]) -> None:
    assert built(lengths) == expected


def test_there_are_most_of_them() -> None:
    lengths = [each for number in range(50) for each in (number, number)]
    assert len(built(lengths)) == MOST_SHAPES
    assert AT_ONCE < MOST_SHAPES
    assert "limit" in ShapeLimit().refusal((1,), MOST_SHAPES)
    assert "twice" in ShapeLimit().refusal((1,), AT_ONCE)
