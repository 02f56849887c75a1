"""One model in float32 and in lower precisions, in this process."""

from __future__ import annotations

import copy
import dataclasses
import os
import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks.peers import Run, onnxruntime_alone, openvino_alone, peers
from benchmarks.precision import generation
from benchmarks.precision.time_share import time_share
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from benchmarks.zoo.model import mapped
from dynamo_ext.backends import disk_cache, registry
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.widgets.comparison.limits import share_of_products

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from benchmarks.zoo.model import Built, Model
    from dynamo_ext.records.comparison import CandidateResult, Comparison
    from dynamo_ext.records.machine import MachineLimits

MEASURED = MODELS | {generation.MODEL.name: generation.MODEL}
"""The models, by name: the zoo, and token generation."""

_PATIENCE = 9
"""Further measurements of the machine, of some seconds each."""

_RANK, _BATCHES = 4, 4
"""Dimensions of images, and how many other batches of them int8 is calibrated on."""

BOUND = "cosine>=0.9999"
BOUNDED = f"auto, {BOUND}"


@dataclass(frozen=True)
class Case:
    """One backend or peer: its speedup over eager in float32 with the 95 % interval.

    ``cosine`` and ``sqnr`` (in decibels) are to float64, of peers and in float32 to eager.
    ``share`` is that of the machine's limit in its precision, 0.0 where that is not known;
    ``lowered`` that of the products' operations that ran in it, and ``time_share`` that of a call's
    time, if known. Zeros and a reason where it was not measured.
    """

    name: str
    outcome: str
    precision: str = ""
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    cosine: float = 0.0
    sqnr: float = 0.0
    share: float = 0.0
    lowered: float | None = None
    reason: str = ""
    time_share: float | None = None


@dataclass(frozen=True)
class Row(ModelRow):
    """One model. ``limits`` are seconds by precision, ``eager_seconds`` its median in float32."""

    model: str
    eager_seconds: float = 0.0
    operations: int = 0
    size: int = 0
    limits: tuple[tuple[str, float], ...] = ()
    cases: tuple[Case, ...] = ()
    error: str = ""


_GROWING = {"inductor", "onnxrt", "openvino"}
"""Backends for sizes that grow with every call, for which the others compile each time."""


def backends(model: Model) -> list[str]:
    """Those that can run here, in float32 and behind a lower precision: of int8 inference alone."""
    here = [
        name for name in registry.racing_here() if model is not generation.MODEL or name in _GROWING
    ]
    lowered = [
        f"{name}:{each}"
        for each in ("bf16", *(() if model.learns else ("int8",)))
        for name in ("eager", *here)
        if registry.has_precision(name, each)
    ]
    return [*here, *lowered]


def measure(name: str, given: argparse.Namespace) -> Row:
    """Measure the machine, and compare all on one model of the zoo."""
    with tempfile.TemporaryDirectory() as folder:
        # The user's own races and measurements neither help nor are added to.
        os.environ[disk_cache.FOLDER] = folder
        return measured(name, given)


