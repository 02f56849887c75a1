"""Tab completion on ``%%dynamo`` and ``%dynamo`` lines: modes, options, backend names."""

import itertools
import re
from typing import Any

from IPython.core import completer
from IPython.core.getipython import get_ipython

from dynamo_ext.magics.argument_errors import options_of
from dynamo_ext.magics.arguments import COMMANDS, COMPARE, MODES

_BACKENDS = ("-b", "--backend", "--backends")
_AFTER_FLAGS = {"--precision": ("bf16", "fp16", "int8"), "--capture": ("all",)}
_AFTER_COMMANDS = {"cache": ("show", "clear", "export", "import"), "report": ("--markdown",)}
_LINE = re.compile(r"^\s*(?P<magic>%{1,2}dynamo)\s(?P<rest>.*)$")


@completer.context_matcher()  # type: ignore[untyped-decorator,unused-ignore]
def dynamo_matcher(context: completer.CompletionContext) -> completer.SimpleMatcherResult:
    """What may follow on the line (IPython's matcher API v2)."""
    line = context.full_text.split("\n")[context.cursor_line][: context.cursor_position]
    found = _LINE.match(line)
    if not found:
        return {"completions": [], "suppress": False}
    words = found["rest"].split(" ")
    token = words[-1]
    said = [word for word in words[:-1] if word]
    choices = _choices(found["magic"], said, token)
    # IPython replaces its own token, which may be shorter than ours (`--backend=on` → `on`).
    skip = max(len(token) - len(context.token), 0)
    completions = [completer.SimpleCompletion(text=c[skip:], type=kind) for c, kind in choices]
    return {"completions": completions, "suppress": bool(completions)}


def _choices(magic: str, said: list[str], token: str) -> list[tuple[str, str]]:
    compares = magic == "%%dynamo" and said[:1] == [COMPARE]
    flag, equals, value = token.partition("=")
    if equals and flag in _BACKENDS:
        return [(f"{flag}={text}", "backend") for text in _backends(value, several=compares)]
    previous = said[-1] if said else ""
    if previous in {*_BACKENDS, "use"} or (magic == "%dynamo" and previous == "backends"):
        return [(text, "backend") for text in _backends(token, several=compares)]
    if previous == "--opt":
        return [(text, "option") for text in _options(said) if text.startswith(token)]
    if previous in _AFTER_FLAGS:
        return [(text, "value") for text in _AFTER_FLAGS[previous] if text.startswith(token)]
    if magic == "%dynamo":
        words = _AFTER_COMMANDS.get(previous, ()) if len(said) == 1 else ()
        offered = [(word, "command") for word in (words if said else COMMANDS)]
    elif compares:
        from dynamo_ext.magics.compare_arguments import parser

        flags = options_of(parser())
        offered = [(text, "option") for text in flags if text not in said or text == "--opt"]
    else:
        shell: Any = get_ipython()
        flags = options_of(shell.find_cell_magic("dynamo").parser)
        modes = (*MODES, COMPARE)
        offered = [] if set(said) & set(MODES) else [(mode, "mode") for mode in modes]
        offered += [(flag, "option") for flag in flags if flag not in said or flag == "--opt"]
    return [(text, kind) for text, kind in offered if text.startswith(token)]


def _backends(token: str, *, several: bool = False) -> list[str]:
    """Names that go on from the last one in ``token``, and the precisions behind a whole one."""
    from dynamo_ext.backends import registry

    before, comma, prefix = token.rpartition(",") if several else ("", "", token)
    taken = before.split(",")
    name, colon, _ = prefix.partition(":")
    found = [each for each in registry.names() if each not in taken]
    if colon and name in registry.names():
        found = [f"{name}:{each}" for each in registry.precisions(registry.get(name))]
    return [f"{before}{comma}{each}" for each in found if each.startswith(prefix)]


def _options(words: list[str]) -> list[str]:
    """The keys of the options that the backends on the line have."""
    from dynamo_ext.backends import precision, registry
    from dynamo_ext.measure.candidates import names_in

    listed = [value for flag, value in itertools.pairwise(words) if flag in _BACKENDS]
    names = [precision.split(name)[0] for text in listed for name in names_in(text)]
    found = [registry.get(name) for name in names if name in registry.names()]
    return list(dict.fromkeys(f"{spec.name}=" for each in found for spec in each.options))
