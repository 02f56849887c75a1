"""Tab completion on ``%%dynamo`` and ``%dynamo`` lines: modes, options, backend names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from dynamo_ext.magics.arguments import COMMANDS, FLAGS, MODES

if TYPE_CHECKING:
    from IPython.core.completer import SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

_LINE = re.compile(r"^\s*(?P<magic>%{1,2}dynamo)\s(?P<rest>.*)$")


@context_matcher()  # type: ignore[untyped-decorator,unused-ignore]
def dynamo_matcher(context: CompletionContext) -> SimpleMatcherResult:
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
    completions = [SimpleCompletion(text=c[skip:], type=kind) for c, kind in choices]
    return {"completions": completions, "suppress": bool(completions)}


def _choices(magic: str, said: list[str], token: str) -> list[tuple[str, str]]:
    if token.startswith("--backend="):
        return [(f"--backend={n}", "backend") for n in _backends(token.partition("=")[2])]
    previous = said[-1] if said else ""
    if previous in {"-b", "--backend", "use"} or (magic == "%dynamo" and previous == "backends"):
        return [(name, "backend") for name in _backends(token)]
    if magic == "%dynamo":
        offered = [] if said else [(name, "command") for name in COMMANDS]
    else:
        offered = [] if set(said) & set(MODES) else [(mode, "mode") for mode in MODES]
        offered += [(flag, "option") for flag in FLAGS if flag not in said or flag == "--opt"]
    return [(text, kind) for text, kind in offered if text.startswith(token)]


def _backends(prefix: str) -> list[str]:
    from dynamo_ext.backends import registry

    return [name for name in registry.names() if name.startswith(prefix)]


def add_completion(shell: InteractiveShell) -> None:
    """Offer our completions in this shell."""
    completer: Any = shell.Completer
    if dynamo_matcher not in completer.custom_matchers:
        completer.custom_matchers.append(dynamo_matcher)


def remove_completion(shell: InteractiveShell) -> None:
    """Take our completions out of this shell."""
    completer: Any = shell.Completer
    if dynamo_matcher in completer.custom_matchers:
        completer.custom_matchers.remove(dynamo_matcher)
