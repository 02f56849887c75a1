"""One model of the zoo with batches of three sizes under one backend."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

import dynamo_ext
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from benchmarks.zoo.model import mapped, tensors
from dynamo_ext.backends.support import support_cache
from dynamo_ext.numerics import tolerance

if TYPE_CHECKING:
    import argparse

NAMES = (
    "ResNet-18", "MobileNetV2", "EfficientNet", "ConvNeXt", "SqueezeNet",
    "DeiT", "Swin", "SegFormer", "BERT-base", "GPT-2",
)  # fmt: skip
BACKENDS = ("onnxrt", "openvino")
PAIRS = {f"{name}, {backend}": (name, backend) for name in NAMES for backend in BACKENDS}


@dataclass(frozen=True)
class Row(ModelRow):
    """The first call's seconds with a batch of 1, of 2 and of 3: wall-clock and processor."""

    model: str
    seconds: tuple[float, ...] = ()
    processor: tuple[float, ...] = ()
    error: str = ""


def measure(pair: str, given: argparse.Namespace) -> Row:
    """The row of a model and a backend; nothing on disk is used that was compiled before."""
    name, backend = PAIRS[pair]
    built = MODELS[name].build(Form.of(given))
    model = dynamo_ext.optimize(backend)(built.module)
    seconds, processor = [], []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.environ["DYNAMO_EXT_CACHE"] = folder
        for batch in (1, 2, 3):
            larger = partial(_repeated, batch)
            args, kwargs = mapped(built.args, larger), mapped(built.kwargs, larger)
            expected = built.module(*args, **kwargs)
            wall, used = time.perf_counter(), time.process_time()
            found = model(*args, **kwargs)
            seconds.append(time.perf_counter() - wall)
            processor.append(time.process_time() - used)
            wrong = tolerance.disagreement(tensors(found), tensors(expected), torch.float32)
            if wrong:
                return Row(pair, error=wrong)
        # Else they would be written at the end of the process, when the folder is gone.
        support_cache.clear()
    return Row(pair, tuple(seconds), tuple(processor))


def _repeated(batch: int, tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor[:1]] * batch)
