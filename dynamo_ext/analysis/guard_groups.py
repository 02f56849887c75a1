"""Guards put together: those that are alike but for an index, by the module that owns them."""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dynamo_ext.analysis.guards import condition
from dynamo_ext.analysis.remembered import remembered
from dynamo_ext.records.capture import Guard
from dynamo_ext.records.report import Report

OTHER = "other conditions"
_INDEX = re.compile(r"\['?\d+'?\]")
_LAYER = re.compile(r"\.\d+(?=\.|\)|$)")
_MODULE = re.compile(r"\._modules\['([^']*)'\]")
_IMPORTED = re.compile(r"G\['(?:__import_|__builtins_|torch'\])")
_PATH = re.compile(r"[\w.\[\]']*")
_INTERNAL = re.compile(r"\._\w+$")
_STRUCTURE = frozenset({
    "SEQUENCE_LENGTH", "TYPE_MATCH", "HASATTR", "CLOSURE_MATCH", "ID_MATCH", "DUPLICATE_INPUT",
    "DICT_CONTAINS", "DICT_NOT_CONTAINS", "DICT_KEYS_MATCH",
})  # fmt: skip


@dataclass(frozen=True)
class Alike:
    """Guards that differ in an index and their frame alone: ``first``, with ``*`` for the index."""

    first: Guard
    members: tuple[Guard, ...]

    @property
    def frames(self) -> tuple[str, ...]:
        """The frames that have one of them."""
        return tuple(dict.fromkeys(each.frame for each in self.members))

    @property
    def is_structural(self) -> bool:
        """Whether they hold as long as no library and no module's structure is changed."""
        source, kind = self.first.source, self.first.kind
        if _IMPORTED.search(source) or kind == "NOT_PRESENT_IN_GENERIC_DICT":
            return True
        of_module = "._modules['" in source or _INTERNAL.search(source) is not None
        return kind in _STRUCTURE and of_module


@remembered
def grouped(report: Report, find: str = "") -> dict[str, list[Alike]]:
    """The guards that ``find`` names, by owner: those that failed first, libraries' last."""
    wanted = find.strip().casefold()
    groups: dict[str, dict[object, list[Guard]]] = {}
    for guard in report.guards:
        if wanted and wanted not in _words(guard):
            continue
        same = groups.setdefault(owner(guard), {})
        same.setdefault(_pattern(guard), []).append(guard)
    failed = {each.variable for each in report.recompiles}
    imported = {each.variable for each in report.guards if each.source.startswith("G['__import_")}
    last = {OTHER, "torch", *imported}
    roots = {name: next(iter(of.values()))[0].variable or OTHER for name, of in groups.items()}
    names = sorted(groups, key=lambda name: (roots[name] in last, roots[name] not in failed))
    return {name: [_alike(members) for members in groups[name].values()] for name in names}


def owner(guard: Guard) -> str:
    """The module that a guard is about, as ``model.layers.*.norm``; else its variable."""
    path = "".join(f".{name}" for name in _MODULE.findall(guard.source))
    root, found, _ = guard.subject.partition(path) if path else ("", "", "")
    if not found or not _PATH.fullmatch(root):
        return guard.variable or OTHER
    return _LAYER.sub(".*", root + path)


def total(guards: Iterable[Alike]) -> int:
    """How many guards these stand for: each frame has its own."""
    return sum(len(each.members) for each in guards)


def _words(guard: Guard) -> str:
    return f"{guard.source} {guard.subject} {guard.kind} {condition(guard)}".casefold()


def _pattern(guard: Guard) -> object:
    """What guards have in common that differ in an index and their frame alone."""
    code = tuple(_INDEX.sub("[*]", text) if "._modules['" in text else text for text in guard.code)
    about = _INDEX.sub("[*]", guard.source), guard.variable
    tensor = guard.dtype, guard.device, guard.shape, guard.requires_grad
    return about, guard.kind, code, guard.expected, guard.is_length, tensor


def _alike(members: list[Guard]) -> Alike:
    first = members[0]
    if len({each.source for each in members}) > 1:
        first = dataclasses.replace(
            first,
            source=_INDEX.sub("[*]", first.source),
            subject=_LAYER.sub(".*", _INDEX.sub("[*]", first.subject)),
        )
    return Alike(first, tuple(members))
