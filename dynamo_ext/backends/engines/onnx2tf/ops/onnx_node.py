"""One ONNX operation as TensorFlow sees it, and the table of those that are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dynamo_ext.backends.base import LoweringError

Operator = Callable[["Call"], Any]


@dataclass
class Call:
    """One ONNX node with its inputs at hand.

    ``inputs`` are TensorFlow tensors, numpy arrays where a value is known, or ``None`` where one
    is left out.
    """

    tf: Any
    kind: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any]
    outputs: Sequence[bool]

    def tensor(self, position: int) -> Any:
        """An input as a TensorFlow tensor."""
        return self.tf.convert_to_tensor(self.inputs[position])

    def has(self, position: int) -> bool:
        """Whether an optional input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def known(self, position: int, default: Any = None) -> Any:
        """An input that must be a constant, as a flat list; the default where it is left out."""
        if not self.has(position):
            return default
        value = self.inputs[position]
        if not isinstance(value, np.ndarray):
            message = f"{self.kind} takes an argument that is not a constant."
            raise LoweringError(message)
        return value.reshape(-1).tolist()

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def reads(self, position: int) -> bool:
        """Whether anything reads an output."""
        return position < len(self.outputs) and self.outputs[position]

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for what is not covered."""
        message = f"{self.kind} with {what} is not converted to TensorFlow."
        raise LoweringError(message)


TABLE: dict[str, Operator] = {}


def converts(*kinds: str) -> Callable[[Operator], Operator]:
    """Put a function into the table for some kinds of ONNX node."""

    def put(function: Operator) -> Operator:
        for kind in kinds:
            TABLE[kind] = function
        return function

    return put


def sizes(tensor: Any) -> list[int]:
    """A tensor's shape, which is fixed: one engine serves one shape."""
    found: list[int] = list(tensor.shape)
    return found


def wide(tf: Any, value: Any) -> Any:
    """A value in float32 at least, in which torch computes what half precision gives."""
    return tf.cast(value, tf.float32) if value.dtype.size < 4 else value  # noqa: PLR2004
