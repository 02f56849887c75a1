"""What makes two machines the same place to have run a race."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from dynamo_ext.backends.disk_cache import device_model

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Place:
    """What a place's key says to people."""

    device: str
    threads: int
    torch: str


def place_key(backends: Iterable[str], device: torch.device) -> str:
    """The machine and the software that a race's answer holds for, as readable text."""
    import dynamo_ext

    return json.dumps(
        {
            "device": device_model(device),
            "threads": torch.get_num_threads(),
            "dynamo_ext": dynamo_ext.__version__,
            "torch": str(torch.__version__),
            "backends": {name: version_of(name) for name in sorted(backends)},
        },
        sort_keys=True,
    )


@functools.cache
def version_of(backend: str) -> str:
    """The version of the engine behind a backend; empty where it has none of its own."""
    from dynamo_ext.backends import registry

    return registry.probe(registry.get(backend)).version
