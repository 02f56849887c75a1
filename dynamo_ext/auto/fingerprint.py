"""What makes two graphs the same to a race, and two machines the same place to have run it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.fx import GraphModule


def graph_key(graph: GraphModule, inputs: Sequence[Any], *, training: bool) -> str:
    """The identity of a graph's work: operators and their order, shapes, strides, dtypes, devices.

    Names do not count, nor do the values of tensors.

    Parameters
    ----------
    graph
        As Dynamo hands it over.
    inputs
        Tensors and sizes, one for each placeholder.
    training
        Whether a backward pass follows.
    """
    numbers: dict[Any, int] = {}
    lines: list[Any] = []
    for node in graph.graph.nodes:
        numbers[node] = len(numbers)
        target = node.op if node.op == "placeholder" else str(_target(graph, node))
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{numbers[n]}")
        shown = "" if node.op == "placeholder" else str(arguments)
        lines.append((node.op, target, shown))
    facts = [_facts(value) for value in inputs]
    text = json.dumps([lines, facts, training], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _target(graph: GraphModule, node: Any) -> Any:
    if node.op == "call_module":
        return repr(graph.get_submodule(node.target))
    if node.op == "get_attr":
        value: Any = graph
        for part in node.target.split("."):
            value = getattr(value, part)
        return _facts(value)
    name = getattr(node.target, "__name__", None)
    return f"{getattr(node.target, '__module__', '')}.{name}" if name else node.target


def _facts(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        shape = [str(size) for size in value.shape]
        strides = [str(step) for step in value.stride()] if value.layout is torch.strided else []
        return [str(value.dtype), value.device.type, shape, strides, value.requires_grad]
    return type(value).__name__ if isinstance(value, torch.SymInt) else repr(value)


def place_key(backends: Iterable[str], device: torch.device) -> str:
    """The machine and the software that a race's answer holds for, as readable text."""
    import dynamo_ext

    return json.dumps(
        {
            "device": device_model(device),
            "threads": torch.get_num_threads(),
            "dynamo_ext": dynamo_ext.__version__,
            "torch": str(torch.__version__),
            "backends": {name: version_of(name) for name in sorted(backends)},
        },
        sort_keys=True,
    )


@functools.cache
def version_of(backend: str) -> str:
    """The version of the engine behind a backend; empty where it has none of its own."""
    from dynamo_ext.backends import registry

    return registry.probe(registry.get(backend)).version


@functools.cache
def device_model(device: torch.device) -> str:
    """A device's model name: ``NVIDIA H100``, ``AMD EPYC (2 cores, AVX2)``.

    Virtual machines on several generations of a processor give it one name; which vector
    instructions it has tells them apart, and decides races.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name} ({os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()})"
