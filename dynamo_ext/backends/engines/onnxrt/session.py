"""ONNX Runtime sessions that work on torch's memory."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.fx import GraphModule
from torch.utils.dlpack import from_dlpack, to_dlpack

from dynamo_ext.backends.base import LoweringRequest, RunEagerlyError
from dynamo_ext.backends.engines.onnx import recurrent
from dynamo_ext.backends.fx_graph import FROZEN, duplicate
from dynamo_ext.backends.support.lending import plain
from dynamo_ext.backends.support.single_op import operator_name

_LARGE = 2**20
"""Bytes from which a constant other than a weight is lent to the session, and not in the model."""


@functools.cache
def has_cuda() -> bool:
    """Whether both torch and this build of ONNX Runtime know CUDA."""
    import onnxruntime

    built = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    return built and torch.cuda.is_available()


_PLACES = {
    "aten::embedding": 1,
    "aten::gather": 2,
    "aten::index_select": 2,
    "aten::scatter": 2,
    "aten::scatter_add": 2,
    "aten::scatter_reduce": 2,
}
"""Operators that refuse negative indices, and where these stand; ``index`` takes them."""


def without_negative_indices(graph: GraphModule) -> GraphModule:
    """A copy of a graph in which a negative index is out of range at the other end.

    ONNX Runtime, which would count it from the end, then raises, and eager raises its own error.
    """
    graph = duplicate(graph)
    for node in list(graph.graph.nodes):
        place = _PLACES.get(operator_name(node.target).partition(".")[0])
        index: Any = None if place is None else node.args[place]
        if index is None or index.op == "get_attr":
            continue
        value = index.meta["val"]
        with graph.graph.inserting_before(node):
            masked = graph.graph.call_function(
                torch.ops.aten.bitwise_and.Scalar, (index, torch.iinfo(value.dtype).max)
            )
        masked.meta = {"val": value}
        node.update_arg(place, masked)
    graph.recompile()
    return graph


@dataclass(frozen=True)
class Program:
    """An ONNX model as bytes, and what a session has to know of it.

    ``lent`` names initializers that are not in it, ``booleans`` places of outputs. ``pads_pools``
    says that it pads and takes the maximum of windows.
    """

    model: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]
    booleans: Sequence[int]
    lent: Sequence[str]
    pads_pools: bool

    def to_bytes(self) -> bytes:
        """For ``from_bytes``: a line of JSON, and the model."""
        facts = json.dumps(vars(self) | {"model": ""})
        return facts.encode() + b"\n" + self.model

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """What ``to_bytes`` wrote."""
        facts, _, model = text.partition(b"\n")
        return cls(**json.loads(facts) | {"model": model})


def program(model: Any) -> tuple[Program, dict[str, torch.Tensor]]:
    """A model from ``convert.translate`` without its weights and large constants, and these.

    The model is changed: they become external.
    """
    import onnx_ir

    lent = _take_out(model)
    outputs = model.graph.outputs
    made = Program(
        onnx_ir.to_proto(model).SerializeToString(),
        [value.name for value in model.graph.inputs],
        [value.name for value in outputs],
        [
            position
            for position, value in enumerate(outputs)
            if value.dtype == onnx_ir.DataType.BOOL and value.name != recurrent.FLAG
        ],
        list(lent),
        {"Pad", "MaxPool"} <= {node.op_type for node in model.graph},
    )
    return made, lent


def load(
    made: Program,
    lent: Mapping[str, torch.Tensor],
    options: Mapping[str, Any],
    *,
    trial: bool = False,
    stream: Any = None,
) -> Any:
    """An ``InferenceSession`` of a program, on the memory of the tensors that it is lent.

    Of the options ``threads`` is read. A ``trial`` only sees whether every operator has a kernel,
    with one thread and no rewriting. With a ``stream`` of CUDA its provider comes first, on that.

    Raises ``RuntimeError`` where that was asked for and did not load, and what ONNX Runtime raises
    where the model does not.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    settings.graph_optimization_level = levels.ORT_DISABLE_ALL if trial else levels.ORT_ENABLE_ALL
    threads = int(options.get("threads", 0)) or torch.get_num_threads()
    settings.intra_op_num_threads = 1 if trial else threads
    settings.inter_op_num_threads = 1
    # Between calls torch needs the cores: its own threads would wait for ours to stop spinning.
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    if made.pads_pools:
        # It makes zeros around a pooling part of it, which pads with minus infinity.
        settings.add_session_config_entry("optimization.disable_specified_optimizers", "Pad_Fusion")
    if lent:
        values = [onnxruntime.OrtValue(_taker(tensor)(tensor)) for tensor in lent.values()]
        settings.add_external_initializers(list(lent), values)
    providers: list[Any] = ["CPUExecutionProvider"]
    if stream:
        given = {
            "user_compute_stream": str(stream.cuda_stream),
            # Else its products and convolutions of float32 have ten bits of the mantissa.
            "use_tf32": str(int(torch.backends.cuda.matmul.allow_tf32)),
        }
        providers.insert(0, ("CUDAExecutionProvider", given))
    session = onnxruntime.InferenceSession(made.model, settings, providers=providers)
    if stream and "CUDAExecutionProvider" not in session.get_providers():
        message = "ONNX Runtime's CUDA provider did not load"
        raise RuntimeError(message)
    return session


