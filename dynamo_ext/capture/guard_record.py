"""Guards in plain words, and failed guards as expected and actual."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.capture.source_lines import from_summaries, users_line
from dynamo_ext.records import Guard
from dynamo_ext.wording import article

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT = re.compile(r"^[LG]\['(?P<name>[^']+)'\]")
_BUILTIN = re.compile(r"^G\['__builtins_dict\w*'\]\['(?P<name>[^']+)'\]")
_IMPORTED = re.compile(r"^__import_(?P<name>\w+)")
# Dynamo stores what a closure or a registry holds under the object's number.
_OURS = re.compile(r"^_+(?:[a-z]+_)?(?:\d{6,}_)+c\d+$")
_TYPE_OF = re.compile(r"^type\((?P<source>[LG]\[.+)\)$")
# What a graph leaves on the stack for the one after it.
_STACK = re.compile(r"^___stack(?P<place>\d+)$")
_ARGUMENT = re.compile(r"L\['args'\]\[(?P<index>\d+)\]")
_KEYWORD = re.compile(r"L\['kwargs'\]\['(?P<name>\w+)'\]")
_TYPE = re.compile(r"type=<class '(?P<name>[^']+)'>")
_TRUTH = re.compile(r" == (?P<value>True|False)$")
_COMPARED = re.compile(r"^(?P<source>[LG]\[.+?) == (?P<expected>.+?)$")
_BARE = re.compile(r"^(?P<name>[^\W\d]\w*)(?=$|[.\[])")
_LENGTH = re.compile(r"^len\((?P<source>[LG]\[.+?)\) == (?P<expected>\d+)$")
TORCH_COMMENT = re.compile(r"\s+#\s.*$", re.DOTALL)
_QUIET_KINDS = frozenset({"DIMENSION_DYNAMIC_MARKING_GUARD"})


def readable_source(source: str, arguments: Sequence[str] = ()) -> str:
    """``L['self']._modules['fc'].weight`` as ``self.fc.weight``; ``G['x']`` as ``x``.

    ``arguments`` are the names of what a frame knows as ``args[0]``, ``args[1]`` …
    """
    typed = _TYPE_OF.match(source)
    if typed:
        return f"type({readable_source(typed['source'], arguments)})"
    source = _user_named(source, arguments)
    text = _BUILTIN.sub(lambda m: m["name"], source)
    text = _ROOT.sub(lambda m: _readable_name(m["name"]), text)
    text = _IMPORTED.sub(lambda m: m["name"].replace("_dot_", "."), text)
    text = re.sub(r"\.?_modules\['([^']+)'\]", r".\1", text)
    text = re.sub(r"\._(?:parameters|buffers)\['([^']+)'\]", r".\1", text)
    return re.sub(r"\.__dict__\['([^']+)'\]", r".\1", text)


def _readable_name(name: str) -> str:
    name = _OURS.sub("an object that Dynamo keeps", name)
    return _STACK.sub(r"value \g<place> between graphs", name)


def _user_named(source: str, arguments: Sequence[str]) -> str:
    if not arguments:
        return source

    def named(found: re.Match[str]) -> str:
        index = int(found["index"])
        return f"L['{arguments[index]}']" if index < len(arguments) else found[0]

    source = _KEYWORD.sub(r"L['\g<name>']", _ARGUMENT.sub(named, source))
    source = source.replace("L['args']", "L['the arguments']")
    return source.replace("L['kwargs']", "L['the keyword arguments']")


def root_variable(source: str, arguments: Sequence[str] = ()) -> str:
    """The user's name that a source starts at; a library's name for its modules.

    Torch's own state is ``torch``.
    """
    typed = _TYPE_OF.match(source)
    source = _user_named(typed["source"] if typed else source, arguments)
    found = _ROOT.match(source)
    if not found:
        # torch names a local tensor bare: tensor 'x' size mismatch.
        bare = _BARE.match(source)
        return bare["name"] if bare else "torch"
    name = found["name"]
    if name.startswith("__import_"):
        return name.removeprefix("__import_").split("_dot_")[0]
    if _STACK.match(name):
        return "between graphs"
    return "torch" if name.startswith("__builtins_dict") or _OURS.match(name) else name


def guard_records(
    frame: str,
    guards: Any,
    cell_file: str | None,
    shapes: Mapping[str, tuple[str, ...]],
    arguments: Sequence[str] = (),
) -> tuple[Guard, ...]:
    """Dynamo's guards as records, in Dynamo's own order.

    ``shapes`` gives the captured sizes of the graph's inputs by source, symbolic ones as text;
    ``arguments`` are the user's names of what the frame knows as ``args``.
    """
    return tuple(_record(frame, guard, cell_file, shapes, arguments) for guard in sorted(guards))


def _record(
    frame: str,
    guard: Any,
    cell_file: str | None,
    shapes: Mapping[str, tuple[str, ...]],
    arguments: Sequence[str],
) -> Guard:
    source = guard.name or ""
    kinds = guard.guard_types or [guard.create_fn_name()]
    kind = next((k for k in kinds if k not in _QUIET_KINDS), kinds[0])
    code = tuple(guard.code_list or ())
    line = users_line(from_summaries(guard.user_stack or (), cell_file))
    subject = readable_source(source, arguments)
    value = guard.obj_weakref() if guard.obj_weakref is not None else None
    if kind == "TENSOR_MATCH" and isinstance(value, torch.Tensor):
        words = tensor_words(subject, value, shapes.get(source))
    else:
        words = in_words(kind, subject, code)
        if kind == "DUPLICATE_INPUT" and isinstance(value, torch.Tensor):
            words = words.replace("same object", "same tensor")
    return Guard(frame, root_variable(source, arguments), source, kind, words, code, line)


def in_words(kind: str, subject: str, code: tuple[str, ...]) -> str:
    """The condition as a sentence; torch's own text where no sentence is known for it."""
    first = TORCH_COMMENT.sub("", code[0]) if code else ""
    compared = _COMPARED.match(first)
    if kind in {"EQUALS_MATCH", "CONSTANT_MATCH"} and compared:
        return f"`{subject}` must stay {compared['expected']}"
    length = _LENGTH.match(first)
    if length:
        return f"`{subject}` must keep its length of {length['expected']}"
    kept = _TYPE.search(first)
    if kind == "TYPE_MATCH" and kept:
        return f"`{subject}` must stay of type {kept['name'].removeprefix('builtins.')}"
    truth = _TRUTH.search(first)
    if kind == "BOOL_MATCH" and truth:
        return f"`{subject}` must stay {truth['value']}"
    said = _SENTENCES.get(kind)
    if said:
        return said.format(subject=subject or "torch")
    return f"`{subject}`: {first}" if first else f"`{subject}` must pass {kind}"


