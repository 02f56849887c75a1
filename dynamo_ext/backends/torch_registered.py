"""What is known of the backends that torch and others register under names that are not ours."""

import importlib.util
from importlib import metadata

from dynamo_ext.backends.base import unavailable
from dynamo_ext.records.common import Availability

GROUP = "torch_dynamo_backends"


def entry_points() -> dict[str, metadata.EntryPoint]:
    """Backends of other packages, by name; ours are left out."""
    found = metadata.entry_points(group=GROUP)
    return {e.name: e for e in found if not e.value.startswith("dynamo_ext.")}


def summary(name: str) -> str:
    """One line on a backend that is not ours."""
    entry = entry_points().get(name)
    if entry is None:
        return "Registered with torch"
    return f"Registered by {entry.dist.name if entry.dist else entry.value}"


def availability(name: str) -> Availability:
    """Whether a backend of torch's works here: what torch lists is not always so."""
    import torch

    entry = entry_points().get(name)
    if entry is not None:
        package = entry.value.partition(":")[0].partition(".")[0]
        if importlib.util.find_spec(package) is None:
            reason = f"{name} is registered by {package}, which cannot be found."
            return unavailable(reason, "Reinstall it.")
        return Availability(available=True, version=entry.dist.version if entry.dist else "")
    if name.startswith("openxla"):
        if importlib.util.find_spec("torch_xla") is None:
            reason = "torch's openxla backend needs torch_xla, which is not installed."
            return unavailable(reason, "Install a torch_xla made for this torch, if there is one.")
        return Availability(available=True, version=metadata.version("torch_xla"), device="xla")
    if name == "aot_ts":
        reason = "torch's ts backends fail on every graph in this version."
        return unavailable(reason, "Use inductor or onnxrt.")
    return Availability(available=True, version=torch.__version__)
