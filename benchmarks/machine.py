"""The machine and the versions that a measurement was made with, in general words."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

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


def sentence() -> str:
    """The same in one line."""
    facts = "; ".join(f"{name} {value}" for name, value in description().items())
    return f"Measured with: {facts}."


def is_here(measured_with: str) -> bool:
    """Whether a ``sentence`` is of this kind of machine: its processor and number of cores."""
    facts = description()
    return f"processor {facts['processor']}; cores {facts['cores']};" in measured_with


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
