"""A backend that fails after its graph has had effects: they come about once."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import journal
from dynamo_ext.widgets.progress import Waiting
from tests.capture.live import live


def compiler_raising_at(call: int) -> Any:
    """A compiler whose code runs the graph, and then raises in one call."""

    def compiler(graph: Any, inputs: Any) -> Any:
        calls = []

        def run(*args: Any) -> Any:
            calls.append(1)
            outputs = graph.forward(*args)
            if len(calls) == call:
                msg = "too late"
                raise RuntimeError(msg)
            return outputs

        return run

    return compiler


IN_PLACE = [
    operator.iadd,
    operator.ifloordiv,
    operator.ipow,
    operator.ilshift,
    operator.ixor,
    operator.imod,
]


@pytest.mark.parametrize("function", IN_PLACE)
def test_a_failed_first_call_leaves_eagers_result(function: Any) -> None:
    compiled = dynamo_ext.optimize(compiler_raising_at(1))(lambda x: function(x, 2) * 1)
    x, mine = torch.full((3,), 9), torch.full((3,), 9)
    expected = function(x, 2) * 1
    assert torch.equal(compiled(mine), expected)
    assert torch.equal(mine, x)
    (fallback,) = compiled.report().fallbacks
    assert (fallback.stage, fallback.exception) == ("run", "RuntimeError")


@pytest.mark.parametrize("function", IN_PLACE)
def test_a_later_one_raises_and_has_changed_things_once(function: Any) -> None:
    compiled = dynamo_ext.optimize(compiler_raising_at(2))(lambda x: function(x, 2) * 1)
    compiled(torch.full((3,), 9))
    x, mine = torch.full((3,), 9), torch.full((3,), 9)
    function(x, 2)
    with pytest.raises(RuntimeError, match="too late"):
        compiled(mine)
    assert torch.equal(mine, x)
    assert not compiled.report().fallbacks


@pytest.mark.parametrize("call", [1, 2])
def test_statistics_of_a_batch_norm_are_updated_once(call: int) -> None:
    statistics = torch.zeros(3), torch.ones(3)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, *statistics, training=True)

    compiled = dynamo_ext.optimize(compiler_raising_at(call))(norm)
    x = torch.arange(12.0).reshape(4, 3)
    if call == 1:
        compiled(x)
    else:
        compiled(x)
        statistics[0].zero_()
        with pytest.raises(RuntimeError, match="too late"):
            compiled(x)
    torch.testing.assert_close(statistics[0], x.mean(0) / 10)


@pytest.mark.parametrize("call", [1, 2])
def test_random_numbers_are_drawn_once(call: int) -> None:
    def drop(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x)

    compiled = dynamo_ext.optimize(compiler_raising_at(call))(drop)
    x = torch.ones(20)
    torch.manual_seed(3)
    expected = [drop(x), drop(x), torch.rand(2)]
    torch.manual_seed(3)
    found = [compiled(x), compiled(x), torch.rand(2)]
    torch.testing.assert_close(found, expected)
    assert [f.stage for f in compiled.report().fallbacks] == ["run"]


def test_what_a_backend_says_while_it_compiles_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(graph: Any, inputs: Any) -> Any:
        journal.tell("it compiles")
        journal.tell("")
        return graph.forward

    heard: list[str] = []
    monkeypatch.setattr(Waiting, "tell", lambda _, words, *__: heard.append(words))
    with live() as cells:
        cells.names.update(compiler=compiler, x=torch.ones(2))
        cells.well("%%dynamo -b compiler\nx + 1")
    at = heard.index("it compiles")
    assert heard[at - 1] == heard[at + 1], "what the graph is, before and afterwards"
    assert "with compiler" in heard[at + 1]
