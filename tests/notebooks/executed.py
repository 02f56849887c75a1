"""A notebook of ours, executed in a kernel of its own, and what its cells then say."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@functools.cache
def script():
    """The script beside the notebooks, as a module; its imports take seconds."""
    spec = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def texts(name):
    """Execute a notebook; what each cell printed and displayed, on one line, by the cell's id."""
    notebook = script().make_static(script().execute(NOTEBOOKS / f"{name}.ipynb"))
    assert script().problems_of(notebook) == []
    by_id = {cell.id: cell for cell in notebook.cells}
    return lambda cell: " ".join(script().text_of(by_id[cell]).split())
