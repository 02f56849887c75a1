"""How long and how thoroughly a comparison measures: each option, said once."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Self

from dynamo_ext.backends.options import resolve
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import OptionSpec


def _option(text: str, *, default: Any = False, **more: Any) -> Any:
    return field(default=default, metadata={"help": text, **more})


_LEAST, _RUNS = 5.0, 3
"""Seconds that each row of a comparison has at least, and runs of the code as it is."""


@dataclass(frozen=True)
class Settings:
    """What a user may set; see ``dynamo_ext.compare``.

    ``check_on`` is other inputs, each as ``Workload.on`` takes them.
    """

    rounds: int | None = _option(
        "exactly N rounds (intervals need 6); without it until every interval is within 1 per cent",
        default=None,
        least=1,
        optional=int,
    )
    budget: float = _option(
        "seconds to time for; each candidate has as many to compile (5 at least, and three runs)",
        default=30.0,
        least=0.01,
    )
    first_run: float | None = _option(
        "seconds of compiling after which a candidate begins nothing further, where budget leaves "
        "as many; none lifts both",
        default=300.0,
        least=0.01,
        optional=float,
    )
    baseline: str = _option("eager (the code as it is), or a candidate", default="eager")
    fp64: bool = _option("judge by the distance from float64, not only where eager's disagree")
    dtype: str = _option(
        "float16 or bfloat16: hold weights and inputs in it",
        default="",
        choices=("float16", "bfloat16"),
    )
    train: bool = _option("go on to the gradients of the results")
    per_graph: bool = _option("also race every captured graph by itself")
    allow_writes: bool = _option(
        "compare what writes files, starts processes or uses the network, in each run again"
    )
    isolate: bool = _option("each candidate in a process of its own")
    seed: int = _option("of the schedule", default=0, least=0)
    bound: AccuracyBound | None = None
    check_on: tuple[Any, ...] = ()

    @classmethod
    def of(cls, bound: AccuracyBound | None, check_on: tuple[Any, ...], **asked: Any) -> Self:
        """Those that are asked for, as values or text; raises ``OptionError`` for what is none."""
        return cls(**resolve("compare", OPTIONS, asked), bound=bound, check_on=check_on)

    @property
    def compiling(self) -> float:
        """Seconds that a candidate may compile for."""
        return math.inf if self.first_run is None else self.first_run

    def seconds(self, rows: int, run: float = 0.0) -> float:
        """What so many rows take, of code whose run takes ``run`` seconds."""
        return rows * max(self.budget, _LEAST, _RUNS * run)

    @property
    def stages(self) -> int:
        """How often that is: for the code as a whole, and for its graphs."""
        return 2 if self.per_graph else 1

    def announcement(self, seconds: float) -> str:
        """How long a comparison takes, as one sentence."""
        limited = self.first_run is not None
        took = f"{2 * seconds:.0f} s at most" if limited else f"some {seconds:.0f} s"
        said = f"The comparison takes {took}, less where intervals are narrow sooner"
        return f"{said} (--budget {self.budget:g}). What a compiler has begun is finished."


OPTIONS = tuple(
    OptionSpec(each.name, getattr(Settings, each.name), **each.metadata)
    for each in fields(Settings)
    if each.metadata
)


def add_options(parser: argparse.ArgumentParser, read: Callable[[str], str] = str) -> None:
    """Give a parser all of them; what follows one stays text, for ``Settings.of``."""
    for each in OPTIONS:
        flag = f"--{each.name.replace('_', '-')}"
        if each.default is False:
            parser.add_argument(flag, action="store_true", help=each.help)
            continue
        flags = ["-n", flag] if each.name == "rounds" else [flag]
        choices = each.choices or None
        metavar = {int: "N", float: "SECONDS"}.get(each.kind, each.name.upper())
        said = each.help if each.default in {None, ""} else f"{each.help} (default: {each.default})"
        parser.add_argument(
            *flags, type=read, default=each.default, choices=choices, metavar=metavar, help=said
        )
