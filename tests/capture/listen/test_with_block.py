"""What a ``with`` block calls by name."""

from __future__ import annotations

import sys
from typing import Self

import torch

import dynamo_ext
from dynamo_ext.capture.listen.with_block import functions_called_in

X = torch.ones(3)


def given_up(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        torch._dynamo.graph_break()
        x = x * float(x.sum())
    return x


def other(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return given_up(x)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class Span:
    def __enter__(self) -> Self:
        self.frame = sys._getframe(1)
        self.start = self.frame.f_lasti
        return self

    def __exit__(self, *_: object) -> None:
        self.called = functions_called_in(self.frame, self.start, self.frame.f_lasti)


def test_functions_modules_and_methods_of_the_block_alone() -> None:
    net = Net()
    other(X)
    with Span() as span:
        given_up(net(X))
        net.encode(X)
    other(X)
    assert set(span.called) == {given_up.__code__, Net.forward.__code__, Net.encode.__code__}


def test_constants_and_names_without_a_value_are_no_calls() -> None:
    with Span() as span:
        _ = "other", [len(each) for each in ("given_up",)]
    assert span.called == []


def test_a_block_tells_of_what_an_earlier_one_gave_up() -> None:
    for _ in range(2):
        with dynamo_ext.optimize("eager") as session:
            given_up(X)
        (fallback,) = [f for f in session.report.fallbacks if f.scope == "frame"]
        assert fallback.stage == "capture"
    with dynamo_ext.optimize("eager") as session:
        other(X)
    assert not session.report.fallbacks
    given_up(X)
