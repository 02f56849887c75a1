"""The command line: ``python -m dynamo_ext compare script.py:function -b onnxrt,inductor``."""

import argparse
import runpy
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynamo_ext.errors import DynamoExtError, LastingEffectError, OptionError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 2 where it cannot be run, with one sentence that says why."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except DynamoExtError as error:
        typed = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "dynamo_ext", *typed])
        said = error.with_commands(command) if isinstance(error, LastingEffectError) else error
        print(said, file=sys.stderr)  # noqa: T201 - a command's answer
        return 2


def _parser() -> argparse.ArgumentParser:
    from dynamo_ext.measure.settings import add_options

    parser = argparse.ArgumentParser(
        prog="python -m dynamo_ext", description="Compiler backends of PyTorch, compared."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    compare = commands.add_parser("compare", help="measure backends on a function of a script")
    compare.set_defaults(run=_compare)
    compare.add_argument("target", metavar="SCRIPT.py:FUNCTION", help="called without arguments")
    compare.add_argument("-b", "--backends", required=True, metavar="A,B,…", help="the candidates")
    add_options(compare)
    compare.add_argument("--accuracy", metavar="BOUND", help="for lower precisions: cosine>=0.9999")
    compare.add_argument("--save", type=Path, metavar="FILE", help=".html, .json, .csv or .txt")
    backends = commands.add_parser("backends", help="what can run here, and what is missing")
    backends.set_defaults(run=_backends)
    backends.add_argument("name", nargs="?", help="one of them, with its options")
    cache = commands.add_parser("cache", help="what auto remembers of its races, and more")
    cache.set_defaults(run=_cache)
    cache.add_argument("action", nargs="?", default="show", help="show, clear, export or import")
    cache.add_argument("file", nargs="?", default="", help="for export and import")
    return parser


def _compare(arguments: argparse.Namespace) -> int:
    from dynamo_ext.api.compare import compare

    own = {"run", "target", "save"}
    options = {name: value for name, value in vars(arguments).items() if name not in own}
    found = compare(_function(arguments.target), **options)
    print(found)  # noqa: T201
    if arguments.save is not None:
        found.save(arguments.save)
    return 0


def _backends(arguments: argparse.Namespace) -> int:
    from dynamo_ext.backends import registry
    from dynamo_ext.widgets.backends import render_backends

    print(render_backends(registry.describe(arguments.name)))  # noqa: T201
    return 0


def _cache(arguments: argparse.Namespace) -> int:
    from dynamo_ext.api.cache import cache

    print(cache(arguments.action, arguments.file))  # noqa: T201
    return 0


def _function(target: str) -> Callable[[], Any]:
    """The function that ``script.py:name`` names; the script runs, but not as ``__main__``."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not name.isidentifier() or not path.is_file():
        message = f"{target} is not a function of a script that is here."
        raise OptionError(message, "Write it as script.py:function.")
    # As `python script.py` does, so that it finds the modules beside it.
    sys.path.insert(0, str(path.resolve().parent))
    found = runpy.run_path(str(path)).get(name)
    if not callable(found):
        message = f"{path.name} has no function {name}."
        raise OptionError(message, "Define it at the script's top level, without arguments.")
    function: Callable[[], Any] = found
    return function


if __name__ == "__main__":
    sys.exit(main())
