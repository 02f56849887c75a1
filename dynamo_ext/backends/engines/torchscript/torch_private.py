"""TorchScript graphs, written node by node."""

from collections.abc import Callable, Sequence
from typing import Any

import torch


class JitGraph:
    """A TorchScript graph under construction, and the functions made of it.

    Written straight into the interpreter's own form: what ``torch.jit.script`` compiles lives in
    one compilation unit until the process ends, constants included; a function made here goes
    with its last reference. Nothing here warns of TorchScript's deprecation.
    """

    def __init__(self) -> None:
        self._graph: Any = torch._C.Graph()

    def placeholder(self, value: Any) -> Any:
        """Add an input of the type of ``value`` (an FX node's ``meta["val"]``)."""
        made = self._graph.addInput()
        made.setType(jit_type_of(value))
        return made

    def constant(self, value: Any) -> Any:
        """A constant; a tensor's memory is shared."""
        if isinstance(value, torch.memory_format):
            # The binding takes no memory formats; TorchScript knows them by number.
            formats = (
                torch.contiguous_format,
                torch.preserve_format,
                torch.channels_last,
                torch.channels_last_3d,
            )
            value = formats.index(value)
        return self._graph.insertConstant(value)

    def call(self, name: str, inputs: Sequence[Any], types: Sequence[Any]) -> tuple[str, list[Any]]:
        """Add an operation; the schema that TorchScript found for it, and its results."""
        node = self._graph.create(name, list(inputs), len(types))
        self._graph.insertNode(node)
        results = list(node.outputs())
        for result, kind in zip(results, types, strict=True):
            result.setType(kind)
        # The operator and all its arguments' types decide; "(no schema)" where none fits.
        schema = node.schema() if not name.startswith("prim::") else ""
        return str(schema), results

    def returns(self, values: Sequence[Any]) -> None:
        """Return a list of tensors."""
        kind = torch._C.ListType.ofTensors()
        _, (result,) = self.call("prim::ListConstruct", values, [kind])
        self._graph.registerOutput(result)

    def freeze(self, *, fold: bool) -> None:
        """What ``torch.jit.freeze`` does to a module's graph.

        With ``fold``, constants are computed first. Without it a graph of mixed ``addmm`` and
        folded states (an LSTM cell) keeps running: folded, its shape propagation raised.
        """
        with torch.no_grad():
            if fold:
                torch._C._jit_pass_constant_propagation(self._graph)
                torch._C._jit_pass_dce(self._graph)
            torch._C._jit_pass_optimize_frozen_graph(self._graph, True)  # noqa: FBT003 - theirs

    def optimize_for_inference(self) -> None:
        """What ``torch.jit.optimize_for_inference`` does after freezing, in its order."""
        with torch.no_grad():
            torch._C._jit_pass_fuse_frozen_conv_add_relu(self._graph)
            torch._C._jit_pass_convert_frozen_ops_to_mkldnn(self._graph)
            torch._C._jit_pass_transpose_frozen_linear(self._graph)

    def function(self) -> Callable[..., list[Any]]:
        """A callable of its own, run by TorchScript's interpreter."""
        made: Callable[..., list[Any]] = torch._C._create_function_from_graph(
            "forward", self._graph
        )
        return made


def jit_type_of(value: Any) -> Any:
    """TorchScript's type for an FX node's value."""
    if isinstance(value, torch.Tensor):
        return torch._C.TensorType.get()
    if isinstance(value, (bool, torch.SymBool)):
        return torch._C.BoolType.get()
    if isinstance(value, (int, torch.SymInt)):
        return torch._C.IntType.get()
    if isinstance(value, (float, torch.SymFloat)):
        return torch._C.FloatType.get()
    if isinstance(value, (list, tuple)) and all(isinstance(v, torch.Tensor) for v in value):
        return torch._C.ListType.ofTensors()
    message = f"TorchScript takes no {type(value).__name__} from outside."
    raise TypeError(message)
