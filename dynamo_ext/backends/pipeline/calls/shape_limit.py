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


def refusals(
    example_inputs: Sequence[Any], journal: Journal
) -> tuple[Callable[[Sequence[Any]], bool], ...]:
    """What has eager run calls of sizes that get no engine; nothing where no size is symbolic.

    After ``AT_ONCE`` shapes another one gets an engine when it comes again before another such
    shape does. A sequence that grows token by token never gets there. The captured graph, which is
    eager's, has fewer operations than the partitions that are cut from it.
    """
    places = [i for i, each in enumerate(example_inputs) if dispatch.is_symbolic(each)]
    served = set[tuple[Any, ...]]()
    last: tuple[Any, ...] = ()

    def refuses(args: Sequence[Any]) -> bool:
        nonlocal last
        sizes = tuple([args[place] for place in places])
        # Calls that calibrate run in eager anyway, and are seen by the partitions.
        if sizes in served or calibration.is_active():
            return False
        again, last = sizes == last, sizes
        if len(served) < (MOST_SHAPES if again else AT_ONCE):
            served.add(sizes)
            return False
        message = too_many()
        if len(served) < MOST_SHAPES:
            message = (
                f"Each input shape needs an engine of its own. {len(served)} have one; another one "
                "gets it when it comes twice with no other new shape between."
            )
        journal.add_fallback("run", "graph", message=message, remedy=REMEDY)
        return True

    return (refuses,) if places else ()
