"""How long and how thoroughly a comparison measures."""

from dataclasses import dataclass
from typing import Any

from dynamo_ext.numerics.accuracy_bound import AccuracyBound


@dataclass(frozen=True)
class Settings:
    """What a user may set; see ``dynamo_ext.compare``.

    ``check_on`` is other inputs, each as ``Workload.on`` takes them.
    """

    rounds: int | None = None
    budget: float = 30.0
    compile_budget: float = 300.0
    baseline: str = "eager"
    fp64: bool = False
    dtype: str = ""
    train: bool = False
    per_graph: bool = False
    allow_writes: bool = False
    seed: int = 0
    bound: AccuracyBound | None = None
    check_on: tuple[Any, ...] = ()
