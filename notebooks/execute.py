"""Execute notebooks headless, and store or publish what came out.

Live widgets do not outlive their kernel, so they are taken out of what is written: the static
report beside each of them says the same. The text output of every cell tagged ``summary`` is
printed.

    python notebooks/execute.py --html build/quickstart.html notebooks/quickstart.ipynb
    python notebooks/execute.py --in-place notebooks/*.ipynb
    python notebooks/execute.py --check notebooks/*.ipynb
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import nbclient
import nbconvert
import nbformat
from nbconvert.filters import strip_ansi

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
TEXTS = ("text/plain", "text/html")
KERNEL = "python3"
# Folders of this machine that stand before the names of files in a report.
FOLDERS = re.compile(
    rf"{re.escape(sysconfig.get_path('purelib'))}/"
    rf"|{re.escape(tempfile.gettempdir())}/(?:ipykernel_\d+|tmp\w+)/"
)
ANY_FOLDER = re.compile(r"/\S*/(?:site-packages|ipykernel_\d+|tmp\w{8})/")


def execute(path: Path, timeout: int = 600) -> nbformat.NotebookNode:
    """Run every cell of a notebook in a new kernel, in the notebook's own folder.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        When a cell raises.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name=KERNEL,
        store_widget_state=False,
        # Its warning about the transport of messages is not the notebook's.
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    return notebook


def make_static(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what only a running kernel can show, and what differs from machine to machine."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if WIDGET_VIEW not in o.get("data", {})]
            for output in cell.outputs:
                data = output.get("data", {})
                data.update({kind: FOLDERS.sub("", data[kind]) for kind in TEXTS if kind in data})
                if "text" in output:
                    output.text = FOLDERS.sub("", output.text)
    return notebook


def text_of(cell: nbformat.NotebookNode) -> str:
    """Return what a code cell printed and displayed, as text."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        elif "text/plain" in output.get("data", {}):
            texts.append(output.data["text/plain"])
    return "\n".join(text.rstrip("\n") for text in texts)


def summary_of(notebook: nbformat.NotebookNode) -> str:
    """Return the text of the cells tagged ``summary``."""
    tagged = [c for c in notebook.cells if "summary" in c.metadata.get("tags", [])]
    return "\n\n".join(text_of(cell) for cell in tagged)


def problems_of(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what keeps a stored notebook from reading well on a static page."""
    problems = []
    if "widgets" in notebook.metadata:
        problems.append("holds widget state")
    for number, cell in enumerate(notebook.cells, start=1):
        outputs: list[Any] = cell.get("outputs", [])
        if any(WIDGET_VIEW in output.get("data", {}) for output in outputs):
            problems.append(f"cell {number} holds a live widget")
        said = [str(output.get("data", "")) + output.get("text", "") for output in outputs]
        if any(ANY_FOLDER.search(each) for each in said):
            problems.append(f"cell {number} names a folder of the machine it ran on")
        if any(output.output_type == "error" for output in outputs):
            problems.append(f"cell {number} ended in an error")
    return problems


def write_html(notebook: nbformat.NotebookNode, target: Path) -> None:
    """Write a notebook as one html page."""
    resources = {"metadata": {"name": target.stem}}
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook, resources=resources)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")


def write_in_place(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Replace a notebook in one step: an interrupt leaves the old one or the new one."""
    draft = path.with_suffix(".ipynb.draft")
    nbformat.write(notebook, draft)
    draft.replace(path)


def check(paths: list[Path]) -> int:
    """Print the problems of stored notebooks; 1 where there are any."""
    found = [
        f"{path}: {problem}"
        for path in paths
        for problem in problems_of(nbformat.read(path, as_version=4))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Execute notebooks headless.")
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--html", type=Path, help="write one notebook as html")
    parser.add_argument("--in-place", action="store_true", help="store the outputs")
    parser.add_argument("--check", action="store_true", help="execute nothing, look for widgets")
    options = parser.parse_args(arguments)
    if options.html and len(options.notebooks) > 1:
        parser.error("--html takes one notebook")
    if options.check:
        return check(options.notebooks)
    for path in options.notebooks:
        start = time.perf_counter()
        try:
            notebook = make_static(execute(path))
        except nbclient.exceptions.CellExecutionError as error:
            print(f"{path} stopped:\n{strip_ansi(str(error))}", file=sys.stderr)
            return 1
        if options.html:
            write_html(notebook, options.html)
        if options.in_place:
            write_in_place(notebook, path)
        print(summary_of(notebook))
        written = f", written to {options.html}" if options.html else ""
        print(f"\n{path}: {time.perf_counter() - start:.0f} s{written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
