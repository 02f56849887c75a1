"""``lazy``: Lazy Tensor Core's TorchScript backend, in its trivial form.

A partition is traced again at each call on tensors of the device ``lazy``, whose computation is
looked up by its hash. The other form, tracing once, returned clones that alias their inputs and
ended the process on a random operator, so it is not offered.
"""

import re
from collections.abc import Sequence

import torch
from torch.fx import Node

from dynamo_ext.backends.base import COMMON, Lowered, LoweringRequest, unavailable
from dynamo_ext.backends.engines.lazy import session, torch_private
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.support.tensor_limits import TensorLimits
from dynamo_ext.backends.support.tried_backend import TriedBackend
from dynamo_ext.errors import one_line
from dynamo_ext.records.common import Availability, OptionSpec

_STRIDED = ("as_strided", "empty", "new_empty", "set_", "storage", "resize", "unsafe_view")
_LIMITS = TensorLimits("Lazy Tensor Core")
_NOISE = re.compile(r"^((The following op|Traceback).*|RuntimeError: )")
_EAGER = "Lazy Tensor Core itself runs it eagerly."


class LazyBackend(TriedBackend):
    """Partitions on Lazy Tensor Core, one trace for each call."""

    name = "lazy"
    engine = "Lazy Tensor Core"
    summary = "Lazy Tensor Core, traced at each call (experimental)"
    # A trace has the shapes of its call, whatever they are.
    dynamic_shapes = True
    options: Sequence[OptionSpec] = (
        OptionSpec("freeze", default=True, help="keep weights on the lazy device under no_grad"),
        *COMMON,
    )

    def probe(self) -> Availability:
        """Whether this build of torch has it."""
        if not torch_private.has_lazy():
            reason = f"torch {torch.__version__} was built without Lazy Tensor Core."
            return unavailable(reason, "Install torch's own CPU wheel from pytorch.org.")
        return Availability(available=True, version=torch.__version__, device="cpu")

    def unsupported_reason(self, node: Node) -> str:
        """Why a node must not even be tried on Lazy Tensor Core."""
        if unfit := _LIMITS.unsupported_reason(node):
            return unfit
        values = [source.meta.get("val") for source in node.all_input_nodes]
        if any(isinstance(value, torch.Tensor) and not value.dim() for value in values):
            # A number and such a tensor, subtracted, were seen to change places.
            return "Lazy Tensor Core mixes up tensors without dimensions and numbers."
        if any(word in operator_name(node.target) for word in _STRIDED):
            return "It reads memory as it lies, and a lazy tensor's does not lie anywhere."
        return ""

    def attempt(self, node: Node) -> str:
        """Trace the one operation and compute it, if Lazy Tensor Core does so by itself."""
        torch_private.lazy_start()
        name = operator_name(node.target)
        if not torch_private.has_lazy_kernel(name) and name not in session.REWRITTEN:
            return _EAGER
        before = torch_private.lazy_eager_calls()
        wrong = super().attempt(node)
        return wrong or (_EAGER if torch_private.lazy_eager_calls() != before else "")

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Move constants to the device; see ``session.Session`` for the call."""
        return Lowered(session.Session(request.graph).run)

    def error_summary(self, error: BaseException) -> str:
        """Without the operators that torch lists."""
        return one_line(error, _NOISE)


BACKEND = LazyBackend()
