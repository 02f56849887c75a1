"""``xla`` and ``xla_trivial``: XLA, by way of JAX, on partitions of the functional ATen graph.

Operators become JAX's by torchax's table and by ours; ``jax.jit`` compiles ahead of the first
call. torch_xla is not used: its last release does not load beside this torch, and it brings a
device of its own, to which all data would have to be moved.

An index out of range, or an integer divided by zero, fails the call, which then runs eagerly, so
that torch raises its own error: XLA itself would clamp, drop or make a number up. What differs
from eager without a word: XLA's CPU runtime takes subnormal numbers (below 1.2e-38 in float32)
for zero, and no option of it changes that. CUDA tensors go by DLPack where JAX has a CUDA device.

``xla_trivial`` traces at every call and looks the executable up by what came out, as the
"trivial" backends of https://github.com/pytorch/pytorch/pull/87741 do: it shows what tracing
costs, and is there to compare with.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.base import COMMON, Lowered, LoweringRequest, unavailable
from dynamo_ext.backends.engines.xla import session
from dynamo_ext.backends.engines.xla.ops import table
from dynamo_ext.backends.support import ties
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.support.tensor_limits import DTYPES, TensorLimits, tensors
from dynamo_ext.backends.support.tried_backend import TriedBackend
from dynamo_ext.errors import one_line
from dynamo_ext.interruptions import failures
from dynamo_ext.records.common import Availability, OptionSpec
from dynamo_ext.torch_private import dispatch

_INSTALL = 'pip install "dynamo-ext[xla]"'


class XlaBackend(TriedBackend):
    """Partitions in XLA, one engine for each shape; ``compiled`` makes them."""

    engine = "XLA"
    extra = "xla"
    # XLA fuses the parts again. Attention stays whole in training: its decomposition gives wrong
    # gradients, and this engine has a lowering for both directions.
    cut_up = table.DECOMPOSED
    own = ties.DECOMPOSITIONS
    packages = ("jax", "jaxlib", "torchax")
    fork_unsafe_runtime = "XLA"
    checks_data = True
    options: Sequence[OptionSpec] = (
        OptionSpec("freeze", default=True, help="hand weights over once, under no_grad"),
        *COMMON,
    )

    def __init__(self, name: str, summary: str, compiled: Callable[[GraphModule], Any]) -> None:
        self.name = name
        self.summary = summary
        self.races = compiled is session.TracedOnce
        self._compiled = compiled
        super().__init__()

    def probe(self) -> Availability:
        """Whether a package does not fit, or the versions and the device."""
        version = f"jax {metadata.version('jax')}, torchax {metadata.version('torchax')}"
        if wrong := _failure(session.client, "cpu"):
            reason = f"JAX finds no CPU platform: {wrong}"
            remedy = "Let JAX have it: JAX_PLATFORMS must be unset, or name cpu too."
            return unavailable(reason, remedy, version)
        if wrong := _failure(table.lowering, None):
            return unavailable(f"{version} do not fit together: {wrong}", _INSTALL, version)
        cuda = torch.cuda.is_available() and not _device_reason("cuda")
        return Availability(available=True, version=version, device="cuda:0" if cuda else "cpu")

    def unsupported_reason(self, node: Node) -> str:
        """Why a node cannot be given to XLA, as far as shows without trying; or nothing."""
        why = table.denied_reason(node.target) or _LIMITS.unsupported_reason(node, ("cpu", "cuda"))
        if why:
            return why
        devices = {tensor.device.type for tensor in tensors(node)}
        if len(devices) > 1:
            return "Its tensors lie on several devices."
        return _device_reason(*devices)

    def attempt(self, node: Node) -> str:
        """Lower the one operation, run it, compare it with eager."""
        name = operator_name(node.target)
        if table.lowering(node.target) is None:
            return f"torchax has no lowering for {name}, nor have we."
        return "" if name in _UNTRIED else super().attempt(node)

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Trace and compile; see ``session`` for the call."""
        return Lowered(self._compiled(request.graph).run)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """JAX warns; and it is to trace outside of torch's modes."""
        with dispatch.outside_modes(), warnings.catch_warnings(action="ignore"):
            yield


_LIMITS = TensorLimits("XLA", DTYPES, "This XLA backend does not take {}.")

_UNTRIED = (
    # Right or wrong whatever the data, and a wrong shape is found when the graph is traced. They
    # are a third of a graph's operations, each with numbers of its own.
    *("aten::alias", "aten::clone", "aten::expand", "aten::permute", "aten::select.int"),
    *("aten::slice.Tensor", "aten::squeeze.dims", "aten::unsqueeze", "aten::view"),
    # Torch's kernel trusts the indices it gets.
    "aten::max_pool2d_with_indices_backward",
)
"""Operators that are taken as they are."""


def _device_reason(kind: str = "cpu") -> str:
    return f"JAX has no {kind} device here." if _failure(session.client, kind) else ""


def _failure(call: Callable[[Any], Any], argument: Any) -> str:
    """What a call of JAX raises, in one line; nothing where it does not."""
    try:
        call(argument)
    except failures() as error:  # JAX raises many kinds, all with their reason
        return one_line(error, with_type=True)
    return ""


XLA = XlaBackend("xla", "XLA through JAX, traced once", session.TracedOnce)
XLA_TRIVIAL = XlaBackend(
    "xla_trivial", "XLA through JAX, traced at every call", session.TracedEveryCall
)
