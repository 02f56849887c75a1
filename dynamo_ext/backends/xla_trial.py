"""One operation in XLA and in eager, on made-up data: the surest answer there is.

torchax's lowerings are many and of mixed quality (dtypes, NaN, negative steps), so that an
entry in its table says little. A trial takes some 50 ms, once for all nodes that are alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    torch_private,
    verify,
    xla_function,
    xla_indexing,
    xla_lowerings,
    xla_session,
    xla_views,
)
from dynamo_ext.backends.answers import Answers
from dynamo_ext.backends.single_operation import (
    alone,
    note,
    operator_name,
    results,
    size,
    strewn,
    tensor_inputs,
)

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

    from dynamo_ext.backends.base import Support

_BLOCK = 2**14
"""Elements that are made up; larger inputs repeat them."""

_FEW = 16
"""Elements that a trial looks at: with fewer in a tensor it looks at several tensors."""

_EDGES: dict[str, tuple[float, ...]] = {
    "ordinary": (0.0, 0.5, -0.5, 1.5, 2.5, -1.0, 0.0, 1.0),
    "positive": (1.0, 0.5, 2.0, 1.5),
    "wide": (1e4, -1e4, 1e-4, -1e-4, 120.0, -120.0, 0.0, 30.0),
    "NaN": (1.0, float("nan"), -1.0),
    "infinite": (1.0, float("inf"), -2.0, float("-inf")),
}
_DATA_FIRST = (
    # Operators whose other inputs are weights and statistics, finite where anything is.
    "aten::_native_batch_norm",
    "aten::native_layer_norm",
    "aten::native_group_norm",
    # A weight that is not finite also spoils the padding here, and in eager it does not.
    "aten::convolution",
)
_FINITE = (
    # How far NaN and infinity spread in eager's kernel depends on the order in which it walks.
    "aten::_scaled_dot_product",
    "aten::var_mean",
)


def support(node: Node) -> Support:
    """Whether XLA gives what eager gives for a node of a normalised graph, by trying it."""
    return _answers(node)


def _attempt(node: Node) -> str:
    name = operator_name(node.target)
    if xla_lowerings.lowering(node.target) is None:
        return f"torchax has no lowering for {name}, nor have we."
    if name in xla_views.OWN:
        return ""
    with torch_private.outside_modes(), xla_lowerings.quiet():
        return _disagreement(node, name)


def _objection(node: Node) -> str:
    """Why a node cannot be given to XLA, as far as shows without trying; or nothing."""
    import torch

    denial = xla_lowerings.denial(node.target)
    if denial:
        return denial
    if xla_indexing.unchecked(operator_name(node.target)):
        return "XLA would not raise where an index is out of range."
    devices = set()
    for tensor in (*results(node), *(s.meta.get("val") for s in node.all_input_nodes)):
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return "XLA takes dense tensors only."
        if tensor.dtype not in xla_function.dtypes():
            return f"This XLA backend does not take {str(tensor.dtype).removeprefix('torch.')}."
        devices.add(tensor.device.type)
    if len(devices) > 1:
        return "Its tensors lie on several devices."
    return _device_objection(*devices)


def _device_objection(kind: str = "cpu") -> str:
    if kind not in ("cpu", "cuda"):
        return f"This XLA backend does not run on {kind} devices."
    try:
        xla_session.client(kind)
    except Exception:  # noqa: BLE001 - JAX raises many kinds where a platform is missing
        return f"JAX has no {kind} device here."
    return ""


def _disagreement(node: Node, name: str) -> str:
    """What XLA gets wrong about one operation, as a sentence; empty where nothing shows."""
    import torch

    sources = tensor_inputs(node)
    graph = alone(node, sources)
    smallest = min((math.prod(map(size, n.meta["val"].shape)) for n in sources), default=_FEW)
    repeats = -(-_FEW // max(smallest, 1))
    run: Any = None
    with torch.no_grad():
        for kind in _EDGES if sources else ["ordinary"]:
            if kind in ("NaN", "infinite") and name.startswith(_FINITE):
                continue
            for seed in range(repeats):
                data = _data(node, sources, name, kind, seed)
                try:
                    expected = list(graph(*data))
                except Exception:  # noqa: BLE001, S112 - eager refuses these data: they cannot come
                    continue
                if run is None:
                    note(graph, data, expected)
                    run = xla_session.Once(graph).run
                kept = [value.clone() for value in data]
                wrong = verify.disagreement(run(*data), expected)
                if wrong:
                    return f"XLA gives something else on {kind} values: {wrong}"
                if verify.disagreement(data, kept):
                    return "XLA changes its inputs."
    return "" if run is not None else "No data were found to try it on."


def _data(node: Node, sources: list[Node], name: str, kind: str, seed: int) -> list[torch.Tensor]:
    """One tensor for each input; those that are indices lie within their range."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    limits = xla_indexing.limits(node, name)
    made = []
    for position, source in enumerate(sources):
        facts = source.meta["val"]
        shape = tuple(map(size, facts.shape))
        if source in limits and facts.dtype is not torch.bool:
            value = torch.randint(max(limits[source], 1), shape, generator=generator)
            made.append(value.to(facts.dtype).to(facts.device))
            continue
        later = position and name.startswith(_DATA_FIRST)
        value = _made(shape, facts.dtype, "positive" if later else kind, generator)
        made.append(value.to(facts.device))
    return made


def _made(
    shape: tuple[int, ...], dtype: torch.dtype, kind: str, generator: torch.Generator
) -> torch.Tensor:
    """A tensor of ordinary values, with those of a kind strewn in."""
    import torch

    total = math.prod(shape)
    count = min(total, _BLOCK)
    if dtype is torch.bool:
        flat = torch.rand(count, generator=generator) > 0.5  # noqa: PLR2004 - even chances
        if kind in ("NaN", "infinite"):
            flat.fill_(kind == "NaN")
    elif not dtype.is_floating_point:
        flat = _integers(count, dtype, kind, generator)
    else:
        values = torch.randn(count, generator=generator) * (50.0 if kind == "wide" else 2.0)
        if kind == "positive":
            values = values.abs() + 0.1
        flat = strewn(values, torch.tensor(_EDGES[kind]), generator).to(dtype)
    if total > count:
        flat = flat.repeat(-(-total // max(count, 1)))[:total]
    return flat.reshape(shape)


def _integers(
    count: int, dtype: torch.dtype, kind: str, generator: torch.Generator
) -> torch.Tensor:
    import torch

    facts = torch.iinfo(dtype)
    if kind in ("ordinary", "positive"):
        low = 1 if kind == "positive" else max(-7, facts.min)
        return torch.randint(low, 8, (count,), generator=generator).to(dtype)
    if kind == "wide":
        return torch.randint(facts.min, facts.max, (count,), generator=generator, dtype=dtype)
    edges = torch.tensor([facts.min, facts.max, 0, 1, facts.max - 1, facts.max // 2], dtype=dtype)
    chosen = torch.randint(len(edges), (count,), generator=generator)
    return edges[chosen]


_answers = Answers(_objection, _attempt, xla_lowerings.complaint)
