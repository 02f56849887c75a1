"""``inductor``: PyTorch's own compiler, with its failures turned into recorded fallbacks."""

import importlib.util
import os
import shutil
from collections.abc import Sequence

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import (
    DIVIDE,
    VERIFY_GRAPH,
    CompiledFn,
    Inputs,
    Options,
    WholeGraphBackend,
    unavailable,
)
from dynamo_ext.backends.engines.inductor import torch_private
from dynamo_ext.records.common import Availability, OptionSpec

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class InductorBackend(WholeGraphBackend):
    """Takes the captured graph whole."""

    name = "inductor"
    summary = "PyTorch's own compiler: C++ on the CPU, Triton on GPUs"
    races = True
    through_aot = True
    options: Sequence[OptionSpec] = (
        OptionSpec("mode", "default", "what torch.compile calls mode", _MODES),
        *precision.BY_AUTOCAST,
        VERIFY_GRAPH,
        DIVIDE,
    )

    def probe(self) -> Availability:
        """On a CPU it needs a C++ compiler, on a GPU Triton."""
        cuda = torch.cuda.is_available()
        if cuda and importlib.util.find_spec("triton") is None:
            reason = "Inductor needs Triton for GPUs, and it is not installed."
            return unavailable(reason, "pip install triton")
        compilers = (os.environ.get("CXX", ""), "g++", "clang++", "c++", "cl")
        if not cuda and not any(name and shutil.which(name.split()[0]) for name in compilers):
            reason = "Inductor needs a C++ compiler, and none was found."
            return unavailable(reason, "Install g++ or clang, or point CXX at one.")
        return super().probe()

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Compile with inductor under ``options["mode"]``."""
        mode = str(options.get("mode", "default"))
        return torch_private.inductor_compile(graph, example_inputs, mode)


BACKEND = InductorBackend()
