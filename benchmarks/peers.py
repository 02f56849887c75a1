"""What people run without us, each by its own usual way, to be timed in the same rounds."""

from __future__ import annotations

import contextlib
import copy
import signal
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.zoo.model import Built

Run = Callable[..., Any]


class Flat(nn.Module):
    """A model from a row of tensors to a row of tensors, as exporters want it.

    Parameters
    ----------
    built
        The model, and the arguments that its other inputs and its outputs' form are taken from.
    """

    def __init__(self, built: Built) -> None:
        super().__init__()
        # Some models change while they are traced: Swin keeps its window's size as a tensor then,
        # on whose data the model that everybody else is timed with would branch.
        self.module = copy.deepcopy(built.module)
        leaves, self._inputs = pytree.tree_flatten((built.args, built.kwargs))
        self._given = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        with torch.no_grad():
            found = built.module(*built.args, **built.kwargs)
        kept, self._outputs = pytree.tree_flatten(found)
        self._kept = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in kept]
        self._made = [isinstance(leaf, torch.Tensor) for leaf in kept]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Every tensor of the outputs, in order."""
        left = iter(tensors)
        leaves = [next(left) if given is None else given for given in self._given]
        args, kwargs = pytree.tree_unflatten(leaves, self._inputs)
        found = pytree.tree_leaves(self.module(*args, **kwargs))
        return tuple(leaf for leaf in found if isinstance(leaf, torch.Tensor))

    def rebuilt(self, tensors: Any) -> Any:
        """The model's own form of output from its tensors."""
        left = iter(tensors)
        pairs = zip(self._made, self._kept, strict=True)
        return pytree.tree_unflatten([next(left) if m else k for m, k in pairs], self._outputs)

    @staticmethod
    def inputs(args: Any, kwargs: Any) -> list[torch.Tensor]:
        """The tensors of a call's arguments, in order."""
        return [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]


def _torch_compile(built: Built) -> Run:
    compiled: Run = torch.compile(built.module)
    return compiled


def _openvino(built: Built) -> Run:
    import openvino.torch  # noqa: F401 - registers its backend

    # Where the CPU has bfloat16, it computes in that unless told.
    options: Any = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}
    compiled: Run = torch.compile(built.module, backend="openvino", options=options)
    return compiled


def _only_inference(built: Built) -> None:
    if built.module.training:
        message = "It runs inference alone."
        raise RuntimeError(message)


def _relax_dynamo(built: Built) -> Run:
    from dynamo_ext.backends.engines.tvm import target

    _only_inference(built)
    if _seconds(built) > _SLOWEST:
        message = "Not run: untuned, it takes 50 times as long as eager on the MLP."
        raise RuntimeError(message)
    target.package()
    from tvm.relax.frontend.torch import relax_dynamo

    compiled: Run = torch.compile(built.module, backend=relax_dynamo())
    return compiled


def onnxruntime_alone(built: Built, change: Callable[[bytes], bytes] | None = None) -> Run:
    """ONNX Runtime by itself, on what ``torch.onnx.export`` gives.

    Parameters
    ----------
    built
        The model and its arguments.
    change
        From the exported model to the one that runs.
    """
    import onnxruntime

    _only_inference(built)
    flat = Flat(built).eval()
    program = torch.onnx.export(flat, tuple(flat.tensors), dynamo=True, verbose=False)
    if program is None:
        message = "torch.onnx.export gave no program."
        raise RuntimeError(message)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = torch.get_num_threads()
    # By default its thread holds a core for as long as the session lives, and nobody else in this
    # process could be timed.
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    model = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(
        change(model) if change else model, settings, providers=["CPUExecutionProvider"]
    )
    names = [given.name for given in session.get_inputs()]

    return _on_arrays(flat, lambda arrays: session.run(None, dict(zip(names, arrays, strict=True))))


def openvino_alone(built: Built, precision: str) -> Run:
    """OpenVINO by itself, on what its own converter makes of the model.

    Parameters
    ----------
    built
        The model and its arguments.
    precision
        OpenVINO's own name of it, as ``bf16``.
    """
    import openvino

    _only_inference(built)
    flat = Flat(built).eval()
    converted = openvino.convert_model(flat, example_input=tuple(flat.tensors))
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    request = openvino.compile_model(converted, "CPU", settings).create_infer_request()

    return _on_arrays(flat, lambda arrays: request.infer(arrays, share_inputs=True).values())


def _on_arrays(flat: Flat, infer: Callable[[list[Any]], Iterable[Any]]) -> Run:
    """An engine that takes and gives NumPy's arrays, as a call of the model."""

    def run(*args: Any, **kwargs: Any) -> Any:
        found = infer([tensor.numpy() for tensor in flat.inputs(args, kwargs)])
        return flat.rebuilt([torch.from_numpy(array) for array in found])

    return run


def _frozen(built: Built) -> Run:
    _only_inference(built)
    flat = Flat(built).eval()
    traced = torch.jit.trace(flat, tuple(flat.tensors), check_trace=False)  # type: ignore[no-untyped-call]
    fast = torch.jit.optimize_for_inference(torch.jit.freeze(traced))

    def run(*args: Any, **kwargs: Any) -> Any:
        return flat.rebuilt(fast(*flat.inputs(args, kwargs)))

    return run


PEERS: dict[str, Callable[[Built], Run]] = {
    "torch.compile": _torch_compile,
    "OpenVINO's torch.compile": _openvino,
    "ONNX Runtime, NumPy": onnxruntime_alone,
    "TVM's relax_dynamo": _relax_dynamo,
    "torch.jit.freeze": _frozen,
}


_SLOWEST = 0.01
"""Seconds of an eager call: of models slower than this, TVM's untuned loops take minutes."""

_LONGEST = 120
"""Seconds that a peer may take to be made, and for its first call: OpenVINO's symbolic shapes do
not come to an end on SegFormer."""


def peers(
    built: Built, makers: Mapping[str, Callable[[Built], Run]] | None = None
) -> dict[str, Run]:
    """Each peer's form of a model; what cannot be made raises why when it is called.

    Parameters
    ----------
    built
        The model and its arguments.
    makers
        What makes each peer's form; ``PEERS`` unless others are given.
    """
    found = {}
    for name, make in (PEERS if makers is None else makers).items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with _in_time():
                    found[name] = _started_in_time(make(built))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the row's reason
            found[name] = _failing(error)
    return found


class _LateError(BaseException):
    """No ``Exception``: OpenVINO's backend would fall back to Inductor, and be timed as that."""


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Raise ``TimeoutError`` in the block when it has taken too long; of the main thread only."""

    def late(*_: object) -> None:
        raise _LateError

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(_LONGEST)
    try:
        yield
    except _LateError:
        message = f"It was not ready after {_LONGEST} s."
        raise TimeoutError(message) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def _started_in_time(run: Run) -> Run:
    """The same, whose first call raises ``TimeoutError`` where it takes too long."""
    started = False

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal started
        if started:
            return run(*args, **kwargs)
        started = True
        with _in_time():
            return run(*args, **kwargs)

    return call


def _seconds(built: Built) -> float:
    """Of an eager call, after one that is not timed."""
    with torch.no_grad():
        built.module(*built.args, **built.kwargs)
        started = time.perf_counter()
        built.module(*built.args, **built.kwargs)
    return time.perf_counter() - started


def _failing(error: Exception) -> Run:
    def run(*_args: Any, **_kwargs: Any) -> Any:
        raise error

    return run
