"""An FX graph as a table: opcode, name, target, args, kwargs, with the user's lines."""

import functools

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.capture.code.source_lines import from_trace_text, is_users, users_line
from dynamo_ext.capture.events.guards import readable_source
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Operation
from dynamo_ext.torch_private.fx_nodes import is_overload

_LONGEST = 200
_path = functools.lru_cache(maxsize=4096)(readable_source)


def operation_table(graph: GraphModule, cell_file: str | None) -> tuple[Operation, ...]:
    """Every node of a captured graph, in order."""
    known: dict[str, tuple[SourceLine | None, SourceLine | None]] = {}
    rows = []
    for node in graph.graph.nodes:
        trace = node.stack_trace or ""
        if trace not in known:
            lines = from_trace_text(trace, cell_file)
            line, own = users_line(lines), [each for each in lines if is_users(each.file)]
            known[trace] = line, own[-1] if own and own[-1] != line else None
        dtype, shape = _result_type(node)
        stack = node.meta.get("nn_module_stack") or {}
        rows.append(
            Operation(
                node.op,
                node.name,
                target_name(node),
                _short(", ".join(map(str, node.args))),
                _short(", ".join(f"{k}={v}" for k, v in node.kwargs.items())),
                dtype,
                shape,
                known[trace][0],
                modules=tuple((_path(path), kind.__name__) for path, kind in stack.values()),
                called=known[trace][1],
            )
        )
    return tuple(rows)


def lines_of(graph: GraphModule, file: str) -> tuple[int, int]:
    """The first and last line of ``file`` that has, or led to, an operation; 0 where none has."""
    lines = []
    for trace in {node.stack_trace for node in graph.graph.nodes}:
        lines += [found.line for found in from_trace_text(trace, file)[:1] if found.file == file]
    return min(lines, default=0), max(lines, default=0)


def target_name(node: Node) -> str:
    """What a node calls, as one would write it: ``aten.add.Tensor``, ``operator.add``, ``relu``."""
    target = node.target
    if isinstance(target, str):
        return target
    if is_overload(target):
        return str(target)
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", None) or repr(target)
    module = {"_operator": "operator", "torch._C._nn": "torch.nn.functional"}.get(module, module)
    if not module:
        owner = getattr(target, "__objclass__", None)
        module = getattr(owner, "__name__", "") or "torch"
    return f"{module}.{name}" if module != "builtins" else name


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _result_type(node: Node) -> tuple[str, tuple[str, ...] | None]:
    value = node.meta.get("example_value", node.meta.get("val"))
    if isinstance(value, torch.Tensor):
        return str(value.dtype).removeprefix("torch."), tuple(str(s) for s in value.shape)
    return "", None
