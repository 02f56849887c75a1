"""``openvino``: OpenVINO's CPU plugin on partitions of the functional ATen graph.

Operators become OpenVINO's through its own FX frontend; requests read and write torch's memory,
so nothing is copied on the way in or out. What the frontend gets wrong is found by trying.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import (
    PARTITION_OPTIONS,
    THREADS,
    Lowered,
    LoweringRequest,
    unavailable,
)
from dynamo_ext.backends.engines.openvino import convert, limits, session
from dynamo_ext.backends.support import extremes
from dynamo_ext.backends.support.quiet import quiet
from dynamo_ext.backends.support.tried_backend import TriedBackend
from dynamo_ext.backends.torch_private import decompositions
from dynamo_ext.errors import one_line
from dynamo_ext.records.common import Availability, OptionSpec

_NOISE = re.compile(
    r"^((Exception (from|happened)|Check '|Converting input model|FrontEnd API failed|Model wasn't"
    r"|-- ).*|Summary:?)$"
)


class OpenVinoBackend(TriedBackend):
    """Partitions in OpenVINO on the CPU, one engine for each shape."""

    name = "openvino"
    engine = "OpenVINO"
    summary = "OpenVINO on the CPU, through its PyTorch FX frontend"
    extra = "openvino"
    packages = ("openvino",)
    races = True
    strict = True
    options: Sequence[OptionSpec] = (
        *PARTITION_OPTIONS,
        THREADS,
        precision.option("bf16", "fp16", "int8"),
    )
    whole = (
        # Most of them it fuses into what comes before.
        "elu.default",
        "gelu.default",
        "hardsigmoid.default",
        "hardswish.default",
        "leaky_relu.default",
        "mish.default",
        "native_group_norm.default",
        "native_layer_norm.default",
        "silu.default",
        "softplus.default",
        "upsample_bilinear2d.vec",
        "upsample_nearest2d.vec",
    )
    cut_up = (
        *decompositions.BACKWARD,
        # The frontend does not know them.
        "var.correction",
        "var_mean.correction",
    )
    # Maxima with their places are two operations.
    own = extremes.DECOMPOSITIONS

    def probe(self) -> Availability:
        """Its version and whether it has a CPU plugin."""
        # Without its build.
        version = str(convert.package().__version__).partition("-")[0]
        if "CPU" not in session.core().available_devices:
            reason = f"OpenVINO {version} finds no CPU plugin."
            return unavailable(reason, "Reinstall openvino.", version)
        return Availability(available=True, version=version, device="cpu")

    def lacks_precision(self, precision: str) -> str:
        """The processor must have instructions for it: OpenVINO would go on in float32."""
        if precision.upper() in session.core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            return ""
        return f"OpenVINO computes in {precision} only where the processor does, and this does not."

    unsupported_reason = staticmethod(limits.unsupported_reason)

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Convert and compile; see ``session.Session`` for the call."""
        made = session.Session(request)
        return Lowered(made.run, made.lowered_operations)

    def quiet(self) -> AbstractContextManager[None]:
        """Its Python side logs and warns."""
        return quiet("openvino")

    def error_summary(self, error: BaseException) -> str:
        """Without its file names."""
        if unknown := re.search(r"No conversion rule found for operations: ([^\n]+)", str(error)):
            return f"OpenVINO's frontend has no conversion for {unknown[1]}"
        return one_line(error, _NOISE)


BACKEND = OpenVinoBackend()
