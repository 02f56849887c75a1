"""From a partition of core ATen to an OpenVINO model."""

from __future__ import annotations

import contextlib
import functools
import logging
import operator
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.torch_private import decompositions as decompositions_private
from dynamo_ext.errors import one_line
from dynamo_ext.torch_private import fx_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch.fx import GraphModule, Node

_WHOLE = (
    # OpenVINO has these as one operation, most of them fused into what comes before.
    "elu.default",
    "gelu.default",
    "hardsigmoid.default",
    "hardswish.default",
    "leaky_relu.default",
    "mish.default",
    "native_group_norm.default",
    "native_layer_norm.default",
    "silu.default",
    "softplus.default",
    "upsample_bilinear2d.vec",
    "upsample_nearest2d.vec",
)

_CUT_UP = (
    *decompositions_private.BACKWARD,
    # Operators, most of them of backward graphs, that the frontend does not know.
    "threshold_backward.default",
    "nll_loss2d_forward.default",
    "nll_loss2d_backward.default",
    "var.correction",
    "var_mean.correction",
)


_NOISE = re.compile(
    r"^((Exception from|Check '|Converting input model|FrontEnd API failed|-- ).*|Summary:?)$"
)


def decompositions(
    table: dict[Any, Callable[..., Any]], *, training: bool
) -> dict[Any, Callable[..., Any]]:
    """The table without what OpenVINO has as one operation, and with more of what it has not.

    For training all of them are decomposed: the backward graph reads statistics of normalisations.
    """
    whole = set() if training else {fx_nodes.overload(name) for name in _WHOLE}
    kept = {op: cut for op, cut in table.items() if op not in whole}
    return kept | decompositions_private.decompositions_of(_CUT_UP)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep OpenVINO's Python side from logging and warning in a cell."""
    logger = logging.getLogger("openvino")
    before = logger.disabled
    logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


def error_summary(error: BaseException) -> str:
    """OpenVINO's message in one line, without its file names."""
    unknown = re.search(r"No conversion rule found for operations: ([^\n]+)", str(error))
    if unknown:
        return f"OpenVINO's frontend has no conversion for {unknown[1]}"
    return one_line(error, _NOISE)


@functools.cache
def package() -> Any:
    """The ``openvino`` package, imported without the telemetry that its import would send.

    OpenVINO does without ``openvino_telemetry`` where that cannot be imported.
    """
    blocked = "openvino_telemetry" not in sys.modules
    if blocked:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        if blocked:
            del sys.modules["openvino_telemetry"]
    return openvino


@functools.cache
def types() -> dict[torch.dtype, Any]:
    """The dtypes that cross over, as OpenVINO's types."""
    import torch

    kinds = package().Type
    return {
        torch.float32: kinds.f32,
        torch.bfloat16: kinds.bf16,
        torch.bool: kinds.boolean,
    }


@functools.cache
def _frontend() -> Any:
    manager = package().frontend.FrontEndManager()
    return manager.load_by_framework("pytorch"), manager


def prepare(graph: GraphModule) -> GraphModule:
    """A copy of a partition as the frontend wants it, and as it converts it rightly."""
    import torch
    from torch.fx.passes.shape_prop import TensorMetadata

    graph = duplicate(graph)
    for node in list(graph.graph.nodes):
        if node.op == "placeholder":
            value = node.meta["val"]
            shape = torch.Size([int(size) for size in value.shape])
            strides = torch.empty(shape, device="meta").stride()
            node.meta["tensor_meta"] = TensorMetadata(
                shape,
                value.dtype,
                requires_grad=False,
                stride=strides,
                memory_format=torch.contiguous_format,
                is_quantized=False,
                qparams={},
            )
        elif node.op == "get_attr":
            node.meta.pop("tensor_meta", None)
            # The frontend reads through a bare pointer what it makes contiguous itself.
            setattr(graph, str(node.target), getattr(graph, str(node.target)).contiguous())
        else:
            node.meta.pop("tensor_meta", None)
            _mend(graph, node)
    return graph


