"""One operation in OpenVINO and in eager, on made-up data: the surest answer there is.

The frontend converts much that it gets wrong (NaN, signs, arguments that it drops), so that a
conversion alone says little. A trial takes about 20 ms, once for all nodes that are alike.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import openvino_session, verify
from dynamo_ext.backends.single_operation import (
    alone,
    note,
    operator_name,
    size,
    strewn,
    tensor_inputs,
)

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

_BLOCK = 2**14
"""Elements that are made up; larger inputs repeat them."""

_EDGES = {
    "ordinary": (0.0, 0.5, -0.5, 1.5, 2.5, -1.0, 0.0, 1.0),
    "wide": (1e4, -1e4, 1e-4, -1e-4, 120.0, -120.0, 0.0, 30.0),
    "NaN": (1.0, float("nan"), -1.0),
    "infinite": (1.0, float("inf"), -2.0, float("-inf")),
}
_DATA_FIRST = (
    "aten::_native_batch_norm",
    "aten::convolution",
    "aten::native_layer_norm",
    "aten::native_group_norm",
)
"""Operators whose other inputs are weights and statistics, finite where anything is."""

_FEW = 16
"""Elements that a trial looks at: with fewer in a tensor it looks at several tensors."""


def disagreement(node: Node) -> str:
    """What OpenVINO gets wrong about one operation, as a sentence; empty where nothing shows.

    Parameters
    ----------
    node
        Of a normalised graph; its inputs have values in ``meta``.

    Raises
    ------
    Exception
        Whatever the frontend or the engine raises.
    """
    import torch

    sources = tensor_inputs(node)
    graph = alone(node, sources)
    shapes = [tuple(size(s) for s in n.meta["val"].shape) for n in sources]
    kinds = [n.meta["val"].dtype for n in sources]
    smallest = min((math.prod(shape) for shape in shapes), default=_FEW)
    repeats = -(-_FEW // max(smallest, 1))
    session: Any = None
    with torch.no_grad():
        for name, seed in itertools.product(_EDGES if sources else ["ordinary"], range(repeats)):
            generator = torch.Generator().manual_seed(seed)
            names = [name] * len(sources)
            if operator_name(node.target).startswith(_DATA_FIRST):
                names[1:] = ["ordinary"] * (len(sources) - 1)
            data = list(map(_made, shapes, kinds, names, itertools.repeat(generator)))
            try:
                expected = list(graph(*data))
            except Exception:  # noqa: BLE001, S112 - eager refuses these data, so they cannot come
                continue
            if session is None:
                note(graph, data, expected)
                session = openvino_session.Session(graph, {})
            kept = [value.clone() for value in data]
            wrong = verify.disagreement(session.run(*data), expected)
            if wrong:
                return f"OpenVINO gives something else on {name} values: {wrong}"
            if verify.disagreement(data, kept):
                return "OpenVINO changes its inputs."
    return "" if session is not None else "No data were found to try it on."


def _made(
    shape: tuple[int, ...], kind: torch.dtype, name: str, generator: torch.Generator
) -> torch.Tensor:
    """A tensor of ordinary values, with those of a name strewn in."""
    import torch

    total = math.prod(shape)
    count = min(total, _BLOCK)
    if kind is torch.bool:
        flat = torch.rand(count, generator=generator) > 0.5  # noqa: PLR2004 - even chances
        if name in ("NaN", "infinite"):
            flat.fill_(name == "NaN")
    else:
        width = 50.0 if name == "wide" else 2.0
        values = torch.randn(count, generator=generator) * width
        flat = strewn(values, torch.tensor(_EDGES[name]), generator).to(kind)
    if total > count:
        flat = flat.repeat(-(-total // count))[:total]
    return flat.reshape(shape)
