"""OpenVINO's infer requests on torch's memory."""

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import LoweringRequest, RunEagerlyError, RunThisCallEagerlyError
from dynamo_ext.backends.engines.openvino import compress, convert, finite, ran, sequences
from dynamo_ext.backends.support import data_checks
from dynamo_ext.backends.support.lending import plain
from dynamo_ext.backends.support.quiet import quiet
from dynamo_ext.errors import lines
from dynamo_ext.records.common import FULL

MOST_ADDRESSES = 64
"""Places in memory that a session remembers for each input and output."""

_MOST_MISSED = 8
"""Calls in a row that do not fulfil what is checked, after which they count as failures."""

_NOT_SMALL = (
    "A number is not finite, or too large for OpenVINO's own ReLU, clamp or max pooling to be "
    "right: they lose NaN."
)

SMALL = 4096
"""Bytes up to which a result is copied: the allocator puts such ones anywhere, and to bind a new
place takes ten times as long as the copy."""


@functools.cache
def core() -> Any:
    """The one ``openvino.Core`` of the process: it holds plugins and their threads."""
    return convert.package().Core()


_TYPES = {FULL: "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""Of what is computed in floating-point numbers."""


_PLACES = re.compile("^Exception from .*")
"""Of OpenVINO's sources: they come before what is wrong."""


def compiled(model: Any, options: Mapping[str, Any]) -> Any:
    """An ``openvino.CompiledModel`` on the CPU, on torch's thread count.

    Of the options ``threads`` and ``precision`` are read. Raises ``RuntimeError`` with what
    OpenVINO says is wrong.
    """
    config = {
        "INFERENCE_PRECISION_HINT": _TYPES[precision.of(options)],
        # Matters where weights are compressed.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": compress.GROUP,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": int(options.get("threads", 0)) or torch.get_num_threads(),
        # Pinned threads would share their cores with torch's, which are not.
        "ENABLE_CPU_PINNING": False,
    }
    try:
        return core().compile_model(model, "CPU", config)
    except RuntimeError as error:
        raise RuntimeError("\n".join(lines(error, _PLACES))) from error


def lend(tensor: torch.Tensor) -> Any:
    """An ``openvino.Tensor`` on the memory of a row-major tensor, which it does not keep alive."""
    openvino = convert.package()
    if tensor.dtype is torch.bfloat16:
        # numpy has no bfloat16, so its bits go as another type's.
        bits = _borrowed(tensor.view(torch.int16))
        return openvino.Tensor(bits, openvino.Shape(list(bits.shape)), openvino.Type.bf16)
    return openvino.Tensor(_borrowed(tensor), shared_memory=True)


def _borrowed(tensor: torch.Tensor) -> Any:
    """A numpy array on a tensor's memory without a reference to it."""
    array = tensor.numpy()
    if not array.nbytes:
        return array
    memory: Any = (ctypes.c_byte * array.nbytes).from_address(tensor.data_ptr())
    return type(array)(array.shape, array.dtype, memory)


class Session:
    """A partition in OpenVINO: ``run(*inputs)`` gives a list of tensors.

    Inputs are lent: nothing is copied, unless an input is not row-major. Outputs are torch's
    own, fresh at each call, and OpenVINO writes into them; those of a few KiB at most are copied
    from a place that is bound once. Shapes are fixed, so what is lent is known by its address
    alone, and an address that stays is bound once.
    """

    def __init__(self, request: LoweringRequest, *, keeps_nan: bool = False) -> None:
        graph, options = request.graph, request.options
        self._look = data_checks.input_check(graph)
        chosen = precision.of(options)
        # The numbers of float16 end at 65504.
        known = finite.Finite() if keeps_nan or chosen == "fp16" else finite.found(graph)
        # The engine reads constants where they are, so the graph stays with it.
        self._graph = convert.prepare(graph, known.spared)
        if chosen == "int8":
            compress.compress(self._graph, request.calibration, request.full_precision)
        self._places = convert.distinct(self._graph)
        unread = sequences.divide(self._graph)
        self._checks = bool(known.checked)
        # What the first call runs instead, where its inputs do not fulfil what is checked.
        self._other: Callable[[], Session] | None = None
        self._instead: Session | None = None
        self._missed = 0
        if self._checks:
            finite.add_check(self._graph, known.checked)
            # Integers keep no NaN.
            if chosen != "int8":
                self._other = functools.partial(Session, request, keeps_nan=True)
        compiled_model = compiled(convert.convert(self._graph), options)
        self.lowered_operations: int | None = None
        if chosen != FULL:
            self.lowered_operations = ran.lowered_operations(
                ran.products(graph), compiled_model, chosen, ran.normed(graph)
            )
        outputs: Any = self._graph.graph.output_node().args[0]
        facts = [node.meta["val"] for node in outputs]
        self._bound = not _hands_through(compiled_model)
        for value, port in zip(facts, compiled_model.outputs, strict=True):
            shape = port.get_partial_shape()
            if shape.is_dynamic or tuple(port.get_shape()) != tuple(value.shape):
                message = f"A result has shape {shape} where torch has {tuple(value.shape)}"
                raise RuntimeError(message)
        examples = [n.meta["val"] for n in self._graph.graph.nodes if n.op == "placeholder"]
        self._takes = [_lender() for _ in examples]
        self._addresses: list[int | None] = [None] * len(examples)
        self._request = compiled_model.create_infer_request()
        self._makes: list[Callable[[], torch.Tensor] | None] = []
        self._written: list[tuple[int, Callable[[torch.Tensor], Any]]] = []
        self._copied: list[tuple[int, torch.Tensor]] = []
        for position, value in enumerate(facts):
            make = functools.partial(torch.empty, tuple(value.shape), dtype=value.dtype)
            give = _lender()
            if position in unread:
                self._makes.append(None)
            elif self._bound and 0 < value.numel() * value.element_size() <= SMALL:
                place = make()
                self._request.set_output_tensor(position, give(place))
                self._copied.append((position, place))
                self._makes.append(None)
            else:
                self._written.append((position, give))
                self._makes.append(make)
        # Past the Python wrapper, which looks for inputs that are bound already.
        inner: Any = super(type(self._request), self._request)
        self._infer = functools.partial(inner.infer, {}, share_outputs=True, decode_strings=False)
        self._lock = threading.Lock()

    def run(self, *inputs: Any) -> list[Any]:
        """Run the request on torch's memory.

        Raises ``RunEagerlyError`` where a later call than the first has numbers that are not
        finite, or very large, and OpenVINO might lose NaN; up to a few in a row, that of one call.
        """
        if self._instead is not None:
            return self._instead.run(*inputs)
        if self._look is not None:
            self._look(inputs)
        results: list[Any] = [make and make() for make in self._makes]
        request = self._request
        with self._lock:
            # A request holds on to addresses alone, so copies must live until it has run.
            held = [plain(value) for value in inputs]
            bound = self._addresses
            for position, (give, value) in enumerate(zip(self._takes, held, strict=True)):
                address = value.data_ptr()
                if address != bound[position]:
                    bound[position] = None
                    request.set_input_tensor(position, give(value))
                    bound[position] = address
            if self._bound:
                for position, give in self._written:
                    request.set_output_tensor(position, give(results[position]))
            self._infer()
            self._collect(results)
        if self._checks and (instead := self._checked(results[-1])) is not None:
            return instead.run(*inputs)
        return [results[place] for place in self._places]

    def _collect(self, results: list[Any]) -> None:
        """Copy what the request did not write where it belongs."""
        if not self._bound:
            for position, give in self._written:
                self._request.get_output_tensor(position).copy_to(give(results[position]))
        for position, place in self._copied:
            results[position] = place.clone()

    def _checked(self, squares: torch.Tensor) -> "Session | None":
        """What to run instead, if the first call's numbers are not small; raises in a later one."""
        other, self._other = self._other, None
        if squares <= finite.SMALL**2:
            self._missed = 0
            return None
        if other is None:
            self._missed += 1
            raise (RunThisCallEagerlyError if self._missed <= _MOST_MISSED else RunEagerlyError)(
                _NOT_SMALL
            )
        with quiet("openvino"):
            self._instead = other()
        return self._instead


def _hands_through(compiled_model: Any) -> bool:
    """Whether a result is an input or a constant: OpenVINO does not write such a one."""
    for result in compiled_model.get_runtime_model().get_results():
        source = result.input_value(0).get_node()
        facts = source.get_rt_info()
        kind = str(facts["layerType"].value) if "layerType" in facts else source.get_type_name()
        if kind in ("Input", "Parameter", "Const", "Constant"):
            return True
    return False


def _lender() -> Callable[[torch.Tensor], Any]:
    """How tensors of one dtype and shape are lent; what lay at the same address is lent again."""
    known: dict[int, Any] = {}

    def give(tensor: torch.Tensor) -> Any:
        address = tensor.data_ptr()
        found = known.get(address)
        if found is None:
            if len(known) >= MOST_ADDRESSES:
                known.clear()
            found = known[address] = lend(tensor)
        return found

    return give
