"""Which input shapes get an engine, where an engine knows one shape alone."""

from typing import Any

MOST_SHAPES, AT_ONCE = 16, 2
"""Shapes that get an engine, and those that get one at their first call."""


class ShapeLimit:
    """Sees the calls of one partition with shapes that have no engine yet.

    After ``AT_ONCE`` shapes another one gets an engine when it comes again before another such
    shape does. A sequence that grows token by token never gets there.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()

    def refusal(self, shape: tuple[Any, ...], built: int) -> str:
        """Why a shape gets no engine at this call; empty where it gets one."""
        if built >= MOST_SHAPES:
            return (
                f"{MOST_SHAPES} input shapes have been compiled, which is the limit; "
                "other shapes run eagerly."
            )
        again, self._last = shape == self._last, shape
        if again or built < AT_ONCE:
            return ""
        return (
            f"Each input shape needs an engine of its own. {built} have one; another one gets it "
            "when it comes twice with no other new shape between."
        )
