"""``tvm`` and ``tvm_meta_schedule``: Relax programs for this CPU, scheduled by rule or by search.

A partition of the functional ATen graph becomes a Relax module (arXiv:2311.02103), whose
functions are fused and then scheduled: ``tvm`` by rules of our own, without measuring anything,
and ``tvm_meta_schedule`` by searching the space that MetaSchedule (arXiv:2205.13603) spans over
TensorIR's primitives (arXiv:2207.04296), for those functions that no earlier search knows.
"""

import re
from collections.abc import Sequence
from functools import partial

from torch.fx import Node

from dynamo_ext.backends.base import (
    PARTITION_OPTIONS,
    Lowered,
    LoweringRequest,
    Support,
    unavailable,
)
from dynamo_ext.backends.engines.tvm import session, target, tuning
from dynamo_ext.backends.engines.tvm.ops import CONVERTERS
from dynamo_ext.backends.support.tensor_limits import INTEGERS, TensorLimits
from dynamo_ext.backends.support.tried_backend import TriedBackend
from dynamo_ext.backends.torch_private import decompositions
from dynamo_ext.errors import lines
from dynamo_ext.records.common import Availability, OptionSpec

_NOISE = re.compile(r"^(File |Traceback|at ).*")

_LIMITS = TensorLimits(
    "TVM",
    # Those that our converters compute in. Not half precision: TVM's code for it on a CPU converts
    # each element, and is slower than eager, which has instructions for it.
    ("float32", "float64", *INTEGERS),
    "TVM is not given {}.",
    empty="TVM is not given tensors without elements.",
)


class TvmBackend(TriedBackend):
    """Partitions in TVM on the CPU, one engine for each shape."""

    name = "tvm"
    engine = "TVM"
    summary = "TVM on the CPU: Relax, scheduled by rule"
    extra = "tvm"
    packages = ("tvm", "tvm_ffi")
    races = True
    fork_unsafe_runtime = "TVM"
    checks_data = True
    whole = (
        # Decomposed, it copies its operands and its weights several times.
        "_scaled_dot_product_flash_attention_for_cpu.default",
        "silu.default",
    )
    cut_up = (
        *decompositions.BACKWARD,
        # Their pieces are fused again.
        "gelu.default",
        "isinf.default",
        "isnan.default",
        # Operators, most of them of backward graphs, that have no converters.
        "native_group_norm.default",
        "tanh_backward.default",
        "sigmoid_backward.default",
        "silu_backward.default",
        "hardswish_backward.default",
        "repeat.default",
    )

    def probe(self) -> Availability:
        """Its version, or what it lacks."""
        version = target.version()
        if not target.has_llvm():
            reason = f"This build of TVM {version} has no LLVM."
            return unavailable(reason, 'pip install "dynamo-ext[tvm]"', version)
        return Availability(available=True, version=version, device="cpu")

    def unsupported_reason(self, node: Node) -> str:
        """Why a node cannot be given to TVM, as far as shows without trying; or nothing."""
        name = str(node.target)
        # What depends on no tensor is computed beforehand, by torch.
        if node.all_input_nodes and name not in CONVERTERS:
            return f"There is no converter to TVM for {node.target}."
        return _LIMITS.unsupported_reason(node)

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Convert, fuse, schedule by rule and compile."""
        return Lowered(session.compiled(request.graph))

    def error_summary(self, error: BaseException) -> str:
        """The last line of TVM's message."""
        return f"{type(error).__name__}: {lines(error, _NOISE)[-1]}"


class TvmMetaScheduleBackend(TvmBackend):
    """As ``tvm``, with schedules searched for and kept on disk.

    Without ``tune`` it only uses records of earlier searches; what a search has found when its
    ``budget`` ends is kept and used.
    """

    name = "tvm_meta_schedule"
    summary = "TVM on the CPU, tuned by MetaSchedule, with a database of what was found"
    races = False
    options: Sequence[OptionSpec] = (
        *PARTITION_OPTIONS,
        OptionSpec("tune", default=True, help="search schedules for functions without a record"),
        OptionSpec("trials", 64, "schedules measured for each function without a record", least=0),
        OptionSpec("budget", tuning.BUDGET, "most seconds of searching for one graph", least=0),
        OptionSpec("database", "", "folder of records; empty means one in the user's cache"),
    )

    def supports(self, node: Node) -> Support:
        """What ``tvm`` answers."""
        return TVM.supports(node)

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Convert, fuse, search for what has no record, and compile with the best known."""
        return Lowered(session.compiled(request.graph, partial(tuning.built, request)))


TVM = TvmBackend()
TVM_META_SCHEDULE = TvmMetaScheduleBackend()
