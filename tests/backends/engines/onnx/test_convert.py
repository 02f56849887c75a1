"""What is done to an ONNX model before an engine takes it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynamo_ext

rewriter = pytest.importorskip("onnxscript.rewriter")


def test_no_rule_compares_every_node_with_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule whose pattern has several outputs does: 24 layers of symbolic sizes took minutes."""
    applied: list[Any] = []
    call = rewriter.RewritePass.call

    def noted(self: Any, model: Any) -> Any:
        applied.extend(self.rules.rules)
        return call(self, model)

    monkeypatch.setattr(rewriter.RewritePass, "call", noted)
    x = torch.randn(3, 4)
    compiled = dynamo_ext.optimize("onnxrt")(lambda x: torch.cat([x[:, :2].sin(), x[:, 2:].cos()]))
    torch.testing.assert_close(compiled(x), torch.cat([x[:, :2].sin(), x[:, 2:].cos()]))
    assert applied
    assert all(rule._matcher.pattern.has_single_output_node for rule in applied)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x: x.clamp(0, 0.5) * 2, id="an integer beside a float"),
        pytest.param(
            lambda x: x.clamp(0, 1) + x.clamp(-1, 0.1) + x.clamp(0, 1), id="three of one value"
        ),
    ],
)
def test_clamps_stay_in_the_engine(fn: Any) -> None:
    x, compiled = torch.tensor(0.9), dynamo_ext.optimize("onnxrt", options={"min_partition": 1})(fn)
    torch.testing.assert_close(compiled(x), fn(x))
    assert compiled.report().fallbacks == ()
