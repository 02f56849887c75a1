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
    before = rewriter._DEFAULT_REWRITE_RULES
    x = torch.randn(3, 4)
    compiled = dynamo_ext.optimize("onnxrt")(lambda x: torch.cat([x[:, :2].sin(), x[:, 2:].cos()]))
    torch.testing.assert_close(compiled(x), torch.cat([x[:, :2].sin(), x[:, 2:].cos()]))
    assert rewriter._DEFAULT_REWRITE_RULES is before
    assert applied
    assert all(rule._matcher.pattern.has_single_output_node for rule in applied)