def measured(name: str, given: argparse.Namespace) -> Row:
    """The same with what is on disk."""
    machine = _quiet_machine()
    model = MEASURED[name]
    built = model.build(Form.of(given))
    listed = {each: each for each in backends(model)}
    races = not model.learns
    batches = () if model.learns else _other_images(built)
    if races:
        listed |= {"auto": "auto", BOUNDED: "auto"}
    beside = {
        each: peer.make
        for each, peer in PEERS.items()
        if (peer.precision == "bf16" or not model.learns)
        and not (peer.exports and model is generation.MODEL)
    }
    with built.gradients(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = dynamo_ext.compare(
            built.module,
            built.args,
            listed,
            kwargs=built.kwargs,
            check_on=batches,
            budget=given.budget,
            options={f"{BOUNDED}.accuracy": BOUND} if races else {},
            callables=peers(built, beside),
        ).record
    eager, work = record.candidates[0].timing, record.work
    limits = {
        precision: found[0]
        for precision, _ in machine.products
        if work is not None and (found := machine.limit(work, precision)) is not None
    }
    cases = [_case(row, record, limits) for row in record.candidates[1:]]
    if model is not generation.MODEL:
        cases = [_with_time_share(case, built, batches) for case in cases]
    return Row(
        name,
        eager.median if eager else 0.0,
        work.operations if work else 0,
        work.size if work else 0,
        tuple(limits.items()),
        tuple(cases),
    )


def _quiet_machine() -> MachineLimits:
    """The machine's limits, measured again a few times where other programs were busy meanwhile."""
    found = dynamo_ext.measure_machine()
    for _ in range(_PATIENCE):
        if found.busy_cores < BUSY_CORES:
            break
        found = dynamo_ext.measure_machine()
    return found


def _other_images(built: Built) -> list[tuple[torch.Tensor, ...]]:
    """What int8 is calibrated on: none where a model takes anything but images."""
    images = all(isinstance(each, torch.Tensor) and each.ndim == _RANK for each in built.args)
    if built.kwargs or not images:
        return []
    return [tuple(map(torch.randn_like, built.args)) for _ in range(_BATCHES)]


def _case(row: CandidateResult, record: Comparison, limits: dict[str, float]) -> Case:
    # A peer computes in a lower precision, so eager's tolerance says nothing of it.
    peer = PEERS.get(row.name)
    precision = peer.precision if peer else row.precision
    if row.speedup is None or row.timing is None or (row.outcome != "measured" and not peer):
        return Case(row.name, row.outcome, precision, reason=row.reason)
    judged = row.accuracy[0]
    return Case(
        row.name,
        "measured",
        precision,
        row.speedup.ratio,
        row.speedup.low,
        row.speedup.high,
        judged.cosine,
        judged.sqnr or 0.0,
        0.0 if peer or row.name == BOUNDED else limits.get(row.precision, 0.0) / row.timing.median,
        share_of_products(record, row),
    )


def _with_time_share(case: Case, built: Built, batches: Sequence[Any]) -> Case:
    """A case with the share of its time in its precision, where it ran and its name has one."""
    if not case.ratio or case.name in PEERS or ":" not in case.name:
        return case
    calibrated = batches if case.precision == "int8" else ()
    return dataclasses.replace(case, time_share=time_share(built, case.name, calibrated))


def _half(built: Built) -> Run:
    return _in_bfloat16(copy.deepcopy(built.module).bfloat16())


def _compiled_half(built: Built) -> Run:
    return _in_bfloat16(torch.compile(copy.deepcopy(built.module).bfloat16()))


def _autocast(built: Built) -> Run:
    run: Run = torch.autocast("cpu", torch.bfloat16)(built.module.forward)
    return run


def _dynamic_int8(built: Built) -> Run:
    quantize: Any = torch.ao.quantization.quantize_dynamic
    run: Run = quantize(copy.deepcopy(built.module), {torch.nn.Linear})
    return run


def _torchao_int8(built: Built) -> Run:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    module = copy.deepcopy(built.module)
    quantize_(module, Int8DynamicActivationInt8WeightConfig())
    compiled: Run = torch.compile(module)
    return compiled


def _in_bfloat16(module: Run) -> Run:
    def cast(value: torch.Tensor) -> torch.Tensor:
        return value.bfloat16() if value.is_floating_point() else value

    def run(*args: Any, **kwargs: Any) -> Any:
        return module(*mapped(args, cast), **mapped(kwargs, cast))

    return run


def _quantised(model: bytes) -> bytes:
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import quantize_dynamic

    program = onnx.load_model_from_string(model)
    # Torch's exporter leaves shapes of weights there that it has transposed since.
    del program.graph.value_info[:]
    with tempfile.TemporaryDirectory() as folder:
        whole, lowered = Path(folder, "whole.onnx"), Path(folder, "lowered.onnx")
        whole.write_bytes(program.SerializeToString())
        quantize_dynamic(whole, lowered)
        return lowered.read_bytes()


@dataclass(frozen=True)
class Peer:
    """What people run without us, by its own usual way; ``exports`` what has to be one graph."""

    precision: str
    make: Callable[[Built], Run]
    exports: bool = False


PEERS = {
    "model.bfloat16()": Peer("bf16", _half),
    "model.bfloat16(), torch.compile": Peer("bf16", _compiled_half),
    "autocast": Peer("bf16", _autocast),
    "OpenVINO, its hint bf16": Peer(
        "bf16", partial(openvino_alone, precision="bf16"), exports=True
    ),
    "torch's dynamic int8": Peer("int8", _dynamic_int8),
    "torchao's int8, torch.compile": Peer("int8", _torchao_int8),
    "ONNX Runtime's quantize_dynamic": Peer(
        "int8", partial(onnxruntime_alone, change=_quantised), exports=True
    ),
}
