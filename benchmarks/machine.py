"""The machine and the versions that a measurement was made with, in general words."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.backends import ENGINES
from benchmarks.zoo.form import LARGER, USUAL
from dynamo_ext.backends import registry

if TYPE_CHECKING:
    from benchmarks.zoo.form import Form

_DEVICE = "; device "


def description() -> dict[str, str]:
    """Facts by name: processor and what torch uses of it, cores, system, Python, and packages."""
    import torch

    facts = {
        "processor": _processor(),
        "vectors": _vectors(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
    }
    return facts | _versions()


@functools.cache
def _versions() -> dict[str, str]:
    installed = importlib.metadata.packages_distributions()
    modules = [module for name in ENGINES for module in registry.get(name).packages]
    return {
        package: importlib.metadata.version(package)
        for module in ("torch", "transformers", *modules)
        for package in installed.get(module, ())[:1]
    }


def sentence(form: Form = USUAL) -> str:
    """The same in one line, with the device and the size where they are not the usual ones."""
    facts = "; ".join(f"{name} {value}" for name, value in description().items())
    return f"Measured with: {facts}{_unusual(form)}."


def name() -> str:
    """Processor, vectors and cores as a name for files: ``amd-epyc-avx2-2-cores``.

    Virtual machines give several generations of a processor one name.
    """
    said = re.sub(r"\(.*?\)|@.*|\b(CPU|Processor)\b", " ", _processor()) + f" {_vectors()}"
    return "-".join([*re.findall(r"[a-z0-9]+", said.lower()), str(os.cpu_count()), "cores"])


def is_here(measured_with: str, form: Form = USUAL) -> bool:
    """Whether a ``sentence`` is of this kind of machine and this form.

    That is the processor, its vectors, the number of cores, and the device and size.
    """
    facts = description()
    kind = "; ".join(f"{fact} {facts[fact]}" for fact in ("processor", "vectors", "cores"))
    here = f"{kind};" in measured_with
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


def _vectors() -> str:
    import torch

    return torch.backends.cpu.get_cpu_capability()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
