"""One backend's compiled variant of a graph on its way through a race."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.interruptions import pass_on
from dynamo_ext.measure import accuracy
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.timing.race import TimedCallable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass
class GraphCandidate(TimedCallable):
    """A variant of a graph, which takes part until it has an ``outcome``.

    ``max_error`` is the largest relative error against eager.
    """

    outcome: str = ""
    reason: str = ""
    max_error: float = 0.0

    def drop_out(self, outcome: str, reason: str) -> None:
        """Take no further part."""
        self.outcome, self.reason = outcome, reason

    def check(
        self,
        run: Callable[[], accuracy.Results],
        eager: Callable[[], accuracy.Results],
        expected: accuracy.Results,
        tensors: Iterable[Any],
    ) -> None:
        """Run it once; where it fails or its results are wrong, it drops out.

        Where eager's tolerance does not decide, ``eager`` runs again with ``tensors`` in float64.
        """
        try:
            found = run()
        except Exception as error:  # noqa: BLE001 - a candidate that fails has lost
            pass_on(error)
            self.drop_out("failed", one_line(error))
            return
        judged = accuracy.against(found, expected)
        self.max_error = judged.max_rel
        held = [each for each in tensors if isinstance(each, torch.Tensor)]
        if not judged.within and not accuracy.as_good_in_float64(eager, held, found, expected):
            self.drop_out("wrong", judged.detail)
