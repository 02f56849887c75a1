"""The first import of a package that brings XLA, with the user's random numbers as they were.

JAX and TensorFlow draw from numpy's global generator, or seed it, as they are imported.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put numpy's and Python's global generators back to where they were."""
    import numpy as np

    ours = random.getstate()
    # The whole state: the older form of it knows but one kind of generator.
    theirs: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - the user's own is meant
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(theirs)  # noqa: NPY002
