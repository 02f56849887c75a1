"""One operation in an engine and in eager, on made-up data: the surest answer there is.

A translator may take an operation and get it wrong (NaN, signs, overflow, arguments that it
drops, an error that it does not raise), so that a translation alone says little.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.base import Lowered, LoweringRequest, RunThisCallEagerlyError
from dynamo_ext.backends.support import ties
from dynamo_ext.backends.support.single_op import (
    alone,
    operator_name,
    scatter_into,
    set_meta_values,
    size,
    tensor_inputs,
)
from dynamo_ext.interruptions import failures, suppressed
from dynamo_ext.numerics import verdict

Lower = Callable[[LoweringRequest], Lowered]
Plan = Iterator[tuple[str, list[torch.Tensor]]]

_BLOCK = 2**14
"""Elements that are made up; larger inputs repeat them."""

_SPECIAL_VALUES: dict[str, tuple[float, ...]] = {
    "ordinary": (0.0, 0.5, -0.5, 1.5, 2.5, -1.0, 0.0, 1.0),
    "wide": (1e4, -1e4, 1e-4, -1e-4, 120.0, -120.0, 0.0, 30.0),
    "NaN": (1.0, float("nan"), -1.0),
    "infinite": (1.0, float("inf"), -2.0, float("-inf")),
}
"""Kinds of values, and those of each kind that are put in among random ones."""

_RANGES = {"extreme": (), "negative": (-3, 5), "few": (0, 3), "binary": (0, 2), "zero": (0, 1)}
"""Half-open ranges of integers; the first in which eager finds no fault serves as indices."""

_WEIGHTS_FOLLOW = (
    "aten::_native_batch_norm",
    "aten::convolution",
    "aten::native_group_norm",
    "aten::native_layer_norm",
)
"""Operators whose other inputs are weights and statistics, finite where anything is."""

_UNLIKE = {
    "aten::gelu": ("infinite",),
    "aten::var_mean": ("infinite",),
    # It loses NaN in some places, by how it divides its work.
    "aten::_scaled_dot_product_flash_attention_for_cpu": ("NaN", "infinite"),
}
"""Operators, and values that torch's own kernels answer differently, by build or by shape."""

_UNCHECKED = ("_backward", "_ctc_loss", "_embedding_bag", "linalg_l", "lu_", "segment_reduce")
"""Operators whose kernels, torch's own among them, trust the indices that they are given."""

_FEW = 16
"""Elements that a trial looks at: with fewer in a tensor it looks at several tensors."""

_MOST_REPEATS = 4


def disagreement(node: Node, lower: Lower, engine: str, *, strict: bool = False) -> str:
    """What an engine gets wrong about one operation, as a sentence; empty where nothing shows.

    The inputs of ``node``, in a normalised graph, have values in ``meta``. ``lower`` is asked for
    a graph of that one operation, without options; ``engine`` is the name in the sentence. With
    ``strict`` it tries also what torch's own kernels answer differently, and small tensors more
    often.

    Raises ``RuntimeError`` where eager takes none of the data, perhaps for want of memory, what
    eager raises for want of memory, and whatever ``lower`` raises, and the engine on data that
    eager takes.
    """
    sources = tensor_inputs(node)
    name = operator_name(node.target)
    if any(word in name for word in _UNCHECKED) and any(map(_holds_integers, sources)):
        return "A wrong index would end the process, so it cannot be tried."
    graph = alone(node, sources)
    run: Callable[..., Sequence[Any]] | None = None
    refused: list[list[Any]] = []
    with torch.no_grad():
        for name, data in _attempts(node, sources, strict=strict):
            try:
                expected = _expected(graph, data)
            except failures() as error:
                if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
                    raise
                # Eager has no result for such data.
                refused.append(data)
                continue
            if run is None:
                set_meta_values(graph, data, expected)
                run = lower(LoweringRequest(graph, data, {})).run
            kept, wrong = [value.clone() for value in data], ""
            # It is raised by an engine that leaves such data to eager.
            with suppressed(RunThisCallEagerlyError):
                wrong = ties.disagreement(graph, data, list(run(*data)), expected)
            if wrong:
                return f"{engine} gives something else on {name} values: {wrong}"
            if verdict.disagreement(data, kept):
                return f"{engine} changes its inputs."
        if run is None:
            message = "No data were found to try it on."
            raise RuntimeError(message)
        for data in refused:
            with suppressed(Exception):
                run(*data)
                return f"{engine} gives numbers where torch raises an error."
    return ""


