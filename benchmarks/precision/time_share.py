"""The share of a call's time that operators take which compute in a lower precision.

As the engine's own profile has it: OpenVINO names the precision of each operator; in ONNX Runtime
and torch it is that of one of the operator's inputs.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

import dynamo_ext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.zoo.model import Built

    Seconds = Callable[[], float]

_CALLS = 20
"""OpenVINO tells an operator's average: as many as make the slow first call matter little."""

_COPIES = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::empty", "aten::view")
"""Beginnings of operators that compute nothing."""

_OPERATORS = {"bf16": {"bf16"}, "int8": {"i8", "u8"}}
"""How OpenVINO calls the precision of an operator."""

_TENSORS = {"bf16": {"c10::BFloat16"}, "int8": {"int8", "uint8"}}
"""How torch's and ONNX Runtime's profiles call the tensors of a precision."""


def time_share(built: Built, backend: str, batches: Sequence[Any] = ()) -> float | None:
    """The share of a call in operators of the precision that follows a backend's name.

    Parameters
    ----------
    built
        The model and its arguments.
    backend
        As ``openvino:bf16``.
    batches
        Other arguments, on which int8 is calibrated.

    Returns
    -------
    From 0 to 1; ``None`` where no profile is known for the backend.
    """
    name, _, precision = backend.partition(":")
    watch = _WATCHES.get(name)
    if watch is None:
        return None
    torch.compiler.reset()
    compiled: Any = torch.compile(
        built.module, backend=f"dx_{name}", options={"precision": precision}
    )

    def call() -> None:
        compiled(*built.args, **built.kwargs)

    with built.gradients(), watch(precision, call) as seconds:
        if batches:
            with dynamo_ext.calibrating():
                for args in (*batches, built.args):
                    compiled(*args)
        call()
        # The median: of an engine that is calibrated one of the calls is checked.
        taken = statistics.median(_seconds(call) for _ in range(_CALLS))
        return min(seconds() / taken, 1.0)


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextlib.contextmanager
def _openvino(precision: str, _: Callable[[], None]) -> Iterator[Seconds]:
    import openvino

    compile_model = openvino.Core.compile_model
    create = openvino.CompiledModel.create_infer_request
    requests: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()

    def profiled(core: Any, model: Any, device: str, config: dict[str, Any]) -> Any:
        return compile_model(core, model, device, {**config, "PERF_COUNT": True})

    def kept(compiled: Any) -> Any:
        request = create(compiled)
        requests[request] = {
            node.get_friendly_name()
            for node in compiled.get_runtime_model().get_ops()
            if node.get_rt_info()["runtimePrecision"].value in _OPERATORS[precision]
        }
        return request

    def seconds() -> float:
        found = 0.0
        for request, lowered in requests.items():
            for node in request.get_profiling_info():
                if node.node_name in lowered:
                    found += node.real_time.total_seconds()
        return found

    with (
        mock.patch.object(openvino.Core, "compile_model", profiled),
        mock.patch.object(openvino.CompiledModel, "create_infer_request", kept),
    ):
        yield seconds


@contextlib.contextmanager
def _onnxruntime(precision: str, _: Callable[[], None]) -> Iterator[Seconds]:
    import onnxruntime

    sessions: weakref.WeakSet[Any] = weakref.WeakSet()
    load = onnxruntime.InferenceSession

    def kept(model: Any, *settings: Any, **more: Any) -> Any:
        # Quantisation passes its settings by name, for sessions of its own.
        for each in settings:
            each.enable_profiling = True
            each.profile_file_prefix = str(Path(folder, "profile"))
        session = load(model, *settings, **more)
        if settings:
            sessions.add(session)
        return session

    def seconds() -> float:
        return sum(_typical_run(json.loads(Path(s.end_profiling()).read_text())) for s in sessions)

    def _typical_run(events: Any) -> float:
        low = [
            (event["ts"], event["dur"])
            for event in events
            for given in [event.get("args", {}).get("input_type_shape", ())]
            if any(_TENSORS[precision] & set(each) for each in given)
        ]
        runs = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("name") == "model_run"]
        taken: list[float] = [
            sum(spent for at, spent in low if begin <= at < end) for begin, end in runs
        ]
        return 1e-6 * statistics.median(taken or [0.0])

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(onnxruntime, "InferenceSession", kept),
    ):
        yield seconds


@contextlib.contextmanager
def _torch(precision: str, call: Callable[[], None]) -> Iterator[Seconds]:
    def seconds() -> float:
        with torch.profiler.profile(record_shapes=True) as profile:
            call()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "trace.json")
            profile.export_chrome_trace(str(file))
            events = json.loads(file.read_text())["traceEvents"]
        return 1e-6 * _own_time(events)

    def _own_time(events: list[dict[str, Any]]) -> float:
        """Of operators without those that they call: autocast's casts are called by an operator."""
        found = 0.0
        open_until: list[tuple[float, bool]] = []
        named = [event for event in events if event.get("cat") == "cpu_op"]
        for event in sorted(named, key=lambda event: (event["ts"], -event["dur"])):
            while open_until and open_until[-1][0] <= event["ts"]:
                open_until.pop()
            inputs = event.get("args", {}).get("Input type", ())
            low = not event["name"].startswith(_COPIES) and not _TENSORS[precision].isdisjoint(
                inputs
            )
            found += event["dur"] * (low - bool(open_until and open_until[-1][1]))
            open_until.append((event["ts"] + event["dur"], low))
        return found

    yield seconds


_WATCHES = {"openvino": _openvino, "onnxrt": _onnxruntime, "eager": _torch, "inductor": _torch}
