"""The arguments of a ``%%dynamo`` line."""

import argparse
import keyword
import math
from collections.abc import Collection
from typing import Any

from IPython.core.magic_arguments import argument

from dynamo_ext.backends.options import resolve
from dynamo_ext.errors import OptionError
from dynamo_ext.formatting import article
from dynamo_ext.records.common import OptionSpec

_SAVE = "import dynamo_ext, and dynamo_ext.last_report().save('report.html') writes a page"

MODES = ("optimize", "run")
COMPARE = "compare"
PARTS = ("graphs", "guards", "breaks", "fallbacks")
COMMANDS: dict[str, tuple[int, float, str]] = {
    "backends": (0, 1, "%dynamo backends [NAME]"),
    "explain": (1, math.inf, "%dynamo explain EXPRESSION, as in %dynamo explain model(x)"),
    "report": (0, 1, f"%dynamo report, or %dynamo report --markdown; {_SAVE}"),
    **{name: (0, 0, f"%dynamo {name}") for name in (*PARTS, "history")},
    "diff": (0, 2, "%dynamo diff [BEFORE AFTER], each the number of a cell, as in In[7]"),
    "use": (1, 1, "%dynamo use BACKEND"),
    **{name: (0, 0, f"%dynamo {name}") for name in ("off", "on", "reset", "machine")},
    "cache": (0, 2, "%dynamo cache [show|clear|export FILE|import FILE]"),
}
"""The fewest and the most words that may follow a command, and how it is written."""


def cell_arguments(parsed: argparse.Namespace) -> argparse.Namespace:
    """The arguments of a ``%%dynamo`` line; ``backend`` is ``None`` where the default is meant.

    Raises ``OptionError`` for flags that contradict each other, or lack another one.
    """
    if parsed.dynamic and parsed.static:
        msg = "--dynamic and --static contradict each other."
        raise OptionError(msg, "Give one of them, or none for torch's own choice.")
    if parsed.fullgraph and parsed.mode == "run":
        msg = "--fullgraph does not go with run, which never compiles: it cannot promise one graph."
        raise OptionError(msg, "Leave one of them out.")
    refuse_without_bound(parsed)
    own = {name: getattr(parsed, name) for name in ("precision", "accuracy")}
    parsed.dynamic = True if parsed.dynamic else False if parsed.static else None
    parsed.options = dict(parsed.opt or ()) | {name: text for name, text in own.items() if text}
    parsed.first_run = seconds("%%dynamo", parsed.first_run) if parsed.first_run else None
    return parsed


def refuse_without_bound(parsed: argparse.Namespace) -> None:
    """Raise ``OptionError`` where ``--metric`` stands without ``--accuracy``."""
    if parsed.metric and not parsed.accuracy:
        msg = "--metric needs a bound."
        raise OptionError(msg, "Add --accuracy, as in --accuracy 'metric>=0.95'.")


def unquoted(text: str) -> str:
    """The text without one pair of quotes around it (IPython's splitter keeps them)."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def given(text: str) -> str:
    """The ``type=`` of an option whose value may not be empty: the text without quotes."""
    bare = unquoted(text)
    if not bare.strip():
        msg = "expected one argument"
        raise argparse.ArgumentTypeError(msg)
    return bare


def seconds(owner: str, text: str) -> float:
    """Seconds for a first run, or ``none``; raises ``OptionError``, which names the ``owner``."""
    spec = OptionSpec("first_run", None, "", least=0.0, optional=float)
    found = resolve(owner, (spec,), {spec.name: text})[spec.name]
    return math.inf if found is None else float(found)


def name(text: str) -> str:
    """The ``type=`` of ``-o``: a name that a variable can have."""
    if not text.isidentifier() or keyword.iskeyword(text):
        msg = f"{text} is not a name that a variable can have"
        raise argparse.ArgumentTypeError(msg)
    return text


def key_and_value(text: str) -> tuple[str, str]:
    """The ``type=`` of ``--opt KEY=VALUE``: a pair."""
    key, equals, value = unquoted(text).partition("=")
    if not equals or not key.strip():
        msg = f"{text} is not KEY=VALUE, as in --opt threads=2"
        raise argparse.ArgumentTypeError(msg)
    return key.strip(), unquoted(value.strip())


def check_output_name(name: str | None, namespace: dict[str, Any], stored: Collection[str]) -> None:
    """Raise ``OptionError`` for an ``-o`` that the cell assigns, or that holds another value."""
    from dynamo_ext.api.compare import ComparisonResult
    from dynamo_ext.records.report import Report

    if name is None:
        return
    if name in stored:
        msg = f"-o {name}: the cell itself assigns {name}."
        raise OptionError(msg, "Choose another name for the report.")
    if name in namespace and not isinstance(namespace[name], (Report, ComparisonResult)):
        kind = type(namespace[name]).__name__
        msg = f"-o {name} would overwrite your variable {name} ({article(kind)})."
        raise OptionError(msg, "Choose another name for the report.")


SHARED = (
    argument("-o", "--output", type=name, metavar="NAME", help="keep what is shown under NAME"),
    argument("--quiet", action="store_true", help="show neither report nor comparison"),
    argument("--precision", type=given, metavar="P", help="what backends that can compute in: "
             "bf16, fp16 or int8; of one, behind its name (-b onnxrt:int8)"),
    argument("--accuracy", type=given, metavar="BOUND", help="what results in a lower precision "
             "must meet against float64: cosine>=0.9999, rel<=1e-2, top1>=0.99 or metric>=…; auto "
             "races lower precisions, too, and checks all that the cell gives"),
    argument("--metric", type=given, metavar="F", help="a function of yours (result, float64's "
             "result) -> float, which --accuracy bounds as metric"),
    argument("--check-on", type=key_and_value, metavar="NAME=LIST", help="calibrate int8, and "
             "check --accuracy, on other inputs: the cell with each value of a list of yours in "
             "the place of NAME"),
    argument("--opt", action="append", type=key_and_value, metavar="KEY=VALUE",
             help="a backend option, in a comparison of one as BACKEND.KEY; may repeat"),
    argument("-h", "--help", action="store_true", help="show this help"),
)  # fmt: skip
"""The options of a cell that is run and of one that is compared."""


def shared(magic: Any) -> Any:
    """Give a magic the options of ``SHARED``."""
    for each in reversed(SHARED):
        each(magic)
    return magic
