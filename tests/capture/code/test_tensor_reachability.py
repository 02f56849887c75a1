"""Which code may have to do with tensors."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch

from dynamo_ext.capture.code import tensor_reachability

CYCLE: list[Any] = []
CYCLE.append(CYCLE)


def uses(v: Any) -> Any:
    return torch.sin(v)


def plain(v: int) -> int:
    return math.isqrt(v) + 1


def calls_uses(v: Any) -> Any:
    return uses(v)


def recursive(n: int) -> int:
    return recursive(n - 1) if n else 0


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class Method:
    def go(self, v: Any) -> Any:
        return uses(v)


def closed_over() -> Any:
    t = torch.ones(1)
    return lambda: t + 1


def reached(text: str, **names: Any) -> bool:
    return tensor_reachability.reaches_tensors(compile(text, "<cell>", "exec"), names)


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(1),
        torch.nn.Linear(1, 1),
        torch,
        torch.float32,
        torch.sin,
        torch.nn.Linear,
        [torch.ones(1)],
        {"a": (1, torch.ones(1))},
        uses,
        calls_uses,
        functools.partial(uses, 1),
        functools.partial(print, torch.ones(1)),
        closed_over(),
        Holder(torch.ones(1)),
        Holder([torch.ones(1)]),
        Method(),
        Method,
        Method().go,
        torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1),
    ],
)
def test_tensors_are_found(value: Any) -> None:
    assert reached("y = f", f=value)


@pytest.mark.parametrize(
    "value",
    [1, "torch", None, [1, 2], {"a": 1}, math, math.sqrt, plain, recursive, Holder(1), Holder,
     functools.partial(plain, 2), range(3), print, CYCLE],
)  # fmt: skip
def test_plain_python_is_left_alone(value: Any) -> None:
    assert not reached("y = f", f=value)


def test_names_of_inner_code_count() -> None:
    assert reached("y = [t + i for i in range(3)]", t=torch.ones(1))
    assert reached("y = lambda: (lambda: t)", t=torch.ones(1))


def test_what_is_not_read_does_not_count() -> None:
    assert not reached("y = 1", t=torch.ones(1))
    assert not reached("y = missing + 1")


def test_a_huge_list_of_numbers_is_quick() -> None:
    assert not reached("y = f", f=list(range(10**6)))


def test_a_tensor_is_seen_before_what_other_names_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_reachability, "_is_librarys", None)
    assert reached("f.plot(t)", f=Holder(1), t=torch.ones(1))


def test_a_hostile_object_does_no_harm() -> None:
    class Hostile:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    assert reached("y = f", f=Hostile()) in (True, False)
