"""Calls that end the graph."""

from typing import Any

import pytest
import torch

import dynamo_ext


def takes(**named: Any) -> Any:
    return named["a"] * 2


FIRST, SECOND = {"b": 1}, {"b": 2}


def twice(x: torch.Tensor) -> Any:
    return takes(a=x + 1, **FIRST, **SECOND)


def beside(x: torch.Tensor) -> Any:
    return takes(a=x + 1, b=1, **FIRST)


def once(x: torch.Tensor) -> Any:
    given = {"a": x + 1}
    return takes(**given, **FIRST) + len({**FIRST, **SECOND})


@pytest.mark.parametrize("function", [twice, beside])
def test_a_keyword_that_is_given_twice_is_an_error(function: Any) -> None:
    fast = dynamo_ext.optimize("eager")(function)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'b'"):
        fast(torch.ones(2))


def test_keywords_of_several_dictionaries_are_captured() -> None:
    fast = dynamo_ext.optimize("eager", fullgraph=True)(once)
    assert torch.equal(fast(torch.ones(2)), once(torch.ones(2)))
