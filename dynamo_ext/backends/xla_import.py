"""JAX, imported once, with the user's random numbers as they were."""

from __future__ import annotations

import functools
import sys

from dynamo_ext.backends import random_state


@functools.cache
def import_jax() -> None:
    """Import JAX, unless it is there; to be called before anything else of ours does so."""
    if "jax" not in sys.modules:
        with random_state.host_kept():
            import jax  # noqa: F401
