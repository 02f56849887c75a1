"""Sentences about guards: what a compiled frame relies on, what was expected, and what came.

For instance, ``check_tensor(L['x'], Tensor, …, torch.float32, size=[4, None], stride=[8, 1])`` is
"`x` must stay a float32 tensor on the CPU of shape (4, any)". Guards that are alike but for an
index are put together, by the module that owns them.
"""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dynamo_ext.analysis.remembered import remembered
from dynamo_ext.formatting import article
from dynamo_ext.records.capture import Guard, Recompile
from dynamo_ext.records.report import Report

_COMMENT = re.compile(r"\s+#\s.*$", re.DOTALL)
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


def condition(guard: Guard) -> str:  # noqa: PLR0911 - one a form
    """The condition as a sentence; torch's own text where no sentence is known for it."""
    subject, kind = f"`{guard.subject}`", guard.kind
    if kind == "TENSOR_MATCH" and guard.dtype:
        return _tensor(guard)
    if guard.is_length:
        return f"{subject} must keep its length of {guard.expected}"
    if kind == "DUPLICATE_INPUT" and guard.expected:
        what = "tensor" if guard.dtype else "object"
        return f"{subject} must stay the same {what} as `{guard.expected}`"
    if guard.expected:
        of = "of type " if kind == "TYPE_MATCH" else ""
        return f"{subject} must stay {of}{guard.expected}"
    if kind == "DUPLICATE_INPUT" and guard.dtype:
        return f"{subject} must stay the same tensor as its other name"
    if known := _SENTENCES.get(kind):
        return known.format(subject=guard.subject or "torch")
    text = _COMMENT.sub("", guard.code[0]) if guard.code else ""
    return f"{subject}: {text}" if text else f"{subject} must pass {kind}"


def _tensor(guard: Guard) -> str:
    """What a tensor guard relies on; sizes that are symbolic in the graph may change."""
    shown = ["any" if not size.isdigit() else size for size in guard.shape]
    shape = f"({shown[0]},)" if len(shown) == 1 else f"({', '.join(shown)})"
    device = "the CPU" if guard.device == "cpu" else guard.device
    grad = ", requiring grad" if guard.requires_grad else ""
    kind = f"{article(guard.dtype)} tensor on {device} of shape {shape}{grad}"
    return f"`{guard.subject}` must stay {kind}"


def expected(recompile: Recompile) -> str:
    """What the code had been compiled for."""
    if recompile.is_object:
        return "the same object"
    at = f"at {recompile.bound} " if recompile.bound else ""
    return f"{at}{_grad(recompile, recompile.expected)}"


def actual(recompile: Recompile) -> str:
    """What came instead."""
    if recompile.is_object and recompile.actual_type:
        name = recompile.actual
        return f"another one ({name})" if name else f"another {recompile.actual_type}"
    return _grad(recompile, recompile.actual)


def _grad(recompile: Recompile, value: str) -> str:
    return f"requires_grad={value}" if recompile.kind == "grad" else value


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


_SENTENCES = {
    "ID_MATCH": "`{subject}` must stay the same object",
    "CLASS_MATCH": "`{subject}` must stay the same class",
    "MODULE_MATCH": "`{subject}` must stay the same module",
    "CLOSURE_MATCH": "`{subject}` must stay the same function code",
    "FUNCTION_MATCH": "`{subject}` must stay the same function",
    "BUILTIN_MATCH": "`{subject}` must stay the same builtin",
    "TYPE_MATCH": "`{subject}` must keep its type",
    "NN_MODULE": "`{subject}` must stay the same module",
    "TENSOR_MATCH": "`{subject}` must keep its dtype, device and shape",
    "DICT_CONTAINS": "`{subject}` must keep its keys",
    "DICT_NOT_CONTAINS": "`{subject}` must not gain keys that were looked up",
    "DICT_KEYS_MATCH": "`{subject}` must keep its keys",
    "SEQUENCE_LENGTH": "`{subject}` must keep its length",
    "EMPTY_NN_MODULE_HOOKS_DICT": "`{subject}` must stay without hooks",
    "HASATTR": "`{subject}` must keep its attributes",
    "NOT_PRESENT_IN_GENERIC_DICT": "`{subject}` must not gain an attribute of that name",
    "WEAKREF_ALIVE": "`{subject}` must stay alive",
    "NOT_NONE_MATCH": "`{subject}` must not become None",
    "GRAD_MODE": "gradient mode must stay as it was",
    "DETERMINISTIC_ALGORITHMS": "the deterministic-algorithms setting must stay as it was",
    "TORCH_FUNCTION_STATE": "torch-function overrides must stay as they were",
    "FSDP_TRAINING_STATE": "the FSDP state must stay as it was",
    "DEFAULT_DEVICE": "the default device must stay as it was",
    "GLOBAL_STATE": "torch's global modes (grad, autocast, threads) must stay as they were",
    "SHAPE_ENV": "sizes must keep the relations that the graph relies on",
    "DUPLICATE_INPUT": "`{subject}` must stay the same object as its other name",
    "BOOL_MATCH": "`{subject}` must keep its truth value",
    "NONE_MATCH": "`{subject}` must stay None",
    "AUTOGRAD_SAVED_TENSORS_HOOKS": "saved-tensor hooks must stay as they were",
}
