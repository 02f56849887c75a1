"""Differences from eager that are known and accepted, each with its reason.

They are on data that ordinary code does not have. The page lists them; everything else that
differs is a fault.
"""

from __future__ import annotations

_POOLING = "Its max pooling passes over NaN, and pads with the least finite number, not with -inf."
_SUBNORMAL = "XLA's CPU runtime takes numbers below 1.2e-38 for zero."
_HUGE = "XLA simplifies the scaling by 1e30 and the log-softmax together, to -inf."
_REASONS = {
    ("onnxrt", "edge: max pooling of NaN"): _POOLING,
    ("onnxrt", "edge: max pooling of -inf, padded"): _POOLING,
    ("openvino", "edge: max pooling of -inf, padded"): _POOLING,
    ("xla", "edge: sign of NaN and zeros"): _SUBNORMAL,
    ("xla", "edge: sqrt, log of negatives"): _SUBNORMAL,
    ("xla", "edge: float to bool"): _SUBNORMAL,
    ("xla", "edge: log_softmax of huge values"): _HUGE,
    ("onnx2tf", "edge: sqrt, log of negatives"): _SUBNORMAL,
    ("onnx2tf", "edge: float to bool"): _SUBNORMAL,
    ("onnx2tf", "edge: log_softmax of huge values"): _HUGE,
}


def accepted(engine: str, operator: str) -> str:
    """Why a wrong result of this engine is accepted; empty where it is not."""
    translator = "xla" if engine == "xla_trivial" else engine
    return _REASONS.get((translator, operator), "")
