"""A captured graph as a script of its own, that needs torch and nothing else."""

import re

from dynamo_ext.records.graph import Graph, Operation

SIZE = 8
"""What a symbolic size is in the script."""

_SYMBOL = re.compile(r"\b[su]\d+\b")
_OURS = re.compile(r"torch\.ops\.dynamo_ext\.(\w+)\.default")
_GLOBAL = re.compile(r"\b_operator_(?=\w+\()")
_SCRIPT = '''\
"""Graph {id} of {title}, as TorchDynamo captured it.

It needs torch alone. Inputs have the dtypes and shapes that were seen, and values of their own;
symbolic sizes are {size}.
"""

import operator  # noqa: F401 - the graph may name it
import time

import torch
from torch import device, inf, nan  # noqa: F401 - the graph may name them

BACKEND = "eager"  # "inductor", or any other that torch.compile knows


{source}

def with_inner_graphs(module):
    """Graphs inside the graph (torch.cond, checkpoints) are classes inside its class."""
    for name, value in list(vars(type(module)).items()):
        if isinstance(value, type):
            delattr(type(module), name)
            setattr(module, name, with_inner_graphs(value()))
    return module


torch.manual_seed(0)
inputs = [
{inputs}
]

if __name__ == "__main__":
    graph = with_inner_graphs(GraphModule())
    compiled = torch.compile(graph, backend=BACKEND)
    with torch.no_grad():
        outputs = compiled(*inputs)
        started = time.perf_counter()
        compiled(*inputs)
        print(f"{{(time.perf_counter() - started) * 1e3:.3f}} ms")
    for output in outputs:
        print(type(output).__name__, tuple(getattr(output, "shape", ())))
'''


def repro(graph: Graph, title: str = "a report") -> str:
    """Write a graph as a script; ``title`` says what ran, for its first line.

    The graph's module, inputs of the dtypes and shapes that were seen, one timed call. A graph that
    refers to Python objects without text (a user's custom operator) does not run without them.
    """
    placeholders = [op for op in graph.operations if op.opcode == "placeholder"]
    inputs = "\n".join(f"    {_value(op)},  # {op.target}" for op in placeholders)
    # Recurrent layers by torch's own names, which need torch alone; and FX's names of functions.
    source = _GLOBAL.sub("operator.", _OURS.sub(r"torch.\1", graph.source.strip()))
    # A title that ends the docstring would end the script.
    said = title.replace("\\", "/").replace('"""', "'''")
    return _SCRIPT.format(id=graph.id, title=said, size=SIZE, source=f"{source}\n", inputs=inputs)


def _value(op: Operation) -> str:
    if op.shape is None:
        return str(SIZE)
    sizes = [_SYMBOL.sub(str(SIZE), size) for size in op.shape]
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    if op.dtype.startswith(("float", "bfloat", "complex")):
        drawn = "complex64" if op.dtype.startswith("complex") else "float32"
        made = f"torch.randn({shape}, dtype=torch.{drawn})"
        return made if op.dtype == drawn else f"{made}.to(torch.{op.dtype})"
    # Zeros and ones are indices of nearly everything.
    return f"torch.randint(0, 2, {shape}).to(torch.{op.dtype})"
