"""Which input shapes get an engine, where an engine knows one shape alone."""

from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.backends import calibration
from dynamo_ext.backends.journal import Journal
from dynamo_ext.torch_private import dispatch

REMEDY = (
    "Pad the inputs to fewer shapes, or use a backend that has one engine for all sizes: onnxrt, "
    "inductor."
)

MOST_SHAPES, AT_ONCE = 16, 2
"""Shapes that get an engine, and those that get one at their first call."""


def too_many() -> str:
    """What is said where no further shape gets an engine."""
    return (
        f"{MOST_SHAPES} input shapes have been compiled, which is the limit; other shapes run "
        "eagerly."
    )


class ShapeLimit:
    """Sees the calls of one graph with shapes that have no engine yet.

    After ``AT_ONCE`` shapes another one gets an engine when it comes again before another such
    shape does. A sequence that grows token by token never gets there.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()

    def refusal(self, shape: tuple[Any, ...], built: int) -> str:
        """Why a shape gets no engine at this call; empty where it gets one."""
        if built >= MOST_SHAPES:
            return too_many()
        again, self._last = shape == self._last, shape
        if again or built < AT_ONCE:
            return ""
        return (
            f"Each input shape needs an engine of its own. {built} have one; another one gets it "
            "when it comes twice with no other new shape between."
        )


def refusals(
    example_inputs: Sequence[Any], journal: Journal
) -> tuple[Callable[[Sequence[Any]], bool], ...]:
    """What has eager run calls of sizes that get no engine; nothing where no size is symbolic.

    The captured graph, which is eager's, has fewer operations than the partitions that are cut from
    it.
    """
    places = [i for i, each in enumerate(example_inputs) if dispatch.is_symbolic(each)]
    limit, served = ShapeLimit(), set[tuple[Any, ...]]()

    def refuses(args: Sequence[Any]) -> bool:
        sizes = tuple([args[place] for place in places])
        # Calls that calibrate run in eager anyway, and are seen by the partitions.
        if sizes in served or calibration.is_active():
            return False
        if refusal := limit.refusal(sizes, len(served)):
            journal.add_fallback("run", "graph", message=refusal, remedy=REMEDY)
        else:
            served.add(sizes)
        return bool(refusal)

    return (refuses,) if places else ()
