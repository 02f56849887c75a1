"""What all that is compiled of one graph shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import Backend, Options
from dynamo_ext.backends.crash_records import Attempt
from dynamo_ext.backends.journal import Journal
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL


@dataclass
class CompileContext:
    """The backend with its options, where records go, and the user's bound of a lower precision."""

    backend: Backend
    options: Options
    journal: Journal
    attempt: Attempt | None = None
    bound: AccuracyBound | None = None

    def missed(self, found: Sequence[Any], exact: Sequence[Any]) -> str:
        """Why results in a lower precision do not meet the bound; nothing where there is none."""
        lowered = self.bound is not None and precision.of(self.options) != FULL
        return self.bound.missed(found, exact) if self.bound and lowered else ""
