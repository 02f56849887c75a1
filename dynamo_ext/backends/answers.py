"""What an engine says of single operations, asked once and known for their likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import Support
from dynamo_ext.backends.single_operation import signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Node


class Answers:
    """``supports`` of an engine that is asked by trying.

    Parameters
    ----------
    objection
        Why a node must not even be tried, or nothing; asked each time.
    attempt
        Gives an operation to the engine; what was wrong, or nothing. It may raise anything.
    complaint
        An engine's exception as the reason of a refusal, in one line.
    """

    def __init__(
        self,
        objection: Callable[[Node], str],
        attempt: Callable[[Node], str],
        complaint: Callable[[BaseException], str],
    ) -> None:
        self._objection = objection
        self._attempt = attempt
        self._complaint = complaint
        self._known: dict[Any, Support] = {}

    def __call__(self, node: Node) -> Support:
        """Whether the engine takes a node, and why not."""
        refused = self._objection(node)
        if refused:
            return Support(supported=False, reason=refused)
        key = signature(node)
        if key not in self._known:
            self._known[key] = self._tried(node)
        return self._known[key]

    def _tried(self, node: Node) -> Support:
        try:
            wrong = self._attempt(node)
        except Exception as error:  # noqa: BLE001 - the engine's own words are the reason
            return Support(supported=False, reason=self._complaint(error))
        return Support(supported=not wrong, reason=wrong)
