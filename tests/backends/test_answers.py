"""What an engine says of operations: asked once, and known for their likes alone."""

from __future__ import annotations

from typing import Any

import torch

from dynamo_ext.backends.answers import Answers
from dynamo_ext.backends.base import Support


def node(*shapes: tuple[int, ...], same: bool = False, dtype: Any = torch.float32) -> torch.fx.Node:
    graph = torch.fx.Graph()
    inputs = []
    for number, shape in enumerate(shapes):
        source = graph.placeholder(f"x{number}")
        source.meta["val"] = torch.ones(shape, dtype=dtype)
        inputs.append(source)
    made = graph.call_function(
        torch.ops.aten.sub.Tensor, (inputs[0], inputs[0] if same else inputs[-1])
    )
    made.meta["val"] = torch.ones(shapes[0], dtype=dtype)
    return made


def asking(
    objection: str = "", wrong: str = "", error: Exception | None = None
) -> tuple[Answers, list[torch.fx.Node]]:
    asked: list[torch.fx.Node] = []

    def attempt(each: torch.fx.Node) -> str:
        asked.append(each)
        if error is not None:
            raise error
        return wrong

    return Answers(lambda _: objection, attempt, lambda e: f"It said: {e}"), asked


def test_likes_are_asked_once() -> None:
    answers, asked = asking()
    assert answers(node((3, 4), (3, 4))) == Support(supported=True)
    assert answers(node((5, 6), (5, 6)))
    assert len(asked) == 1
    answers(node((3,), (3,)))
    answers(node((3, 4), (3, 4), dtype=torch.int64))
    assert len(asked) == 3


def test_one_input_twice_is_another_matter_than_two() -> None:
    answers, asked = asking()
    answers(node((3, 4), (3, 4), same=True))
    answers(node((3, 4), (3, 4)))
    assert len(asked) == 2


def test_what_is_wrong_is_the_reason_and_errors_are_put_in_words() -> None:
    answers, _ = asking(wrong="3 values differ")
    assert answers(node((3,), (3,))) == Support(supported=False, reason="3 values differ")
    answers, asked = asking(error=ValueError("no kernel"))
    for _ in range(2):
        assert answers(node((3,), (3,))).reason == "It said: no kernel"
    assert len(asked) == 1


def test_an_objection_keeps_it_from_being_tried() -> None:
    answers, asked = asking(objection="Never that.")
    assert answers(node((3,), (3,))) == Support(supported=False, reason="Never that.")
    assert not asked