def tensor_words(subject: str, value: torch.Tensor, sizes: tuple[str, ...] | None) -> str:
    """What a tensor guard holds fast; sizes that are symbolic in the graph may change."""
    known = sizes if sizes is not None else tuple(str(size) for size in value.shape)
    shown = ["any" if not size.isdigit() else size for size in known]
    shape = f"({shown[0]},)" if len(shown) == 1 else f"({', '.join(shown)})"
    device = "the CPU" if value.device.type == "cpu" else str(value.device)
    dtype = str(value.dtype).removeprefix("torch.")
    grad = ", requiring grad" if value.requires_grad else ""
    return f"`{subject}` must stay {article(dtype)} tensor on {device} of shape {shape}{grad}"


_SENTENCES = {
    "ID_MATCH": "`{subject}` must stay the same object",
    "OBJECT_ID_MATCH": "`{subject}` must stay the same object",
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
    "DICT_KEYS": "`{subject}` must keep its keys",
    "DICT_KEYS_MATCH": "`{subject}` must keep its keys",
    "SEQUENCE_LENGTH": "`{subject}` must keep its length",
    "LIST_LENGTH": "`{subject}` must keep its length",
    "EMPTY_NN_MODULE_HOOKS_DICT": "`{subject}` must stay without hooks",
    "HASATTR": "`{subject}` must keep its attributes",
    "NOT_PRESENT_IN_GENERIC_DICT": "`{subject}` must not gain an attribute of that name",
    "WEAKREF_ALIVE": "`{subject}` must stay alive",
    "NOT_NONE_MATCH": "`{subject}` must not become None",
    "NAME_MATCH": "`{subject}` must keep its name",
    "GRAD_MODE": "gradient mode must stay as it was",
    "DETERMINISTIC_ALGORITHMS": "the deterministic-algorithms setting must stay as it was",
    "TORCH_FUNCTION_STATE": "torch-function overrides must stay as they were",
    "FSDP_TRAINING_STATE": "the FSDP state must stay as it was",
    "DEFAULT_DEVICE": "the default device must stay as it was",
    "GLOBAL_STATE": "torch's global modes (grad, autocast, threads) must stay as they were",
    "SHAPE_ENV": "sizes must keep the relations that the graph relies on",
    "DUPLICATE_INPUT": "`{subject}` must stay the same object as its other name",
    "NO_TENSOR_ALIASING": "different inputs must stay different tensors",
    "BOOL_MATCH": "`{subject}` must keep its truth value",
    "NONE_MATCH": "`{subject}` must stay None",
    "AUTOGRAD_SAVED_TENSORS_HOOKS": "saved-tensor hooks must stay as they were",
}
