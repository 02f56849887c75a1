"""What is known of the backends that torch and others register: which work, and where."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from typing import TYPE_CHECKING

from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP = "torch_dynamo_backends"

_SUMMARIES: Mapping[str, str] = {
    "cudagraphs": "CUDA graphs as torch ships them",
    "openxla": "torch_xla's backend",
    "openxla_eval": "torch_xla's backend for inference",
    "tvm": "TVM through its former Relay interface",
    "tensorrt": "TensorRT as torch_tensorrt registers it",
    "torch_tensorrt": "TensorRT as torch_tensorrt registers it",
}


def entry_points() -> dict[str, metadata.EntryPoint]:
    """Backends of other packages, by name; ours are left out."""
    found = metadata.entry_points(group=GROUP)
    return {e.name: e for e in found if not e.value.startswith("dynamo_ext.")}


def summary(name: str) -> str:
    """One line on a backend that is not ours."""
    entry = entry_points().get(name)
    if entry is not None:
        return f"Registered by {entry.dist.name if entry.dist else entry.value}"
    return _SUMMARIES.get(name, "Registered with torch")


def availability(name: str) -> Availability:
    """Whether a backend of torch's works here: what torch lists is not always so."""
    import torch

    version = torch.__version__
    if name == "tvm":
        reason = "torch's tvm backend needs TVM's Relay interface, which TVM has removed."
        return _no(version, reason, "Use a TVM older than 0.20, or another backend.")
    if name == "cudagraphs":
        if torch.cuda.is_available():
            return Availability(available=True, version=version, device="cuda:0")
        reason = "CUDA graphs need a CUDA device, and torch sees none."
        return _no(version, reason, "Run on a machine with an NVIDIA GPU and a CUDA build of torch.")
    if name.startswith("openxla"):
        if importlib.util.find_spec("torch_xla") is None:
            reason = "torch's openxla backend needs torch_xla, which is not installed."
            return _no(version, reason, "Install a torch_xla made for this torch, if there is one.")
        return Availability(available=True, version=metadata.version("torch_xla"), device="xla")
    if name in ("ts", "aot_ts"):
        reason = "torch's ts backend fails on every graph in this version."
        return _no(version, reason, "Use inductor or onnxrt.")
    entry = entry_points().get(name)
    if entry is None:
        return Availability(available=True, version=version)
    module = entry.value.partition(":")[0]
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        return _no("", f"{name} is registered by {module}, which cannot be found.", "Reinstall it.")
    return Availability(available=True, version=entry.dist.version if entry.dist else "")


def _no(version: str, reason: str, remedy: str) -> Availability:
    return Availability(False, version, "", reason, remedy)  # noqa: FBT003