def _expected(graph: GraphModule, data: Sequence[torch.Tensor]) -> list[Any]:
    """Eager's results; the CPU, which raises where an index is wrong, is asked before a GPU.

    There a wrong index ends every later use of the device by the process.
    """
    if any(value.is_cuda for value in data) and not all(
        value.is_floating_point() for value in data
    ):
        graph(*[value.cpu() for value in data])
    return list(graph(*[value.clone() for value in data]))


def _holds_integers(node: Node) -> bool:
    kind = node.meta["val"].dtype
    return not (kind.is_floating_point or kind.is_complex or kind is torch.bool)


def _attempts(node: Node, sources: Sequence[Node], *, strict: bool) -> Plan:
    """Names and data to try, in order."""
    kinds = [n.meta["val"].dtype for n in sources]
    floats = [kind.is_floating_point or kind.is_complex for kind in kinds]
    integers = any(map(_holds_integers, sources))
    name = operator_name(node.target)
    unlike = (found for start, found in _UNLIKE.items() if name.startswith(start) and not strict)
    left_out = next(unlike, ())
    edges = [edge for edge in _SPECIAL_VALUES if edge not in left_out]
    if not any(floats) and torch.bool not in kinds:
        edges = ["ordinary"]
    smallest = min((math.prod(map(size, n.meta["val"].shape)) for n in sources), default=_FEW)
    # So often that enough elements are looked at.
    repeats = min(-(-_FEW // max(smallest, 1)), _FEW if strict else _MOST_REPEATS)
    ranges = _RANGES if integers else ("few",)
    for whole, edge, seed in itertools.product(ranges, edges, range(repeats)):
        if whole == "extreme" and edge != "ordinary":
            continue
        generator = torch.Generator().manual_seed(seed)
        data = []
        for position, source in enumerate(sources):
            # Weights and statistics are of ordinary values.
            follows = position and name.startswith(_WEIGHTS_FOLLOW)
            data.append(_values(source, "ordinary" if follows else edge, whole, generator))
        yield (whole if not any(floats) and integers else edge), data


def _values(source: Node, name: str, whole: str, generator: torch.Generator) -> torch.Tensor:
    """A tensor of ordinary values, with those of a name in some places."""
    facts = source.meta["val"]
    kind, shape = facts.dtype, tuple(map(size, facts.shape))
    total = math.prod(shape)
    count = min(total, _BLOCK)
    if kind is torch.bool:
        flat = torch.rand(count, generator=generator) > 0.5  # noqa: PLR2004 - even chances
        if name in ("NaN", "infinite"):
            flat.fill_(name == "NaN")
    elif not (kind.is_floating_point or kind.is_complex):
        flat = _integers(whole, kind, count, generator)
    else:
        width = 50.0 if name == "wide" else 2.0
        values = torch.randn(count, generator=generator) * width
        flat = scatter_into(values, torch.tensor(_SPECIAL_VALUES[name]), generator).to(kind)
    if total > count:
        flat = flat.repeat(-(-total // count))[:total]
    return flat.reshape(shape).to(facts.device)


def _integers(
    whole: str, kind: torch.dtype, count: int, generator: torch.Generator
) -> torch.Tensor:
    facts = torch.iinfo(kind)
    if whole != "extreme":
        low, high = _RANGES[whole]
        return torch.randint(max(low, facts.min), high, (count,), generator=generator).to(kind)
    # Never all of it: the least integer divided by -1 ends a process on some machines.
    values = torch.randint(2, 100, (count,), generator=generator).to(kind)
    root = 1 << (facts.bits // 2)
    edges = (facts.max, facts.min, root, facts.max // 2 + 1, root + 1, 7)
    return scatter_into(values, torch.tensor(edges, dtype=kind), generator)