def _take_out(model: Any) -> dict[str, torch.Tensor]:
    """Make weights and large constants external, and give them by name."""
    import onnx_ir

    lent = {}
    for name, value in model.graph.initializers.items():
        constant = value.const_value
        if constant is None or (constant.nbytes < _LARGE and not name.startswith(FROZEN)):
            continue
        tensor = _tensor_of(constant)
        if tensor is not None:
            lent[name] = tensor
            value.const_value = onnx_ir.ExternalTensor(
                "torch", 0, constant.nbytes, constant.dtype, shape=constant.shape, name=name
            )
    return lent


def _tensor_of(constant: Any) -> torch.Tensor | None:
    """A constant on the host: torch's own, or what folding made where torch has its dtype."""
    raw = getattr(constant, "raw", None)
    if isinstance(raw, torch.Tensor):
        return raw.cpu()
    array = constant.numpy()
    if array.dtype.kind not in "fiub" or array.dtype.name in ("bfloat16", "uint16", "uint32"):
        return None
    return torch.from_numpy(array.copy())


def to_ort(tensor: Any, boolean: bool) -> Any:  # noqa: FBT001 - as in ONNX Runtime's own
    """An OrtValue on a row-major tensor's memory, which it keeps alive.

    Booleans go as ``uint8`` with ``boolean`` set, for DLPack to ONNX Runtime has none.
    """
    return _adopt()(to_dlpack(tensor), boolean)


@functools.cache
def _adopt() -> Callable[[Any, bool], Any]:
    from onnxruntime.capi import onnxruntime_pybind11_state as ort

    return ort.OrtValue.from_dlpack  # type: ignore[no-any-return]


class Session:
    """A partition in ONNX Runtime: ``run(*inputs)`` gives a list of tensors.

    Inputs are lent by DLPack: nothing is copied, unless an input is not row-major. Outputs are
    allocated by ONNX Runtime and handed over by DLPack: they belong to the caller. A program may
    have the output ``recurrent.FLAG`` last. The kinds (tensor or size) of the ``request``'s inputs,
    fake or real, are those of every call. Of its options ``threads`` is read. ``load`` comes before
    the first call, in any thread.
    """

    def __init__(
        self, made: Program, lent: Mapping[str, torch.Tensor], request: LoweringRequest
    ) -> None:
        examples = request.inputs
        tensors = [value for value in examples if isinstance(value, torch.Tensor)]
        cuda = any(tensor.is_cuda for tensor in tensors)
        self._inputs, self._outputs, self._booleans = made.inputs, made.outputs, made.booleans
        told = self._outputs[-1:] == [recurrent.FLAG]
        self._flag = len(self._outputs) - 1 if told else None
        self._positions = range(len(self._outputs) - told)
        self._takes = list(map(_taker, examples))
        self._stream: Any = torch.cuda.current_stream() if cuda else None
        self._make = functools.partial(load, made, lent, request.options, stream=self._stream)

    def load(self) -> None:
        """Load the program; raises what ONNX Runtime raises."""
        self._session = self._make()
        del self._make
        self._plain = self._session._sess  # noqa: SLF001 - the public methods wrap each value
        self._run = self._run_bound if self._stream else self._plain.run_with_ort_values

    def run(self, *inputs: Any) -> list[Any]:
        """Run the session on torch's memory.

        Raises ``RunEagerlyError`` where the model says so, by its output ``recurrent.FLAG``, and
        what ONNX Runtime raises where a kernel refuses its inputs.
        """
        feeds = {
            name: take(value)
            for name, take, value in zip(self._inputs, self._takes, inputs, strict=True)
        }
        values = self._run(feeds, self._outputs, None)
        if self._flag is not None and from_dlpack(values[self._flag].to_dlpack()):
            message = (
                "A recurrent layer reads NaN or infinity, of which ONNX Runtime makes numbers."
            )
            raise RunEagerlyError(message)
        # By index: iterating over ONNX Runtime's vector takes ten times as long as the run.
        results = [from_dlpack(values[position].to_dlpack()) for position in self._positions]
        for position in self._booleans:
            results[position] = results[position].bool()
        return results

    def _run_bound(
        self, feeds: Mapping[str, Any], outputs: Sequence[str], _: None, device: str = "cuda"
    ) -> Any:
        """As ``run_with_ort_values``, which would fetch the outputs to the host.

        A caller on another stream than the session's waits for it, and it for the caller.
        """
        from onnxruntime.capi import onnxruntime_pybind11_state as ort

        kind = getattr(ort.OrtDevice, device)()
        place = ort.OrtDevice(kind, ort.OrtDevice.default_memory(), 0)
        binding = ort.SessionIOBinding(self._plain)
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            binding.bind_output(name, place)
        here = torch.cuda.current_stream() if self._stream else None
        if here is None or here == self._stream:
            self._plain.run_with_iobinding(binding, None)
        else:
            self._stream.wait_stream(here)
            self._plain.run_with_iobinding(binding, None)
            here.wait_stream(self._stream)
        return binding.get_outputs()


def _taker(example: Any) -> Callable[[Any], Any]:
    """How an input of this kind becomes an OrtValue."""
    lend = to_ort
    if isinstance(example, (bool, torch.SymBool)):
        return lambda truth: lend(torch.tensor(truth, dtype=torch.uint8), True)  # noqa: FBT003
    if not isinstance(example, torch.Tensor):
        whole = isinstance(example, (int, torch.SymInt))
        # As the exporter declares them, whatever torch's default is.
        dtype = torch.int64 if whole else torch.float32
        return lambda number: lend(torch.tensor(number, dtype=dtype), False)  # noqa: FBT003
    if example.dtype is torch.bool:
        return lambda t: lend(plain(t).view(torch.uint8), True)  # noqa: FBT003
    return lambda t: lend(plain(t), False)  # noqa: FBT003
