"""What code can change outside its own objects: random states, torch's switches, the process."""

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from dynamo_ext.numerics.rng_state import HostState, TorchState


class Surroundings:
    """The random states and global switches of this process, as they are now."""

    def __init__(self) -> None:
        self._random = (HostState(), TorchState())
        self._switches = switches()
        self._environ = dict(os.environ)
        self._folder = os.getcwd()  # noqa: PTH109 - chdir's counterpart
        self._filters = list(warnings.filters)
        self._path = list(sys.path)
        self._figures = _figures()

    def restore_random(self) -> None:
        """Put the random states of Python, NumPy and torch back."""
        for state in self._random:
            state.restore()

    def close_figures(self) -> None:
        """Close figures of pyplot's that are new: what is drawn next would be drawn into them."""
        for number in _figures() - self._figures:
            sys.modules["matplotlib.pyplot"].close(number)

    def restore(self) -> None:
        """Put everything back."""
        self.restore_random()
        put_switches(self._switches)
        if dict(os.environ) != self._environ:
            os.environ.clear()
            os.environ.update(self._environ)
        if os.getcwd() != self._folder:  # noqa: PTH109
            os.chdir(self._folder)
        if list(warnings.filters) != self._filters:
            warnings.filters[:] = self._filters  # type: ignore[index]
        sys.path[:] = self._path


def _figures() -> set[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot is not None else set()


def switches() -> dict[str, Any]:
    """Torch's global switches, as they are now."""
    return {name: read() for name, (read, _) in _SWITCHES.items()}


def put_switches(wanted: Mapping[str, Any]) -> None:
    """Set those of ``switches`` that are given and differ."""
    for name, value in wanted.items():
        read, write = _SWITCHES[name]
        if read() != value:
            write(value)


_cudnn = torch.backends.cudnn
_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "grad": (torch.is_grad_enabled, torch.set_grad_enabled),
    "dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "matmul": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "cudnn": (lambda: _cudnn.benchmark, lambda value: setattr(_cudnn, "benchmark", value)),
}
