"""The user's random numbers: what their generators are at, and putting them back there."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


class HostState:
    """Python's and NumPy's global generators as they are now."""

    def __init__(self) -> None:
        self._python = random.getstate()
        # The whole state: the older form of it knows but one kind of generator.
        self._numpy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - the user's own is meant

    def restore(self) -> None:
        """Have them give the same numbers again."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002


class TorchState:
    """Torch's generators as they are now."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]

    def changed(self) -> bool:
        """Whether numbers were drawn since."""
        now = TorchState()
        pairs = zip((self._cpu, *self._cuda), (now._cpu, *now._cuda), strict=False)
        return not all(torch.equal(*each) for each in pairs)

    def restore(self) -> None:
        """Have them give the same numbers again."""
        torch.set_rng_state(self._cpu)
        for device, state in enumerate(self._cuda):
            torch.cuda.set_rng_state(state, device)


@contextlib.contextmanager
def host_kept() -> Iterator[None]:
    """Put Python's and NumPy's generators back: JAX and TensorFlow change them as they come."""
    state = HostState()
    try:
        yield
    finally:
        state.restore()
