"""What OpenVINO must not be given although it converts, and what it cannot be given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.single_operation import operator_name, results

if TYPE_CHECKING:
    from torch.fx import Node

_DTYPES = frozenset({"float32", "bfloat16", "bool"})
_INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})

_REFUSED = {
    "as_strided": "It reads memory as it lies, and OpenVINO's lies differently.",
    "atan2": "OpenVINO's atan2 does not look at the sign of a zero.",
    "fmod": "OpenVINO's remainder is not exact where the quotient is large.",
    "remainder": "OpenVINO's remainder is not exact where the quotient is large.",
}
"""What a trial on made-up data does not find out, or must not."""


def objection(node: Node) -> str:
    """Why a node cannot be given to OpenVINO, as far as shows without trying; or nothing."""
    import torch

    for tensor in (*results(node), *(s.meta.get("val") for s in node.all_input_nodes)):
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return "OpenVINO takes dense tensors only."
        if tensor.device.type != "cpu":
            return f"This OpenVINO backend does not run on {tensor.device.type} devices."
        if any(isinstance(size, int) and size == 0 for size in tensor.shape):
            # Some such operations divide by zero, which ends the process.
            return "OpenVINO is given no tensors without elements."
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype in _INTEGERS:
            # int64 in 32 bits, int32 in part as float32; and indices are not checked.
            return f"OpenVINO does not compute {dtype} as torch does."
        if dtype not in _DTYPES:
            return f"OpenVINO does not compute {dtype} on the CPU."
    return _objection_to_operator(node)


def _objection_to_operator(node: Node) -> str:
    name = operator_name(node.target).removeprefix("aten::").partition(".")[0]
    into: Any = node.args[0] if name == "copy" else None
    if into is not None and not into.meta["val"].ndim:
        # Its result is then the source itself, and a trial of it would end the process.
        return "OpenVINO crashes where a tensor without dimensions is copied into."
    if name == "any" and node.all_input_nodes[0].meta["val"].is_floating_point():
        return "OpenVINO takes NaN for false."
    return _REFUSED.get(name, "")
