"""``tvm`` and ``tvm_meta_schedule``: Relax programs for this CPU, scheduled by rule or by search.

A partition of the functional ATen graph becomes a Relax module (arXiv:2311.02103), whose
functions are fused and then scheduled: ``tvm`` by rules of our own, without measuring anything,
and ``tvm_meta_schedule`` by searching the space that MetaSchedule (arXiv:2205.13603) spans over
TensorIR's primitives (arXiv:2207.04296), for those functions that no earlier search knows.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    forks,
    torch_private,
    trial,
    tvm_limits,
    tvm_session,
    tvm_target,
    tvm_tune,
)
from dynamo_ext.backends.answers import Answers
from dynamo_ext.backends.base import PARTITION_OPTIONS, OptionSpec, Support
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options

_INSTALL = 'pip install "dynamo-ext[tvm]"'

_KEPT = (
    # Cut up, it copies its operands and its weights several times.
    "_scaled_dot_product_flash_attention_for_cpu.default",
)

_WHOLE = ("silu.default", "leaky_relu.default")

_CUT_UP = (
    # Operators, most of them of backward graphs, that have no converters.
    "_native_batch_norm_legit_functional.default",
    "_native_batch_norm_legit.no_stats",
    "native_batch_norm_backward.default",
    "native_group_norm.default",
    "native_group_norm_backward.default",
    "native_layer_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "gelu_backward.default",
    "nll_loss_forward.default",
    "nll_loss_backward.default",
    "tanh_backward.default",
    "sigmoid_backward.default",
    "silu_backward.default",
    "hardswish_backward.default",
)

_BROKEN_INTERFACE = "0.1.15"
"""A release whose serialiser of functions does not survive them; its likes are found by trying."""


class TvmBackend:
    """Partitions in TVM on the CPU, one engine for each shape.

    Notes
    -----
    Options: ``freeze``, ``verify`` and ``min_partition``, as for all engines.
    """

    name = "tvm"
    summary = "TVM on the CPU: Relax, scheduled by rule"
    extra = "tvm"
    whole_graph = False
    dynamic_shapes = False
    forkless = "TVM"
    options: Sequence[OptionSpec] = PARTITION_OPTIONS

    def probe(self) -> Availability:
        """Whether the package is missing, or its version and the device."""
        if importlib.util.find_spec("tvm") is None:
            reason = "tvm cannot be imported."
            return Availability(available=False, reason=reason, remedy=_INSTALL)
        try:
            version = tvm_target.version()
        except Exception as error:  # noqa: BLE001 - a broken installation raises many kinds
            reason = f"tvm cannot be imported: {error}"
            return Availability(available=False, reason=reason, remedy=_INSTALL)
        if not tvm_target.has_llvm():
            reason = f"This build of TVM {version} has no LLVM."
            return Availability(available=False, version=version, reason=reason, remedy=_INSTALL)
        return Availability(available=True, version=version, device="cpu")

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Keep whole what has a converter; cut up more of what has none."""
        forks.begin(self.forkless)
        whole = set() if training else {_overload(name) for name in (*_KEPT, *_WHOLE)}
        kept = {op: cut for op, cut in table.items() if op not in whole}
        return kept | torch_private.decompositions_of(_CUT_UP)

    def supports(self, node: Node) -> Support:
        """Convert the one operation, run it, compare it with eager; kept for its likes."""
        return _answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Convert, fuse, schedule by rule and compile."""
        del example_inputs, options
        return tvm_session.Session(graph).run


class TvmMetaScheduleBackend(TvmBackend):
    """As ``tvm``, with schedules searched for and kept on disk.

    Notes
    -----
    Options, beside those of ``tvm``:

    ``tune``
        Whether to search at all; without it only records of earlier searches are used.
    ``trials``
        Schedules that are built and measured for each function that has no record yet.
    ``budget``
        Seconds of searching for one graph; what is found until then is kept and used.
    ``database``
        Folder of the records; by default ``dynamo_ext/tvm/database`` in the user's cache.
    ``cost_model``
        ``xgboost`` learns from what was measured which schedules to measure next; ``random``
        does not, and finds far less with as many trials.
    ``tracker``
        ``HOST:PORT/KEY`` of TVM's RPC tracker: schedules are timed on a machine that it lends,
        with as many threads as its server has. It should be of this one's kind, where they run.
    """

    name = "tvm_meta_schedule"
    summary = "TVM on the CPU, tuned by MetaSchedule, with a database of what was found"
    options: Sequence[OptionSpec] = (
        *PARTITION_OPTIONS,
        OptionSpec("tune", default=True, help="search schedules for functions without a record"),
        OptionSpec("trials", 64, "schedules measured for each function without a record", least=0),
        OptionSpec("budget", tvm_tune.BUDGET, "most seconds of searching for one graph", least=0),
        OptionSpec("database", "", "folder of records; empty means one in the user's cache"),
        OptionSpec(
            "cost_model", "xgboost", "what chooses schedules to measure", ("xgboost", "random")
        ),
        OptionSpec("tracker", "", "HOST:PORT/KEY of a TVM RPC tracker that lends machines"),
    )

    def probe(self) -> Availability:
        """As for ``tvm``, and whether this installation can search."""
        found = super().probe()
        if found.available and tvm_target.interface_version().startswith(_BROKEN_INTERFACE):
            reason = f"apache-tvm-ffi {tvm_target.interface_version()} ends a process that tunes."
            return Availability(
                available=False,
                version=found.version,
                reason=reason,
                remedy='pip install "apache-tvm-ffi<0.1.15"',
            )
        return found

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Convert, fuse, search for what has no record, and compile with the best known."""
        del example_inputs
        return tvm_tune.session(graph, options).run


def _overload(name: str) -> Any:
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _single(graph: GraphModule) -> Callable[..., Sequence[Any]]:
    return tvm_session.Session(graph).run


def _complaint(error: BaseException) -> str:
    """TVM's message in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("File ", "Traceback", "at "))]
    text = (telling or lines or [type(error).__name__])[-1]
    return f"{type(error).__name__}: {text}"[:300]


def _attempt(node: Node) -> str:
    with torch_private.outside_modes():
        return trial.disagreement(node, _single, "TVM")


_answers = Answers(tvm_limits.objection, _attempt, _complaint)
TVM = TvmBackend()
TVM_META_SCHEDULE = TvmMetaScheduleBackend()
