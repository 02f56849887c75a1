"""What a user said on a ``%%dynamo compare`` line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from dynamo_ext.comparing import DTYPES
from dynamo_ext.errors import OptionError
from dynamo_ext.magics.arguments import check_name, given, key_and_value, unquoted
from dynamo_ext.magics.misspelt import explain_compare, unreadable

if TYPE_CHECKING:
    import argparse

HELP = """Measure several backends on a cell, against eager and each other.

    %%dynamo compare -b inductor,onnxrt,openvino
    y = model(x)

Baseline and candidates run interleaved, in an order drawn anew each round. Your names, weights,
random state and output are as before afterwards: the cell's own results are not kept.

"""

_SHORTEST = 0.1


@dataclass(frozen=True)
class CompareArguments:
    """A parsed line; ``backends`` are as the user wrote them."""

    backends: tuple[str, ...]
    rounds: int | None
    budget: float
    baseline: str
    fp64: bool
    dtype: str
    train: bool
    per_graph: bool
    isolate: bool
    compile_budget: float
    executor: str | None
    seed: int
    output: str | None
    quiet: bool
    options: tuple[tuple[str, str], ...]


def parser() -> argparse.ArgumentParser:
    """The parser of the line, for its help too."""
    # Its formatter writes another % before the name.
    made = MagicArgumentParser("%dynamo compare", add_help=False)
    add: Any = made.add_argument
    add("-b", "--backends", "--backend", action="append", metavar="A,B,…",
        help="the candidates: names, or variables of yours, with commas between")  # fmt: skip
    add("-n", "--rounds", metavar="N", help="exactly N rounds; without it they go on "
        "until every interval is within 1 per cent")  # fmt: skip
    add("--budget", default="30", metavar="SECONDS",
        help="seconds to measure for; compiling comes on top (default: 30)")  # fmt: skip
    add("--baseline", default="eager", metavar="NAME",
        help="what to compare with: eager (the cell as it is) or a candidate")  # fmt: skip
    add(
        "--fp64",
        action="store_true",
        help="judge results by their distance from float64's, too, not only where eager's disagree",
    )
    add("--dtype", metavar="DTYPE",
        help=f"hold weights and inputs in this precision: {' or '.join(DTYPES)}")  # fmt: skip
    add("--train", action="store_true", help="go on to the gradients of the cell's results")
    add("--per-graph", action="store_true", help="also race every captured graph by itself")
    add("--isolate", action="store_true", help="each candidate in a process of its own")
    add("--compile-budget", default="300", metavar="SECONDS",
        help="seconds that a candidate may take to compile a graph (default: 300)")  # fmt: skip
    add("--executor", metavar="EXPR", help="a concurrent.futures.Executor of yours to carry them")
    add("--seed", default="0", metavar="N", help="of the schedule and the bootstrap")
    add("-o", "--output", metavar="NAME", help="keep the comparison under NAME")
    add("--quiet", action="store_true", help="measure without showing the result")
    add("--opt", action="append", metavar="[BACKEND.]KEY=VALUE", help="a backend option")
    add("-h", "--help", action="store_true", help="show this help")
    return made


def compare_arguments(line: str) -> CompareArguments | None:
    """Read what follows ``compare``; ``None`` where it asks for help.

    Raises
    ------
    UsageError
        For an unknown flag, a value too many or too few, or a word that is no flag's.
    OptionError
        For no backends, numbers that make no sense, or an ``-o`` that is no name.
    """
    made = parser()
    try:
        parsed = made.parse_argstring(line)  # type: ignore[attr-defined]
    except UsageError:
        explain_compare(line, made)
        raise
    except ValueError as error:
        whole = f"compare {line}"
        raise unreadable(whole, error) from None
    if parsed.help:
        return None
    names = [part.strip() for text in parsed.backends or () for part in unquoted(text).split(",")]
    backends = tuple(dict.fromkeys(name for name in names if name))
    if not backends:
        msg = "%%dynamo compare needs candidates."
        raise OptionError(msg, "Write it as in %%dynamo compare -b inductor,onnxrt.")
    return CompareArguments(
        backends=backends,
        rounds=None if parsed.rounds is None else _whole("-n", parsed.rounds, 6),
        budget=_seconds("--budget", parsed.budget),
        baseline=unquoted(parsed.baseline),
        fp64=parsed.fp64,
        dtype=_dtype(parsed.dtype),
        train=parsed.train,
        per_graph=parsed.per_graph,
        isolate=parsed.isolate,
        compile_budget=_seconds("--compile-budget", parsed.compile_budget),
        executor=given("--executor", "executor", parsed.executor),
        seed=_whole("--seed", parsed.seed, 0),
        output=check_name(parsed.output),
        quiet=parsed.quiet,
        options=tuple(key_and_value(text) for text in parsed.opt or ()),
    )


def _dtype(text: str | None) -> str:
    if text is not None and unquoted(text) not in DTYPES:
        msg = f"--dtype {text} is none that can be compared in."
        raise OptionError(msg, f"Use {' or '.join(DTYPES)}.")
    return unquoted(text or "")


def _whole(flag: str, text: str, least: int) -> int:
    """The number after a flag, read here since argparse would name no remedy."""
    remedy = f"Give a whole number, {least} or more."
    try:
        number = int(unquoted(text))
    except ValueError:
        msg = f"{flag} {text} is no whole number."
        raise OptionError(msg, remedy) from None
    if number < least:
        msg = f"{flag} {text} is too little."
        raise OptionError(msg, remedy)
    return number


def _seconds(flag: str, text: str) -> float:
    """The time after a flag: nan and infinity, which ``float`` reads, would never end."""
    remedy = f"Give a finite number of seconds, {_SHORTEST} or more."
    try:
        number = float(unquoted(text))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        msg = f"{flag} {text} is no time to measure for."
        raise OptionError(msg, remedy)
    if number < _SHORTEST:
        msg = f"{flag} {text} is too little."
        raise OptionError(msg, remedy)
    return number