def distinct(graph: GraphModule) -> list[int]:
    """Make the graph's outputs distinct; for each former output, the place of it among them.

    Operations that change nothing go: the frontend makes one value of both sides, and then
    cannot tell their names apart.
    """
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and _changes_nothing(node):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    output = graph.graph.output_node()
    former: Any = output.args[0]
    different = list(dict.fromkeys(former))
    output.args = (tuple(different),)
    graph.recompile()
    return [different.index(node) for node in former]


def _changes_nothing(node: Node) -> bool:
    source: Any = node.args[0] if node.args else None
    before: Any = getattr(source, "meta", {}).get("val")
    after: Any = node.meta.get("val")
    name = operator_name(node.target)
    if name in ("aten::clone", "aten::alias", "aten::detach", "aten::lift_fresh_copy"):
        return True
    if name.startswith(("aten::expand", "aten::view", "aten::slice.T", "aten::_to_copy")):
        shapes = getattr(before, "shape", None), getattr(after, "shape", ())
        return shapes[0] == shapes[1] and before.dtype == after.dtype
    return name == "aten::permute" and list(node.args[1]) == sorted(node.args[1])  # type: ignore[arg-type]


def _mend(graph: GraphModule, node: Node) -> None:
    """Write an operation in such a way that OpenVINO hands on NaN as torch does, and lives."""
    import torch

    aten = torch.ops.aten
    add = graph.graph.call_function
    subject: Any = node.args[0] if node.args else None
    if node.target is aten.relu.default:
        # Of its Maximum's operands the second is the result where either is NaN.
        with graph.graph.inserting_before(node):
            zero = _scalar(graph, 0.0, node.meta["val"].dtype)
        node.target, node.args = aten.maximum.default, (zero, subject)
    elif node.target in (aten.clamp.default, aten.hardtanh.default):
        if node.meta["val"].is_floating_point():
            _mend_clamp(graph, node)
    elif node.target is aten.exp.default:
        # Its exponential of NaN is infinite.
        with graph.graph.inserting_before(node.next):
            lost = add(aten.ne.Tensor, (subject, subject))
            _instead(node, add(aten.where.self, (lost, subject, node)))
    elif node.target is aten._softmax.default:  # noqa: SLF001 - an operator
        # Its softmax leaves NaN where it stands, and torch's spreads it along the dimension.
        with graph.graph.inserting_before(node.next):
            total = add(aten.sum.dim_IntList, (node, [node.args[1]], True))
            lost = add(aten.ne.Tensor, (total, total))
            nothing = _scalar(graph, float("nan"), node.meta["val"].dtype)
            _instead(node, add(aten.where.self, (lost, nothing, node)), total)
    elif node.target is aten.max_pool2d_with_indices.default:
        _mend_pool(graph, node)
    elif node.target is aten.native_group_norm.default:
        _mend_group_norm(graph, node)
    elif node.target is aten.view.default and not node.meta["val"].ndim:
        # Reshaping a product of matrices to no dimension ends the process.
        dims = list(range(subject.meta["val"].ndim))
        node.target, node.args = aten.squeeze.dims, (subject, dims)


def _mend_clamp(graph: GraphModule, node: Node) -> None:
    """Clamp by maxima alone: a minimum of a maximum would become one that loses NaN."""
    import torch

    aten = torch.ops.aten
    add = graph.graph.call_function
    ends: Any = (None, None) if node.target is aten.clamp.default else (-1.0, 1.0)
    given: Any = (*node.args, *ends[len(node.args) - 1 :])
    subject, low, high = given
    kind = node.meta["val"].dtype
    if low is None:
        with graph.graph.inserting_before(node):
            limit = _scalar(graph, high, kind)
        node.target, node.args, node.kwargs = aten.minimum.default, (limit, subject), {}
        return
    with graph.graph.inserting_before(node):
        least = (_scalar(graph, low, kind), subject)
        if high is not None:
            turned = add(aten.neg.default, (add(aten.maximum.default, least),))
            most = add(aten.maximum.default, (_scalar(graph, -high, kind), turned))
    if high is None:
        node.target, node.args, node.kwargs = aten.maximum.default, least, {}
    else:
        node.target, node.args, node.kwargs = aten.neg.default, (most,), {}


