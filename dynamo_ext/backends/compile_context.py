"""What all that is compiled of one graph shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import Backend, Inputs, Lowered, LoweringRequest, Options
from dynamo_ext.backends.crash_records import Attempt
from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.support import engine_store
from dynamo_ext.interruptions import suppressed
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL
from dynamo_ext.timing import first_run


@dataclass
class CompileContext:
    """The backend with its options, where records go, and the user's bound of a lower precision.

    What misses a ``strict`` bound is eager's.
    """

    backend: Backend
    options: Options
    journal: Journal
    attempt: Attempt | None = None
    bound: AccuracyBound | None = None
    strict: bool = False

    def lower(self, graph: GraphModule, inputs: Inputs, **facts: Any) -> Lowered:
        """What the backend makes of a graph; ``facts`` are further ones of the request."""
        facts |= {"journal": self.journal, "budget": first_run.current()}
        request = LoweringRequest(graph, inputs, self.options, **facts)
        return engine_store.lowered(self.backend, request, self.attempt)

    @property
    def precision(self) -> str:
        """What the backend is to compute in."""
        return precision.of(self.options)

    @property
    def refuses(self) -> bool:
        """Whether a graph that misses the bound is eager's."""
        return self.strict and self.bound is not None and self.precision != FULL

    def missed(self, outputs: Sequence[Any], exact: Sequence[Any]) -> str:
        """Why results in a lower precision do not meet the bound; nothing where there is none."""
        # What cannot be judged, for want of memory say, is not missed.
        with suppressed(Exception):
            if self.bound is not None and self.precision != FULL:
                return self.bound.missed(outputs, exact)
        return ""
