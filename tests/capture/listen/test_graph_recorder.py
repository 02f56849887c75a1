"""A backend that fails after its graph has had effects: they come about once."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import journal
from dynamo_ext.widgets.progress import Waiting
from tests.backends.pipeline.test_whole_graph import raising
from tests.capture.live import live

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
    compiled = dynamo_ext.optimize(raising(lambda call: call == 1))(lambda x: function(x, 2) * 1)
    x, mine = torch.full((3,), 9), torch.full((3,), 9)
    expected = function(x, 2) * 1
    assert torch.equal(compiled(mine), expected)
    assert torch.equal(mine, x)
    (fallback,) = compiled.report().fallbacks
    assert (fallback.stage, fallback.exception) == ("run", "RuntimeError")


@pytest.mark.parametrize("function", IN_PLACE)
def test_a_later_one_raises_and_has_changed_things_once(function: Any) -> None:
    compiled = dynamo_ext.optimize(raising(lambda call: call == 2))(lambda x: function(x, 2) * 1)
    compiled(torch.full((3,), 9))
    x, mine = torch.full((3,), 9), torch.full((3,), 9)
    function(x, 2)
    with pytest.raises(RuntimeError, match="too late"):
        compiled(mine)
    assert torch.equal(mine, x)
    assert not compiled.report().fallbacks


def test_what_a_backend_says_while_it_compiles_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(graph: Any, inputs: Any) -> Any:
        journal.current().tell("it compiles")
        journal.current().tell("")
        return graph.forward

    heard: list[str] = []
    monkeypatch.setattr(Waiting, "tell", lambda _, words, *__: heard.append(words))
    with live() as cells:
        cells.names.update(compiler=compiler, x=torch.ones(2))
        cells.well("%%dynamo -b compiler\nx + 1")
    at = heard.index("it compiles")
    assert heard[at - 1] == heard[at + 1], "what the graph is, before and afterwards"
    assert "with compiler" in heard[at + 1]