def _mend_group_norm(graph: GraphModule, node: Node) -> None:
    """Normalise groups as rows, which is as fast.

    OpenVINO 2026.4 has an operation for it, and a null pointer where that and a computed tensor
    are the operands of another one: ``compile_model`` ends the process.
    """
    import torch

    aten = torch.ops.aten
    add = graph.graph.call_function
    given: Any = node.args
    subject, weight, bias, count, channels, length, groups, eps = given
    [reader] = node.users
    shape = list(reader.meta["val"].shape)
    rows = [count, groups, channels * length // groups]
    along = [channels, *[1] * (len(shape) - 2)]
    with graph.graph.inserting_before(node):
        grouped = add(aten.view.default, (subject, rows))
        normed = add(aten.native_layer_norm.default, (grouped, rows[-1:], None, None, eps))
        result = add(aten.view.default, (add(operator.getitem, (normed, 0)), shape))
        for scale, by in ((aten.mul.Tensor, weight), (aten.add.Tensor, bias)):
            if by is not None:
                result = add(scale, (result, add(aten.view.default, (by, along))))
    result.meta = dict(reader.meta)
    reader.replace_all_uses_with(result)


def _instead(node: Node, replacement: Node, *helpers: Node) -> None:
    """Let the others read ``replacement``, which is made of ``node`` by way of ``helpers``."""
    replacement.meta = dict(node.meta)
    made_of = {replacement, *helpers}
    node.replace_all_uses_with(replacement, delete_user_cb=lambda user: user not in made_of)


def _scalar(graph: GraphModule, number: Any, kind: torch.dtype) -> Node:
    import torch

    full = torch.ops.aten.full.default
    return graph.graph.call_function(full, ([], float(number)), {"dtype": kind})


def _mend_pool(graph: GraphModule, node: Node) -> None:
    """Pool the places of NaN as well, for OpenVINO's maximum passes them over."""
    import torch

    aten = torch.ops.aten
    add = graph.graph.call_function
    subject, *window = node.args
    pool: Any = node.target
    readers = [user for user in node.users if user.target is operator.getitem]
    if any(user.args[1] != 0 for user in readers):
        return
    for reader in readers:
        kind = reader.meta["val"].dtype
        with graph.graph.inserting_before(reader.next):
            lost = add(aten.ne.Tensor, (subject, subject))
            number = add(aten._to_copy.default, (lost,), {"dtype": kind})  # noqa: SLF001 - an operator
            pooled = add(pool, (number, *window))
            found = add(aten.gt.Scalar, (add(operator.getitem, (pooled, 0)), 0.5))
            nothing = _scalar(graph, float("nan"), kind)
            _instead(reader, add(aten.where.self, (found, nothing, reader)))


def convert(graph: GraphModule) -> Any:
    """An ``openvino.Model`` whose inputs and outputs are the graph's, in order.

    The graph, from ``prepare``, must live as long as the model, which shares its constants.
    """
    frontend, _ = _frontend()
    from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder
    from openvino.preprocess import PrePostProcessor

    decoder = TorchFXPythonDecoder(graph)
    model = frontend.convert(frontend.load(decoder))
    outputs: Any = graph.graph.output_node().args[0]
    wanted = [types()[node.meta["val"].dtype] for node in outputs]
    if len(model.outputs) != len(wanted):
        message = f"{len(model.outputs)} results came where {len(wanted)} were expected"
        raise RuntimeError(message)
    if any(o.get_element_type() != kind for o, kind in zip(model.outputs, wanted, strict=True)):
        processor = PrePostProcessor(model)
        for position, kind in enumerate(wanted):
            processor.output(position).tensor().set_element_type(kind)
        model = processor.build()
    return model
