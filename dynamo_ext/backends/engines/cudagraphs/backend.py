"""``cudagraphs``: CUDA graphs as torch makes them, their silent skips recorded as fallbacks."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import (
    WHOLE_GRAPH_OPTIONS,
    CompiledFn,
    Lowered,
    LoweringRequest,
    WholeGraphBackend,
    unavailable,
)
from dynamo_ext.backends.engines.cudagraphs import torch_private
from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.records.common import Availability, OptionSpec

_REMEDY = "Keep the graph on one CUDA device, and change no input in place."
_UNKNOWN = "torch skipped it at run time without a reason."


class CudagraphsBackend(WholeGraphBackend):
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
        *WHOLE_GRAPH_OPTIONS,
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
        return unavailable(reason, remedy)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Hand the graph to torch's backend, and watch its counter of skips."""
        journal = request.journal
        # Parts of torch still decorate with what torch itself has deprecated.
        ignored = warnings.catch_warnings(action="ignore", category=DeprecationWarning)
        with _skips_journalled(journal), torch_private.weights_in_place(), ignored:
            run = aot.compile_by_aot("cudagraphs", request.graph, request.inputs)
        clone = bool(request.options.get("clone_outputs", True))
        return Lowered(_watched(run, journal, clone=clone))


def _watched(run: CompiledFn, journal: Journal, *, clone: bool) -> CompiledFn:
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
