"""What OpenVINO must not be given although it converts, and what it cannot be given."""

import operator
from dataclasses import replace
from typing import Any

from torch.fx import Node

from dynamo_ext.backends.support import extremes
from dynamo_ext.backends.support.data_checks import EXACT
from dynamo_ext.backends.support.single_op import operator_name, tensor_inputs, used
from dynamo_ext.backends.support.tensor_limits import TensorLimits

_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_LIMITS = TensorLimits(
    "OpenVINO",
    ("float32", "bfloat16", "bool"),
    "OpenVINO does not compute {} on the CPU.",
    # int64 in 32 bits, int32 in part as float32.
    {dtype: f"OpenVINO does not compute {dtype} as torch does." for dtype in _INTEGERS},
    # Some such operations divide by zero, which ends the process.
    "OpenVINO is given no tensors without elements.",
)

_WHOLE = replace(_LIMITS, dtypes=(*_LIMITS.dtypes, "int64", "int32"))

_SCATTERED = 8_192
"""Elements: 64 times as many take OpenVINO 2026.4 2.4 ms, and torch 0.7 ms (two cores)."""

_INDEXING = ("embedding", "gather", "index", "index_select", "scatter_add")
"""The backend checks that the indices are within what they index."""

_MOVING = (
    "alias",
    "cat",
    "clone",
    "expand",
    "flip",
    "gather",
    "index",
    "index_select",
    "permute",
    "repeat",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "unsqueeze",
    "view",
)
"""Of integers they make no others; the backend checks that those that are given are exact."""

_COMPARING = ("eq", "ge", "gt", "le", "lt", "ne")
_PLACES = ("argmax", "argmin")

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
    name = _name(node)
    limits = _WHOLE if _takes_integers(node, name) else _LIMITS
    return limits.unsupported_reason(node) or _operator_reason(node, name)


def _name(node: Node) -> str:
    return operator_name(node.target).removeprefix("aten::").partition(".")[0]


def _takes_integers(node: Node, name: str) -> bool:
    """Whether an operation is right on integers that 32 bits have."""
    if name in _COMPARING:
        return all(abs(n) <= EXACT for n in node.args if isinstance(n, (int, float)))
    first = next(iter(tensor_inputs(node)), node).meta["val"]
    if name in _PLACES:
        return bool(first.is_floating_point())
    if name == "_to_copy":
        return bool(not first.is_floating_point())
    return name in _MOVING or (name in _INDEXING and first.is_floating_point())


def _found_within(node: Node) -> bool:
    """Whether indices come of integers that OpenVINO makes, which no check of inputs sees."""
    moved = [n for n in tensor_inputs(node) if not n.meta["val"].is_floating_point()]
    for each in moved:
        name = _name(each)
        if each.target is operator.getitem:
            moved += each.all_input_nodes
        elif name in _MOVING:
            moved += [n for n in tensor_inputs(each) if n not in moved]
        elif each.op == "call_function" and _takes_integers(each, name):
            return True
    return False


def _scatter_reason(node: Node, name: str) -> str:
    """Why a scatter, or what expands the indices of one, would take longer than in torch."""
    if name == "scatter_add" and _elements(node.args[3]) > _SCATTERED:
        return f"OpenVINO takes longer than torch to scatter more than {_SCATTERED:,} elements."
    is_index = name == "expand" and not node.meta["val"].is_floating_point()
    if is_index and _elements(node) > _SCATTERED:
        return "OpenVINO writes out expanded indices, which torch does not."
    return ""


def _elements(value: Any) -> int:
    """Of an operand; 0 where sizes are symbols."""
    count = value.meta["val"].numel()
    return count if isinstance(count, int) else 0


def _operator_reason(node: Node, name: str) -> str:
    into: Any = node.args[0] if name == "copy" else None
    if into is not None and not into.meta["val"].ndim:
        # Its result is then the source itself, and a trial of it would end the process.
        return "OpenVINO crashes where a tensor without dimensions is copied into."
    if name in (*_PLACES, "amax", "amin") and (large := extremes.refused(node, "OpenVINO")):
        return large
    if name in _INDEXING and _found_within(node):
        return "The indices are not known before OpenVINO has computed them."
    if name == "native_group_norm" and used(node) != [0]:
        return "OpenVINO's group norm gives no means and deviations."
    if name == "any" and node.all_input_nodes[0].meta["val"].is_floating_point():
        return "OpenVINO takes NaN for false."
    return _REFUSED.get(name, "") or _scatter_reason(node, name)
