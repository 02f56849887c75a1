"""The arguments of a ``%%dynamo compare`` line."""

import argparse
from typing import Any

from IPython.core.magic_arguments import MagicArgumentParser

from dynamo_ext.magics.argument_errors import parse
from dynamo_ext.magics.arguments import SHARED, given, refuse_without_bound, unquoted
from dynamo_ext.measure.candidates import names_in
from dynamo_ext.measure.settings import add_options

HELP = """Measure several backends on a cell, against eager and each other.

    %%dynamo compare -b inductor,onnxrt,openvino
    y = model(x)

Baseline and candidates run interleaved, in a new random order each round. Your names, weights,
random state and output are as before afterwards: the cell's own results are not kept.

"""


def parser() -> MagicArgumentParser:
    """The parser of the line, for its help too."""
    # Its formatter writes another % before the name.
    made = MagicArgumentParser("%dynamo compare", add_help=False)
    add: Any = made.add_argument
    add("-b", "--backends", "--backend", action="append", type=given, metavar="A,B,…",
        help="the candidates: names, or variables of yours, with commas between; without it "
        "those that auto races")  # fmt: skip
    add_options(made, unquoted)
    for each in SHARED:
        each.add_to_parser(made, None)
    return made


def compare_arguments(line: str) -> argparse.Namespace | None:
    """Read what follows ``compare``; ``None`` where it asks for help.

    ``backends`` are a list without repeats, ``opt`` a mapping. Raises ``UsageError`` or
    ``OptionError``.
    """
    parsed = parse(parser(), line)
    if parsed.help:
        return None
    names = [name for text in parsed.backends or () for name in names_in(text)]
    parsed.backends = list(dict.fromkeys(names))
    parsed.opt = dict(parsed.opt or ())
    if parsed.precision:
        parsed.opt["precision"] = parsed.precision
    refuse_without_bound(parsed)
    return parsed
