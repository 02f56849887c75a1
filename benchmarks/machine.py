"""The machine and the versions that a measurement was made with, in general words."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.zoo.form import LARGER, USUAL

if TYPE_CHECKING:
    from benchmarks.zoo.form import Form

_PACKAGES = (
    "torch",
    "transformers",
    "onnxruntime",
    "openvino",
    "apache-tvm",
    "jax",
    "torchax",
    "tensorflow-cpu",
)

_DEVICE = "; device "


def description() -> dict[str, str]:
    """Facts by name: processor, cores, memory, system, Python, and the packages there are."""
    import torch

    facts = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return facts


def sentence(form: Form = USUAL) -> str:
    """The same in one line, with the device and the size where they are not the usual ones."""
    facts = "; ".join(f"{name} {value}" for name, value in description().items())
    return f"Measured with: {facts}{_unusual(form)}."


def name() -> str:
    """Processor and cores as a name for files: ``amd-epyc-2-cores``."""
    said = re.sub(r"\(.*?\)|@.*|\b(CPU|Processor)\b", " ", _processor())
    return "-".join([*re.findall(r"[a-z0-9]+", said.lower()), str(os.cpu_count()), "cores"])


def is_here(measured_with: str, form: Form = USUAL) -> bool:
    """Whether a ``sentence`` is of this kind of machine and this form.

    That is the processor, the number of cores, and the device and size.
    """
    facts = description()
    here = f"processor {facts['processor']}; cores {facts['cores']};" in measured_with
    unusual = measured_with.removesuffix(".").partition(_DEVICE)[1:]
    return here and "".join(unusual) == _unusual(form)


def _unusual(form: Form) -> str:
    if not form.special:
        return ""
    size = f"; {LARGER} times the usual batches" if form.size == "large" else ""
    return f"{_DEVICE}{_device(form.device)}{size}"


def _device(name: str) -> str:
    import torch

    device = torch.device(name)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else name


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
