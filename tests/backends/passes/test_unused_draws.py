"""Random numbers that nothing uses are drawn all the same, so that later ones are eager's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional

import dynamo_ext

if TYPE_CHECKING:
    from collections.abc import Callable


def chained(x: torch.Tensor) -> torch.Tensor:
    _ = torch.rand(3) * 2
    return x * 2 + torch.rand(4)


def dropped(x: torch.Tensor) -> torch.Tensor:
    _ = functional.dropout(x, 0.5)
    return x.tanh()


def viewed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    _ = torch.rand(3)
    return x.view(2, 2), x * 2


@pytest.mark.parametrize("backend", ["aot_eager", "onnxrt"])
@pytest.mark.parametrize("function", [chained, dropped, viewed])
@pytest.mark.parametrize("grad", [False, True])
def test_the_generator_is_where_eager_leaves_it(
    backend: str, function: Callable[..., Any], grad: bool
) -> None:
    if backend == "onnxrt":
        pytest.importorskip("onnxruntime")

    def outcome(run: Callable[..., Any]) -> Any:
        torch.manual_seed(1)
        x = torch.ones(4, requires_grad=grad)
        found = [run(x) for _ in range(3)]
        return found, torch.get_rng_state()

    compiled = dynamo_ext.optimize(backend)(function)
    torch.testing.assert_close(outcome(compiled), outcome(function))
    [graph] = compiled.report().graphs
    assert graph.calls == 3
