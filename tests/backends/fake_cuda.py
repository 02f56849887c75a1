"""CUDA tensors without a GPU: modules, graphs of them, and these graphs again on the CPU."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map_only

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.base import Lowered, LoweringRequest
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.options import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


def placed(value: torch.Tensor, mode: FakeTensorMode, device: torch.device) -> FakeTensor:
    sizes, strides = tuple(value.shape), value.stride()
    facts = torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return FakeTensor(mode, facts, device)


def moved(module: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """A module whose parameters, which are not differentiated, and buffers are on CUDA."""
    for part in module.modules():
        for name, value in part.named_parameters(recurse=False):
            on_cuda = placed(value.detach(), mode, CUDA)
            part._parameters[name] = nn.Parameter(on_cuda, requires_grad=False)
        for name, value in part.named_buffers(recurse=False):
            part._buffers[name] = placed(value, mode, CUDA)
    return module


@contextlib.contextmanager
def on_cpu(*nodes: torch.fx.Node) -> Iterator[None]:
    """Nodes of a CUDA graph as those of a CPU's, with CUDA's shapes and strides."""
    before = [(node, node.meta["val"], node.kwargs) for node in nodes if "val" in node.meta]
    for node, value, kwargs in before:
        node.meta["val"] = tree_map_only(FakeTensor, lambda t: placed(t, t.fake_mode, CPU), value)
        node.kwargs = tree_map_only(torch.device, lambda _: CPU, kwargs)
    try:
        yield
    finally:
        for node, value, kwargs in before:
            node.meta["val"], node.kwargs = value, kwargs


class Recorded:
    """What a backend, which is not to lower anything, said of a function's graphs on CUDA."""

    def __init__(
        self, backend: Any, function: Callable[..., Any], *inputs: torch.Tensor, **options: Any
    ) -> None:
        self.backend = backend
        self.journal = journals.Journal("g0")
        self.taken: list[torch.fx.GraphModule] = []
        self.options = dict(resolve(backend.name, backend.options, options))
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        if isinstance(function, nn.Module):
            function = moved(function, mode)
        compiler = Compiler(self, self.options)

        def journalled(graph: Any, given: Any) -> Any:
            with journals.active(self.journal):
                return compiler(graph, given)

        with mode, torch.no_grad():
            fakes = [placed(value, mode, CUDA) for value in inputs]
            self.result = torch.compile(function, backend=journalled)(*fakes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        self.taken.append(request.graph)
        return Lowered(request.graph.forward)

    @property
    def said(self) -> set[str]:
        return {each.message for each in self.journal.fallbacks.values()}

    @property
    def engines(self) -> set[str]:
        return {each.engine for each in self.journal.partitions.values()}

    def check_on_cpu(self) -> None:
        """Lower what was taken on the CPU, and compare the results with eager's."""
        for graph in self.taken:
            nodes = list(graph.graph.nodes)
            with on_cpu(*nodes), torch.no_grad():
                graph.recompile()
                fakes = [node.meta["val"] for node in nodes if node.op == "placeholder"]
                inputs = [_numbers(fake) for fake in fakes]
                expected = graph(*inputs)
                run = self.backend.lower(graph, fakes, self.options)
                for found, wanted in zip(run(*inputs), expected, strict=True):
                    allowed = 2e-2 if wanted.dtype is torch.float16 else 1e-4
                    torch.testing.assert_close(found, wanted, rtol=allowed, atol=allowed)


def _numbers(fake: torch.Tensor) -> torch.Tensor:
    """Small numbers, in vectors positive ones, which variances have to be, or indices below 3."""
    made = torch.empty_strided(tuple(fake.shape), fake.stride(), dtype=fake.dtype)
    if not fake.dtype.is_floating_point:
        return made.random_(0, 3)
    return made.uniform_(0.1 if fake.ndim == 1 else -0.5, 0.5)
