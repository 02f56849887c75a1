"""``cudagraphs``: CUDA graphs as torch makes them, their silent skips recorded as fallbacks."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import base, precision
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.engines.cudagraphs import torch_private
from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.records.common import Availability, OptionSpec

_REMEDY = "Keep the graph on one CUDA device, and change no input in place."
_UNKNOWN = "torch skipped it at run time without a reason."


class CudagraphsBackend(base.WholeGraphBackend):
    """Records and replays the kernels of a whole graph, where torch finds it fit."""

    name = "cudagraphs"
    summary = "CUDA graphs: kernels recorded once and replayed together"
    races = True
    through_aot = True
    options: Sequence[OptionSpec] = (
        OptionSpec(
            "clone_outputs", default=True, help="copy results, which the next replay overwrites"
        ),
        *precision.BY_AUTOCAST,
        *base.WHOLE_GRAPH_OPTIONS,
    )

    def probe(self) -> Availability:
        """It needs a CUDA build of torch and a device."""
        if torch.cuda.is_available():
            return super().probe()
        if torch.version.cuda is None:
            reason = f"CUDA graphs need CUDA, and torch {torch.__version__} is built without it."
        else:
            reason = "CUDA graphs need a CUDA device, and torch sees none."
        remedy = "Run on a machine with an NVIDIA GPU and a CUDA build of torch."
        return base.unavailable(reason, remedy)

    def lower(
        self, graph: GraphModule, example_inputs: base.Inputs, options: base.Options
    ) -> base.CompiledFn:
        """Hand the graph to torch's backend, and watch its counter of skips."""
        journal = journals.current()
        in_place = torch_private.weights_in_place()
        with _skips_journalled(journal), in_place, warnings.catch_warnings():
            # Parts of torch still decorate with what torch itself has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            run = aot.compile_by_aot("cudagraphs", graph, example_inputs)
        return _watched(run, journal, clone=bool(options.get("clone_outputs", True)))


def _watched(run: base.CompiledFn, journal: Journal, *, clone: bool) -> base.CompiledFn:
    """A compiled graph whose skips at run time are journalled and whose outputs are its own."""

    def call(*args: Any) -> Sequence[Any]:
        with _skips_journalled(journal):
            outputs = run(*args)
        return list(_cloned(outputs)) if clone else outputs

    return call


@contextlib.contextmanager
def _skips_journalled(journal: Journal) -> Iterator[None]:
    """Journal each skip that torch counts inside, under the reason that it logs."""
    before = torch_private.cudagraph_skips()
    with torch_private.cudagraph_reasons() as reasons:
        try:
            yield
        finally:
            for position in range(torch_private.cudagraph_skips() - before):
                reason = reasons[position] if position < len(reasons) else _UNKNOWN
                journal.add_fallback(
                    "unsupported",
                    "graph",
                    message=f"No CUDA graph is made: {reason}",
                    remedy=_REMEDY,
                )


def _cloned(outputs: Sequence[Any]) -> Iterator[Any]:
    """Copies of CUDA tensors, two for one object only where there were two."""
    made: dict[int, Any] = {}
    for value in outputs:
        fresh = isinstance(value, torch.Tensor) and value.is_cuda
        if fresh and id(value) not in made:
            made[id(value)] = value.clone()
        yield made[id(value)] if fresh else value


BACKEND = CudagraphsBackend()
