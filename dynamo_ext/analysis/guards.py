"""Sentences about guards: what a compiled frame relies on, what was expected, and what came.

For instance, ``check_tensor(L['x'], Tensor, …, torch.float32, size=[4, None], stride=[8, 1])`` is
"`x` must stay a float32 tensor on the CPU of shape (4, any)".
"""

import re

from dynamo_ext.formatting import article
from dynamo_ext.records.capture import Guard, Recompile

_COMMENT = re.compile(r"\s+#\s.*$", re.DOTALL)


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
