"""What is kept on disk: races, engines that ended a process, answers, programs and graphs."""

import collections
import dataclasses
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dynamo_ext.auto.backend import BACKEND
from dynamo_ext.auto.cache import Entry, Place, Store
from dynamo_ext.backends import crash_records
from dynamo_ext.backends.crash_records import Unfinished
from dynamo_ext.backends.pipeline import normalisation
from dynamo_ext.backends.support import support_cache
from dynamo_ext.backends.support.engine_store import EngineStore
from dynamo_ext.capture.cells.turn_trial import Outcomes
from dynamo_ext.errors import OptionError, RecordFormatError
from dynamo_ext.formatting import count
from dynamo_ext.records.common import checked, plain
from dynamo_ext.widgets.comparison.number_text import size

ACTIONS = ("show", "clear", "export", "import")


@dataclass(frozen=True)
class _Export:
    """What a file has: races, and by their keys programs of engines and graphs of AOTAutograd."""

    format: Literal[1]
    contests: list[Entry]
    programs: dict[str, str] = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """How many there are of each."""
        kinds = (self.contests, "race"), (self.programs, "program"), (self.graphs, "graph")
        return ", ".join(count(len(found), noun) for found, noun in kinds if found) or "0 races"


def cache(action: str = "show", file: str = "") -> str:
    """Show, clear, export or import, and say what was done.

    Raises ``OptionError`` for anything else, or a file that cannot be written, and
    ``RecordFormatError`` where an imported file is missing, or not an export.
    """
    store, path = BACKEND.store, Path(file).expanduser()
    if action not in ACTIONS or bool(file) != (action in {"export", "import"}):
        lack = "takes no file" if file else "needs a file"
        message = f"cache {action} {lack if action in ACTIONS else 'is not known'}."
        raise OptionError(message, "Write it as cache [show|clear|export FILE|import FILE].")
    if action == "show":
        return _shown(store)
    if action == "clear":
        return _cleared(store)
    if action == "export":
        return f"{_export(store, path)} written to {path}."
    return f"{_import(store, path)} read from {path}."


def _shown(store: Store) -> str:
    lines = [_summary(store.all(), store.path), *_ended(crash_records.all_of())]
    if answers := len(support_cache.AnswerTable().rows()):
        lines.append(f"{count(answers, 'answer')} of engines on whether they take an operation.")
    programs, graphs = EngineStore().files(), normalisation.store().files()
    kept = (programs, "program", "of engines"), (graphs, "graph", "as AOTAutograd makes them")
    for files, noun, what in kept:
        if files:
            taken = size(sum(each for _, each, _ in files))
            lines.append(f"{count(len(files), noun)} {what}, {taken}.")
    return "\n".join(lines)


def _cleared(store: Store) -> str:
    cleared = (
        (support_cache.clear(), "answer", "of engines forgotten"),
        (EngineStore().clear(), "program", "of engines removed"),
        (normalisation.store().clear(), "graph", "of AOTAutograd's removed"),
        (Outcomes().clear(), "loop", "may be tried again"),
        (crash_records.clear(), "engine", "that ended a process may be tried again"),
    )
    said = [f"{count(store.clear(), 'race')} forgotten."]
    said += [f"{count(number, noun)} {what}." for number, noun, what in cleared if number]
    return " ".join(said)


def _export(store: Store, path: Path) -> _Export:
    try:
        files = [
            {path.name: b64encode(path.read_bytes()).decode() for *_, path in kept.files()}
            for kept in (EngineStore(), normalisation.store())
        ]
        written = _Export(1, store.all(), *files)
        path.write_text(json.dumps(dataclasses.asdict(written), indent=1), encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        message = f"{path} cannot be written: {reason}."
        raise OptionError(message, "Give a file in a folder of yours that exists.") from None
    return written


def _import(store: Store, path: Path) -> _Export:
    """Keep what ``_export`` wrote, perhaps on another machine of the same kind."""
    try:
        found = checked(_Export, plain(path.read_bytes()))
        for kept, files in ((EngineStore(), found.programs), (normalisation.store(), found.graphs)):
            for key, text in files.items():
                kept.put(Path(key).name, b64decode(text, validate=True))
    except FileNotFoundError:
        message = f"There is no file {path}."
    except OSError as error:
        message = f"{path} cannot be read: {(error.strerror or type(error).__name__).lower()}."
    except (RecordFormatError, ValueError):
        message = f"{path} is not an export that this version can read."
    else:
        for entry in found.contests:
            store.remember(entry.graph, entry.place, entry.contest, entry.made)
        return found
    raise RecordFormatError(message, "Give a file that %dynamo cache export wrote.")


def _summary(entries: list[Entry], path: Path) -> str:
    if not entries:
        return f"No race is remembered. They are kept in {path}."
    places: dict[str, list[Entry]] = collections.defaultdict(list)
    for entry in entries:
        places[_words(entry.place)].append(entry)
    lines = [f"{count(len(entries), 'race')} remembered in {path}."]
    for place, there in places.items():
        lines.append(f"{place}:")
        won = collections.Counter(entry.contest.winner for entry in there)
        lines += [f"  {name} won {number}" for name, number in won.most_common()]
    return "\n".join(lines)


def _words(place: str) -> str:
    try:
        facts = checked(Place, plain(place))
    except RecordFormatError:
        return "At a place that this version cannot read"
    return f"{facts.device}, {count(facts.threads, 'thread')}, torch {facts.torch}"


def _ended(crashes: list[Unfinished]) -> list[str]:
    if not crashes:
        return []
    lines = [f"{count(len(crashes), 'graph')} left to eager. {crash_records.REMEDY}"]
    return lines + [f"  {record.message}" for record in crashes]
