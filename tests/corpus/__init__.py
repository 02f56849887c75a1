"""The corpus: notebook cells that must behave under the magic exactly as they do without it."""

from __future__ import annotations

from tests.corpus import (
    classes,
    control,
    divided,
    errors,
    functions,
    library,
    module_loops,
    names,
    notebook,
    refused,
    tensor_errors,
    tensor_objects,
    tensors,
    training,
)
from tests.corpus.case import Case

THEMES: dict[str, list[Case]] = {
    "names": names.CASES,
    "functions": functions.CASES,
    "classes": classes.CASES,
    "control": control.CASES,
    "divided": divided.CASES,
    "module loops": module_loops.CASES,
    "errors": errors.CASES,
    "notebook": notebook.CASES,
    "library": library.CASES,
    "tensors": tensors.CASES,
    "tensor objects": tensor_objects.CASES,
    "tensor errors": tensor_errors.CASES,
    "training": training.CASES,
    "refused": refused.CASES,
}

__all__ = ["THEMES", "Case"]
