"""What OpenVINO must not be given although it converts, and what it cannot be given."""

from dataclasses import replace
from typing import Any

from torch.fx import Node

from dynamo_ext.backends.support.single_op import operator_name, used
from dynamo_ext.backends.support.tensor_limits import TensorLimits

_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_LIMITS = TensorLimits(
    "OpenVINO",
    ("float32", "bfloat16", "bool"),
    "OpenVINO does not compute {} on the CPU.",
    # int64 in 32 bits, int32 in part as float32; and indices are not checked.
    {dtype: f"OpenVINO does not compute {dtype} as torch does." for dtype in _INTEGERS},
    # Some such operations divide by zero, which ends the process.
    "OpenVINO is given no tensors without elements.",
)

# The backend checks that the indices are within what they index.
_INDEXED = replace(_LIMITS, dtypes=(*_LIMITS.dtypes, "int64"))
_INDEXING = ("embedding", "index", "index_select")

_REFUSED = {
    # Found by random programs: now and then it ends the process, after other masks of such types.
    "index_put": "OpenVINO ends the process at times where a mask says what is written.",
    "as_strided": "It reads memory as it lies, and OpenVINO's lies differently.",
    "atan2": "OpenVINO's atan2 does not look at the sign of a zero.",
    "fmod": "OpenVINO's remainder is not exact where the quotient is large.",
    "remainder": "OpenVINO's remainder is not exact where the quotient is large.",
}
"""What a trial on made-up data does not find out, or must not."""


def unsupported_reason(node: Node) -> str:
    """Why a node cannot be given to OpenVINO, as far as shows without trying; or nothing."""
    name = operator_name(node.target).removeprefix("aten::").partition(".")[0]
    indexed = name in _INDEXING and node.meta["val"].is_floating_point()
    limits = _INDEXED if indexed else _LIMITS
    return limits.unsupported_reason(node) or _operator_reason(node, name)


def _operator_reason(node: Node, name: str) -> str:
    into: Any = node.args[0] if name == "copy" else None
    if into is not None and not into.meta["val"].ndim:
        # Its result is then the source itself, and a trial of it would end the process.
        return "OpenVINO crashes where a tensor without dimensions is copied into."
    if name == "native_group_norm" and used(node) != [0]:
        return "OpenVINO's group norm gives no means and deviations."
    if name == "any" and node.all_input_nodes[0].meta["val"].is_floating_point():
        return "OpenVINO takes NaN for false."
    return _REFUSED.get(name, "")
