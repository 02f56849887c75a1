"""``xla`` and ``xla_trivial``: XLA, by way of JAX, on partitions of the functional ATen graph.

Operators become JAX's by torchax's table and by ours; ``jax.jit`` compiles ahead of the first
call. torch_xla is not used: its last release does not load beside this torch, and it brings a
device of its own, to which all data would have to be moved.

An index out of range, or an integer divided by zero, fails the call, which then runs eagerly, so
that torch raises its own error: XLA itself would clamp, drop or make a number up. What differs
from eager without a word: XLA's CPU runtime takes subnormal numbers (below 1.2e-38 in float32)
for zero, and no option of it changes that. CUDA tensors go by DLPack where JAX has a CUDA
device; that road is written and has not been run.

``xla_trivial`` traces at every call and looks the executable up by what came out, as the
"trivial" backends of https://github.com/pytorch/pytorch/pull/87741 do: it shows what tracing
costs, and is there to compare with.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import forks, torch_private, xla_lowerings, xla_session, xla_trial
from dynamo_ext.backends.base import MIN_PARTITION, VERIFY, OptionSpec, Support
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options

_INSTALL = 'pip install "dynamo-ext[xla]"'
_PACKAGES = ("jax", "jaxlib", "torchax")


class LoweringError(RuntimeError):
    """XLA or a lowering refused a partition; the message is its own, in one line."""


class XlaBackend:
    """Partitions in XLA, one engine for each shape.

    Parameters
    ----------
    name, summary
        How it is listed.
    session
        What a partition becomes.
    """

    extra = "xla"
    whole_graph = False
    dynamic_shapes = False
    forkless = "XLA"
    options: Sequence[OptionSpec] = (
        OptionSpec("freeze", default=True, help="hand weights over once, under no_grad"),
        VERIFY,
        MIN_PARTITION,
    )

    def __init__(self, name: str, summary: str, session: Callable[[GraphModule], Any]) -> None:
        self.name = name
        self.summary = summary
        self._session = session

    def probe(self) -> Availability:
        """Whether a package is missing or does not fit, or the versions and the device."""
        for package in _PACKAGES:
            if importlib.util.find_spec(package) is None:
                reason = f"{package} cannot be imported."
                return Availability(available=False, reason=reason, remedy=_INSTALL)
        version = xla_session.version()
        try:
            device = xla_session.client("cpu")
        except Exception as error:  # noqa: BLE001 - JAX raises many kinds, all with their reason
            reason = f"JAX finds no CPU platform: {xla_lowerings.complaint(error)}"
            remedy = "Let JAX have it: JAX_PLATFORMS must be unset, or name cpu too."
            return Availability(available=False, version=version, reason=reason, remedy=remedy)
        try:
            xla_lowerings.lowering(None)
        except Exception as error:  # noqa: BLE001 - another version's insides may fail anyhow
            reason = f"{version} do not fit together: {xla_lowerings.complaint(error)}"
            return Availability(available=False, version=version, reason=reason, remedy=_INSTALL)
        return Availability(available=True, version=version, device=str(device.platform))

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Cut up more, for XLA fuses the pieces again."""
        forks.begin(self.forkless)
        return xla_lowerings.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Lower the one operation, run it, compare it with eager; kept for its likes."""
        return xla_trial.support(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Trace and compile; see ``xla_session`` for the call."""
        del example_inputs, options
        try:
            with torch_private.outside_modes():
                run: CompiledFn = self._session(graph).run
        except Exception as error:
            raise LoweringError(xla_lowerings.complaint(error)) from error
        return run


XLA = XlaBackend("xla", "XLA through JAX, traced once", xla_session.Once)
XLA_TRIVIAL = XlaBackend(
    "xla_trivial", "XLA through JAX, traced at every call", xla_session.EveryCall
)
