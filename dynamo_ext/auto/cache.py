"""Races that were run before: a table of the cache on disk, by graph and place.

A place is the machine and the software that a race's answer holds for.
"""

import functools
import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import torch

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.disk_cache import Table, device_model
from dynamo_ext.errors import RecordFormatError
from dynamo_ext.records.autotune import GraphRace
from dynamo_ext.records.common import checked, plain


@dataclass(frozen=True)
class Place:
    """What a place's key says to people."""

    device: str
    threads: int
    torch: str


def place_key(backends: Iterable[str], device: torch.device, accuracy: str = "") -> str:
    """The machine, the software and the accuracy that a race's answer holds for, as text.

    Of the backends the names alone: each result has the version that it was measured with.
    """
    return json.dumps(
        {
            "device": device_model(device),
            "threads": torch.get_num_threads(),
            "dynamo_ext": dynamo_ext.__version__,
            "torch": str(torch.__version__),
            "backends": sorted(backends),
            **({"accuracy": accuracy} if accuracy else {}),
        },
        sort_keys=True,
    )


@functools.cache
def version_of(backend: str) -> str:
    """The version of the engine behind a backend; empty where it has none of its own."""
    found, _ = registry.request(backend)
    return registry.probe(found).version


def outdated(contest: GraphRace, names: Iterable[str]) -> list[str]:
    """Those of the backends that have another version now than in a race."""
    then = {row.backend: row.version for row in contest.contestants}
    return [name for name in names if then.get(name, "") != version_of(name) and name in then]


@dataclass(frozen=True)
class Entry:
    """One remembered race; ``made`` is seconds since 1970."""

    graph: str
    place: str
    contest: GraphRace
    made: float


class Store(Table):
    """Races by graph and place."""

    name = "contests"

    def find(self, graph: str, place: str) -> Entry | None:
        """The race of this graph at this place, if there was one."""
        rows = self.rows("key = ? AND place = ?", graph, place)
        return _entry(rows[0]) if rows else None

    def promises(self, place: str) -> dict[str, float]:
        """By backend, the median speedup over eager in the last races at a place."""
        last = "rowid IN (SELECT rowid FROM contests WHERE place = ? ORDER BY made DESC LIMIT 50)"
        found: dict[str, list[float]] = {}
        for entry in filter(None, map(_entry, self.rows(last, place))):
            for each in entry.contest.contestants:
                if each.speedup:
                    found.setdefault(each.backend, []).append(each.speedup)
        return {name: statistics.median(ratios) for name, ratios in found.items()}

    def all(self) -> list[Entry]:
        """Every race, newest first."""
        return [entry for entry in map(_entry, self.rows()) if entry is not None]

    def remember(
        self, graph: str, place: str, contest: GraphRace, made: float | None = None
    ) -> None:
        """Keep a race, instead of an earlier one of the same graph at the same place."""
        rows = [replace(r, version=r.version or version_of(r.backend)) for r in contest.contestants]
        text = json.dumps(asdict(replace(contest, contestants=tuple(rows))))
        self.keep([(graph, place, text, time.time() if made is None else made)])


def _entry(row: tuple[object, ...]) -> Entry | None:
    """A row as a race; nothing where it is none, so that the graph is raced again."""
    graph, place, text, made = row
    try:
        facts = {"graph": graph, "place": place, "contest": plain(str(text)), "made": made}
        return checked(Entry, facts)
    except RecordFormatError:
        return None
