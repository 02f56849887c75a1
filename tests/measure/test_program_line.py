"""The line that a report gives for a program, and that it works there."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.backends import registry


@pytest.mark.parametrize(
    ("name", "options", "dynamic", "line"),
    [
        ("ts", {}, None, 'torch.compile(model, backend="dx_ts")'),
        (
            "aot_eager",
            {"precision": "bf16"},
            True,
            (
                """torch.compile(model, backend="dx_aot_eager", dynamic=True, """
                """options={'precision': 'bf16'})"""
            ),
        ),
        ("eager", {}, None, ""),
    ],
)
def test_it_has_what_was_asked_for(name, options, dynamic, line):
    compiler = registry.compiler(name, options)
    found = registry.program_line(compiler, dynamic)
    assert found == line
    if found:
        model = torch.nn.Linear(2, 2)
        compiled = eval(found, {"torch": torch, "model": model})
        assert torch.allclose(compiled(torch.ones(1, 2)), model(torch.ones(1, 2)), atol=0.1)


def test_what_torch_compile_does_not_know_has_none():
    assert registry.program_line(lambda graph, _: graph) == ""
