"""``inductor``: PyTorch's own compiler, with its failures turned into recorded fallbacks."""

import importlib.util
import os
import shutil
from collections.abc import Sequence

import torch

from dynamo_ext.backends import effects, precision
from dynamo_ext.backends.base import (
    WHOLE_GRAPH_OPTIONS,
    Lowered,
    LoweringRequest,
    WholeGraphBackend,
    unavailable,
)
from dynamo_ext.backends.engines.inductor import torch_private
from dynamo_ext.records.common import Availability, OptionSpec

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_RANDOM = ("eager", "torch")
_OTHERS = "Inductor draws random numbers of its own: from the same seed, others than eager's."
_EAGERS = "Leave out --opt random=torch."


class InductorBackend(WholeGraphBackend):
    """Takes the captured graph whole."""

    name = "inductor"
    summary = "PyTorch's own compiler: C++ on the CPU, Triton on GPUs"
    races = True
    through_aot = True
    options: Sequence[OptionSpec] = (
        OptionSpec("mode", "default", "what torch.compile calls mode", _MODES),
        OptionSpec("random", "eager", "whose random numbers: eager's, or Inductor's own", _RANDOM),
        *precision.BY_AUTOCAST,
        *WHOLE_GRAPH_OPTIONS,
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

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Compile with inductor under ``options["mode"]``, with eager's random numbers."""
        graph, options = request.graph, request.options
        mode, eagers = str(options.get("mode", "default")), options.get("random") != "torch"
        if not eagers and effects.of_graph(graph).draws:
            request.journal.add_fallback(
                "random", "graph", message=_OTHERS, remedy=_EAGERS, harmless=True
            )
        run = torch_private.inductor_compile(graph, request.inputs, mode, eagers_random=eagers)
        return Lowered(run)


BACKEND = InductorBackend()
