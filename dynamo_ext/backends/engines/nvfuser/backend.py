"""``nvfuser``: lightning-thunder with its nvFuser executor. Not verified on a GPU.

TorchScript's own nvFuser is gone; thunder is the one way to it that is left. Neither has been
made for the torch versions that this package needs, so the probe is what most will see of it.

Names were read in the wheels of lightning-thunder 0.2.6 and of nvFuser 0.2.34 to 0.2.36.
"""

import importlib
import importlib.util
import sys
from importlib import metadata
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.base import CompiledFn, Inputs, Options, WholeGraphBackend, unavailable
from dynamo_ext.records.common import Availability

_LAST_TORCH = (2, 10)
"""The newest torch that nvFuser has wheels for. On 2.13 thunder 0.2.6 does not import either."""

_PYTHONS = ((3, 10), (3, 12))
"""Pythons that nvFuser has wheels for."""

_REMEDY = (
    "It needs an NVIDIA GPU, Python 3.10 or 3.12, torch 2.10 at most, lightning-thunder, and an "
    "nvFuser built for that torch (wheels: nvfuser-cu130-torch210, nvfuser-cu128-torch29 and "
    "their like)."
)


class NvFuserBackend(WholeGraphBackend):
    """Takes the captured graph whole; thunder fuses what nvFuser can run."""

    name = "nvfuser"
    summary = "NVIDIA nvFuser through lightning-thunder"

    def probe(self) -> Availability:
        """Torch, CUDA, Python, thunder and nvFuser must all fit; the reason names what does not."""
        wrong = problems(torch.__version__, sys.version_info[:2], cuda=torch.cuda.is_available())
        if wrong:
            return unavailable(" ".join(wrong), _REMEDY)
        _executor()
        version = metadata.version("lightning-thunder")
        return Availability(available=True, version=version, device="cuda:0")

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Compile with thunder; what it hands on to inductor is journalled with its reason."""
        del options
        compiler = importlib.import_module("thunder.dynamo").ThunderCompiler(
            executors=[_executor()]
        )
        compiled: CompiledFn = compiler(graph, list(example_inputs))
        journal = journals.current()
        for info in compiler.subgraph_infos:
            for reason in getattr(info, "split_reasons", None) or ():
                text = str(getattr(reason, "info", reason)).strip()
                journal.add_fallback(
                    "unsupported", "graph", message=f"Inductor runs a part: {text}"
                )
        return compiled


def problems(torch_version: str, python: tuple[int, int], *, cuda: bool) -> list[str]:
    """What keeps nvFuser from running here, one sentence each."""
    found = []
    major, minor = (int(part) for part in torch_version.partition("+")[0].split(".")[:2])
    if (major, minor) > _LAST_TORCH:
        found.append(f"Neither nvFuser nor lightning-thunder is made for torch {major}.{minor}.")
    if not cuda:
        found.append("nvFuser needs a CUDA device, and torch sees none.")
    if python not in _PYTHONS:
        found.append(f"nvFuser has no wheel for Python {python[0]}.{python[1]}.")
    # From its wheels for torch 2.10 on, nvFuser is `nvfuser_direct` alone.
    names = {"lightning-thunder": ("thunder",), "nvFuser": ("nvfuser_direct", "nvfuser")}
    missing = [
        name
        for name, modules in names.items()
        if not any(importlib.util.find_spec(module) for module in modules)
    ]
    if missing:
        verb = "are" if len(missing) > 1 else "is"
        found.append(f"{' and '.join(missing)} {verb} not installed.")
    return found


def _executor() -> Any:
    executor = importlib.import_module("thunder.extend").get_executor("nvfuser")
    if executor is None:
        message = "lightning-thunder has not registered its nvFuser executor."
        raise RuntimeError(message)
    return executor


BACKEND = NvFuserBackend()
