"""``inductor``: PyTorch's own compiler, with its failures turned into recorded fallbacks."""

import importlib.util
import os
import shutil
from collections.abc import Sequence

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import base, effects, precision
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.engines.inductor import torch_private
from dynamo_ext.records.common import Availability, OptionSpec

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_RANDOM = ("eager", "torch")
_OTHERS = "Inductor draws random numbers of its own: from the same seed, others than eager's."
_EAGERS = "Leave out --opt random=torch."


class InductorBackend(base.WholeGraphBackend):
    """Takes the captured graph whole."""

    name = "inductor"
    summary = "PyTorch's own compiler: C++ on the CPU, Triton on GPUs"
    races = True
    through_aot = True
    options: Sequence[OptionSpec] = (
        OptionSpec("mode", "default", "what torch.compile calls mode", _MODES),
        OptionSpec("random", "eager", "whose random numbers: eager's, or Inductor's own", _RANDOM),
        *precision.BY_AUTOCAST,
        *base.WHOLE_GRAPH_OPTIONS,
    )

    def probe(self) -> Availability:
        """On a CPU it needs a C++ compiler, on a GPU Triton."""
        cuda = torch.cuda.is_available()
        if cuda and importlib.util.find_spec("triton") is None:
            reason = "Inductor needs Triton for GPUs, and it is not installed."
            return base.unavailable(reason, "pip install triton")
        compilers = (os.environ.get("CXX", ""), "g++", "clang++", "c++", "cl")
        if not cuda and not any(name and shutil.which(name.split()[0]) for name in compilers):
            reason = "Inductor needs a C++ compiler, and none was found."
            return base.unavailable(reason, "Install g++ or clang, or point CXX at one.")
        return super().probe()

    def lower(
        self, graph: GraphModule, example_inputs: base.Inputs, options: base.Options
    ) -> base.CompiledFn:
        """Compile with inductor under ``options["mode"]``, with eager's random numbers."""
        mode, eagers = str(options.get("mode", "default")), options.get("random") != "torch"
        if not eagers and effects.of_graph(graph).draws:
            journals.current().add_fallback(
                "random", "graph", message=_OTHERS, remedy=_EAGERS, harmless=True
            )
        return torch_private.inductor_compile(graph, example_inputs, mode, eagers_random=eagers)


BACKEND = InductorBackend()
