"""A layer of an LSTM as ONNX's operator, and a word for each call that it would falsify.

It comes as AOTAutograd's ``aten::mkldnn_rnn_layer``. ONNX Runtime computes it faster than torch,
but makes numbers of NaN and infinity. So a model that has one says, by one more output, whether
anything that is read there is not finite, and then the call is eager's.
"""

import functools
from typing import Any

FLAG = "not_finite"
"""The name of the output that says so: one boolean, the last of the model's outputs."""

_GATES = (0, 3, 1, 2)
"""Where ONNX's gates stand in torch's weights.

torch has input, forget, cell, output; ONNX has input, output, forget, cell.
"""

_ONEDNN_LSTM = 2
"""oneDNN's number for the kind of a recurrent layer (``ideep::rnn_kind``)."""

_SEQUENCE_LENGTHS = 4
"""The only one of the operator's inputs that is not floating-point."""


def layer(  # noqa: PLR0913, PLR0917 - the operator's own signature
    inputs: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    hidden: Any,
    cell: Any,
    reverse: Any,
    batch_sizes: Any,
    mode: Any,
    hidden_size: Any,
    num_layers: Any,
    has_biases: Any,
    bidirectional: Any,
    batch_first: Any,
    train: Any,
) -> Any:
    """``aten::mkldnn_rnn_layer``: states ``[1, batch, width]``, biases of any shape without any."""
    plain = mode == _ONEDNN_LSTM and num_layers == 1
    if not plain or batch_sizes or bidirectional or batch_first or train:
        message = "Only one layer of an LSTM at a time has a conversion."
        raise NotImplementedError(message)
    op = opset()

    def gates(weight: Any) -> Any:
        width = hidden_size
        parts = [op.Slice(weight, [at * width], [(at + 1) * width], [0]) for at in _GATES]
        return op.Unsqueeze(op.Concat(*parts, axis=0), [0])

    steps, *states = op.LSTM(
        inputs,
        gates(weight_ih),
        gates(weight_hh),
        op.Concat(gates(bias_ih), gates(bias_hh), axis=1) if has_biases else None,
        None,
        hidden,
        cell,
        direction="reverse" if reverse else "forward",
        hidden_size=hidden_size,
    )
    # oneDNN's workspace has no elements in inference.
    workspace = op.Cast(op.Slice(hidden, [0], [0], [0]), to=2)
    return op.Squeeze(steps, [1]), *states, workspace


def opset() -> Any:
    """ONNX's operators; lists of numbers become constants, which their types do not say."""
    from onnxscript.onnx_opset import opset18

    return opset18


def say_what_is_not_finite(model: Any) -> None:
    """Give an ``onnx_ir.Model`` that has an LSTM the output ``FLAG``; others stay as they are."""
    import onnx_ir

    read = {
        id(value): value
        for node in model.graph
        if node.op_type == "LSTM"
        for position, value in enumerate(node.inputs)
        if value is not None and position != _SEQUENCE_LENGTHS
    }
    if not read:
        return
    tape = onnx_ir.tape.Tape(model.graph)
    # A finite number less itself is zero; of all others that, and every sum with it, is NaN.
    sums = [
        tape.op("ReduceSum", [tape.op("Sub", [value, value])], {"keepdims": 0})
        for value in read.values()
    ]
    found = tape.op("IsNaN", [functools.reduce(lambda a, b: tape.op("Add", [a, b]), sums)])
    found.name, found.dtype, found.shape = FLAG, onnx_ir.DataType.BOOL, onnx_ir.Shape([])
    model.graph.outputs.append(found)
