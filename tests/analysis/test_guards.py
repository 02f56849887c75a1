"""Guards as sentences, made from the facts of a record."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_ext.analysis.guards import actual, condition, expected
from dynamo_ext.records.capture import Guard, Recompile

TENSOR = {"dtype": "float32", "device": "cpu"}


@pytest.mark.parametrize(
    ("kind", "facts", "words"),
    [
        ("EQUALS_MATCH", {"expected": "3"}, "`n` must stay 3"),
        ("CONSTANT_MATCH", {"expected": "'sum'"}, "`n` must stay 'sum'"),
        ("LIST_LENGTH", {"expected": "4", "is_length": True}, "`n` must keep its length of 4"),
        ("TYPE_MATCH", {"expected": "int"}, "`n` must stay of type int"),
        ("BOOL_MATCH", {"expected": "True"}, "`n` must stay True"),
        ("ID_MATCH", {"code": ("check(n)",)}, "`n` must stay the same object"),
        ("GRAD_MODE", {}, "gradient mode must stay as it was"),
        ("NEW_KIND", {}, "`n` must pass NEW_KIND"),
        ("NEW_KIND", {"code": ("cond(L['n'])  # some/file.py:3",)}, "`n`: cond(L['n'])"),
        ("DUPLICATE_INPUT", {}, "`n` must stay the same object as its other name"),
        ("DUPLICATE_INPUT", {"expected": "torch.nn"}, "`n` must stay the same object as `torch.nn`"),
        ("DUPLICATE_INPUT", TENSOR | {"expected": "x"}, "`n` must stay the same tensor as `x`"),
        ("DUPLICATE_INPUT", TENSOR, "`n` must stay the same tensor as its other name"),
        ("TENSOR_MATCH", {}, "`n` must keep its dtype, device and shape"),
        ("TENSOR_MATCH", TENSOR | {"shape": ("2", "3")},
         "`n` must stay a float32 tensor on the CPU of shape (2, 3)"),
        ("TENSOR_MATCH", TENSOR | {"shape": ("s0",), "requires_grad": True},
         "`n` must stay a float32 tensor on the CPU of shape (any,), requiring grad"),
        ("TENSOR_MATCH", {"dtype": "int64", "device": "cuda:0"},
         "`n` must stay an int64 tensor on cuda:0 of shape ()"),
    ],
)  # fmt: skip
def test_conditions_are_sentences(kind: str, facts: dict[str, Any], words: str) -> None:
    assert condition(Guard("0/0", "n", "L['n']", kind, subject="n", **facts)) == words


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"expected": "3", "actual": "5"}, ("3", "5")),
        ({"expected": "3", "actual": "2", "bound": "least"}, ("at least 3", "2")),
        ({"expected": "True", "actual": "False", "kind": "grad"},
         ("requires_grad=True", "requires_grad=False")),
        ({"expected": "", "actual": "f", "is_object": True, "actual_type": "function"},
         ("the same object", "another one (f)")),
        ({"expected": "", "actual": "", "is_object": True, "actual_type": "Net"},
         ("the same object", "another Net")),
    ],
)  # fmt: skip
def test_failures_are_words(facts: dict[str, Any], words: tuple[str, str]) -> None:
    found = Recompile("0/0", "f", "n == 3", "n", **facts)
    assert (expected(found), actual(found)) == words
