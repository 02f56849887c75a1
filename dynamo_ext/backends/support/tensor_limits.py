"""Which tensors an engine takes at all: dense, on its devices, of its dtypes, not empty."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch.fx import Node

from dynamo_ext.backends.support.single_op import results

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "bool")
DTYPES = (*INTEGERS, "float16", "bfloat16", "float32", "float64")
"""What most engines know."""


def tensors(node: Node) -> Iterator[torch.Tensor]:
    """The results of a node that are read, and its inputs, as far as they are tensors."""
    for value in (*results(node), *(s.meta.get("val") for s in node.all_input_nodes)):
        if isinstance(value, torch.Tensor):
            yield value


@dataclass(frozen=True)
class TensorLimits:
    """What an engine asks of every tensor.

    ``engine`` is its name, for sentences. ``dtypes`` are names of those that it takes
    (``float32``), all without any; ``dtype`` is the sentence on others, with ``{}`` for the dtype,
    and ``reasons`` those on dtypes that have one of their own. ``empty`` is the sentence on tensors
    without elements, nothing where it takes them.
    """

    engine: str
    dtypes: Collection[str] = ()
    dtype: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    empty: str = ""

    def unsupported_reason(self, node: Node, devices: Collection[str] = ("cpu",)) -> str:
        """Why a node's tensors cannot be given to the engine, or nothing."""
        for tensor in tensors(node):
            dtype = str(tensor.dtype).removeprefix("torch.")
            if tensor.layout is not torch.strided or tensor.is_quantized:
                return f"{self.engine} takes dense tensors only."
            if tensor.device.type not in devices:
                return f"This {self.engine} backend does not run on {tensor.device.type} devices."
            if self.dtypes and dtype not in self.dtypes:
                return self.reasons.get(dtype) or self.dtype.format(dtype)
            if self.empty and is_empty(tensor):
                return self.empty
        return ""


def is_empty(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no elements, as far as its sizes are known."""
    return any(isinstance(size, int) and size == 0 for size in tensor.shape)
