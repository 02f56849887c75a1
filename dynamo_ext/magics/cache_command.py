"""``%dynamo cache``: the races that ``auto`` remembers."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from dynamo_ext.auto.backend import BACKEND
from dynamo_ext.magics.arguments import unquoted
from dynamo_ext.wording import count

if TYPE_CHECKING:
    from dynamo_ext.auto.store import Entry, Store

_USAGE = "%dynamo cache [show|clear|export FILE|import FILE]"


def cache_command(action: str, file: str | None) -> None:
    """Show, clear, export or import.

    Raises
    ------
    UsageError
        For another action, one with a file too many or too few, or one that cannot be written.
    RecordFormatError
        Where an imported file is not there, or no export.
    """
    store = BACKEND.store
    if action not in {"show", "clear", "export", "import"}:
        msg = f"%dynamo cache {action} is not known. Write it as {_USAGE}."
        raise UsageError(msg)
    if (file is not None) != (action in {"export", "import"}):
        msg = f"Write it as {_USAGE}."
        raise UsageError(msg)
    path = Path(unquoted(file)).expanduser() if file else Path()
    if action == "show":
        said = _summary(store.all(), store.path)
    elif action == "clear":
        said = f"{count(store.clear(), 'race')} forgotten."
    elif action == "export":
        said = f"{count(_export(store, path), 'race')} written to {path}."
    else:
        said = f"{count(store.take(path), 'race')} read from {path}."
    print(said)  # noqa: T201 - a magic's answer goes to stdout


def _export(store: Store, path: Path) -> int:
    try:
        return store.export(path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        msg = f"{path} cannot be written: {reason}. Give a file in a folder of yours that exists."
        raise UsageError(msg) from None


def _summary(entries: list[Entry], path: Path) -> str:
    if not entries:
        return f"No race is remembered. They are kept in {path}."
    places: dict[str, list[Entry]] = collections.defaultdict(list)
    for entry in entries:
        places[entry.place].append(entry)
    lines = [f"{count(len(entries), 'race')} remembered in {path}."]
    for place, there in places.items():
        facts = json.loads(place)
        threads = count(facts["threads"], "thread")
        lines.append(f"{facts['device']}, {threads}, torch {facts['torch']}:")
        won = collections.Counter(entry.contest.winner for entry in there)
        lines += [f"  {name} won {number}" for name, number in won.most_common()]
    return "\n".join(lines)
