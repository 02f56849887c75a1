"""The corpus: notebook cells that must behave under the magic exactly as they do without it."""

from __future__ import annotations

from tests.corpus import (
    classes,
    control,
    divided,
    errors,
    functions,
    generators,
    lazy_modules,
    library,
    module_loops,
    names,
    notebook,
    one_cell,
    refused,
    training,
)
from tests.corpus.case import Case
from tests.corpus.gradients import between, explain, hooks, train
from tests.corpus.lessons import containers, frames, layers, numpy_beside_torch, python
from tests.corpus.lessons import notebook as lessons_notebook
from tests.corpus.tensors import errors as tensor_errors
from tests.corpus.tensors import objects, values

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
    "tensors": values.CASES,
    "tensor objects": objects.CASES,
    "tensor errors": tensor_errors.CASES,
    "training": training.CASES,
    "gradients, between": between.CASES,
    "gradients, hooks": hooks.CASES,
    "gradients, training": train.CASES,
    "gradients, explained": explain.CASES,
    "generators": generators.CASES,
    "lazy modules": lazy_modules.CASES,
    "refused": refused.CASES,
    "one cell": one_cell.CASES,
    "lessons, containers": containers.CASES,
    "lessons, frames": frames.CASES,
    "lessons, layers": layers.CASES,
    "lessons, NumPy": numpy_beside_torch.CASES,
    "lessons, Python": python.CASES,
    "lessons, notebook": lessons_notebook.CASES,
}

__all__ = ["THEMES", "Case"]
