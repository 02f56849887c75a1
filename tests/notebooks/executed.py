"""A notebook of ours, executed in a kernel of its own, and what its cells then say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def _load_execute():
    """The script beside the notebooks, as a module."""
    spec = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


execute = _load_execute()


def texts(name):
    """Execute a notebook; what each cell printed and displayed, on one line, by the cell's id."""
    notebook = execute.make_static(execute.execute(NOTEBOOKS / f"{name}.ipynb"))
    assert execute.problems_of(notebook) == []
    by_id = {cell.id: cell for cell in notebook.cells}
    return lambda cell: " ".join(execute.text_of(by_id[cell]).split())
