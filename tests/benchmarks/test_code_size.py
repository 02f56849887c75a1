import ast
import tomllib

from benchmarks import code_size


def test_counts():
    code = """
import torch
import torch._dynamo as dynamo
from torch._guards import Guard
from torch.nn import Module
from ours import _helper
@patches(Module, "_b")
@other
def b(): ...
@patches(Guard, "a")
def a(): ...
dynamo.config.patch(a=1)
Module._forward, Module.__init__, torch._C._get()._other, _helper.b, torch.ops.aten
"""
    assert len(code_size.patches(ast.parse(code))) == 2
    assert code_size.private_names(ast.parse(code)) == {
        "torch._dynamo.config.patch",
        "torch._guards.Guard.a",
        "torch.nn.Module._b",
        "torch.nn.Module._forward",
        "torch._C._get",
    }


def test_nothing_grows():
    most = tomllib.loads((code_size.ROOT / "size.toml").read_text())
    found = code_size.counts()
    assert found.keys() == most.keys()
    assert {name: found[name] for name in most if found[name] > most[name]} == {}
