"""Every room has one door on each side: who may import whom, read from the source itself.

The rules are those of docs/architecture.md. Imports are found anywhere in a file, inside
functions too; only imports for type checking alone (``if TYPE_CHECKING:``) may cross a line, and
only to packages outside ours.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

import dynamo_ext

PACKAGE = Path(dynamo_ext.__file__).parent
NAME = "dynamo_ext"

RECORDS = {
    "errors",
    "records",
    "placement",
    "comparison",
    "wording",
    "line_of_code",
    "break_causes",
    "break_places",
    "recompile_causes",
    "advice",
    "difference",
    "repro",
    "operator_times",
}
CORE = RECORDS | {"backends", "capture", "measure", "auto"}
ROOMS_OF = {
    "errors": set(),
    "records": {"errors"},
    "placement": {"records"},
    "comparison": {"errors", "records"},
    "wording": {"records"},
    "line_of_code": set(),
    "break_places": {"records", "wording"},
    "break_causes": {"records", "break_places", "line_of_code"},
    "recompile_causes": {"records"},
    "difference": {"records", "placement", "break_causes", "break_places", "wording"},
    "repro": {"records"},
    "operator_times": {"records", "placement"},
    "advice": {
        "records",
        "placement",
        "break_causes",
        "break_places",
        "recompile_causes",
        "wording",
        "operator_times",
    },
    "backends": {"errors", "records"},
    "capture": {"errors", "records", "wording", "backends"},
    "measure": RECORDS | {"backends", "capture"},
    "auto": RECORDS | {"backends", "capture", "measure"},
    "widgets": RECORDS,
    "comparing": CORE | {"widgets"},
    "explaining": CORE,
    "magics": CORE | {"widgets", "comparing"},
    "__init__": CORE | {"widgets", "comparing", "explaining", "magics"},
}
FRONT_END = {"IPython", "ipywidgets", "ipykernel", "traitlets", "matplotlib"}
FRONT_END_ROOMS = {"magics", "widgets"}
# An engine's package, and the beginnings of the names of the files of backends/ that are its own.
# Where torch's private names may be used: calls of them, and what changes a trace.
PRIVATE_FILES = {
    "torch_carried",
    "torch_lists",
    "torch_numbers",
    "torch_private",
    "torch_trace",
}
ONNX_FILES = {"onnx", "onnxrt", "onnx2tf", "tf"}
TF_FILES = {"onnx2tf", "tf"}
ENGINES = {
    "onnx": ONNX_FILES,
    "onnx_ir": ONNX_FILES,
    "onnxruntime": ONNX_FILES,
    "onnxscript": ONNX_FILES,
    "tvm": {"tvm"},
    "xgboost": {"tvm"},
    "jax": {"xla"},
    "torchax": {"xla"},
    "openvino": {"openvino"},
    "torch_tensorrt": {"tensorrt"},
    "tensorrt": {"tensorrt"},
    "thunder": {"nvfuser"},
    "nvfuser": {"nvfuser"},
    "tensorflow": TF_FILES,
}


@dataclass(frozen=True)
class Import:
    """One imported module, as an absolute dotted name, and how it was imported."""

    module: str
    line: int
    in_function: bool
    for_types: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


class _Imports(ast.NodeVisitor):
    """Collects imports, ``importlib.import_module("…")`` and ``torch._private`` attributes."""

    def __init__(self, package: tuple[str, ...]) -> None:
        self.package = package
        self.found: list[Import] = []
        self._functions = 0
        self._types = 0

    def _add(self, module: str, line: int) -> None:
        self.found.append(Import(module, line, bool(self._functions), bool(self._types)))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parents = self.package[: len(self.package) - node.level + 1]
            base = ".".join((*parents, base)).rstrip(".")
        for alias in node.names:
            self._add(f"{base}.{alias.name}", node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        if (
            name in {"importlib.import_module", "import_module", "__import__"}
            and isinstance(first, ast.Constant)
            and isinstance(first.value, str)
        ):
            self._add(first.value, node.lineno)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        text = ast.unparse(node)
        if text.startswith("torch.") and all(part.isidentifier() for part in text.split(".")):
            self._add(text, node.lineno)
        else:
            self.generic_visit(node)

    def _visit_function(self, node: ast.AST) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    visit_FunctionDef = _visit_function  # noqa: N815 - ast's own spelling
    visit_AsyncFunctionDef = _visit_function  # noqa: N815
    visit_Lambda = _visit_function  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)
            return
        self._types += 1
        for child in node.body:
            self.visit(child)
        self._types -= 1
        for child in node.orelse:
            self.visit(child)


def imports_of(source: str, package: tuple[str, ...] = (NAME,)) -> list[Import]:
    visitor = _Imports(package)
    visitor.visit(ast.parse(source))
    return visitor.found


def violations(relative: Path, source: str) -> list[str]:
    """The broken rules of one file of the package, as sentences."""
    parts = relative.with_suffix("").parts
    room = parts[0]
    found = imports_of(source, (NAME, *parts[:-1]))
    return [
        f"{relative}:{item.line}: {problem}"
        for item in found
        for problem in (
            _own(room, item),
            _front_end(room, item),
            _engine(parts, item),
            _private(parts[-1], item),
        )
        if problem
    ]


def _own(room: str, item: Import) -> str:
    parts = item.module.split(".")
    if parts[0] != NAME or len(parts) == 1:
        return ""
    target = parts[1]
    # A name of `dynamo_ext/__init__.py`, as `__version__`, is no room.
    if target == room or target not in ROOMS_OF or target in ROOMS_OF.get(room, set()):
        return ""
    return f"{room} may not import {target}"


def _front_end(room: str, item: Import) -> str:
    if item.top not in FRONT_END or room in FRONT_END_ROOMS:
        return ""
    if room == "__init__" and item.for_types:
        return ""
    return f"{item.top} belongs to magics and widgets"


def _engine(parts: tuple[str, ...], item: Import) -> str:
    files = ENGINES.get(item.top)
    if files is None:
        return ""
    own = any(part.partition("_")[0] in files for part in parts[1:])
    if parts[0] != "backends" or not own:
        return f"{item.top} belongs to backends/{', '.join(sorted(files))} alone"
    if not item.in_function and not item.for_types:
        return f"{item.top} is imported inside functions only"
    return ""


def _private(stem: str, item: Import) -> str:
    private = any(
        part.startswith("_") and not part.startswith("__") for part in item.module.split(".")[:2]
    )
    if item.top != "torch" or not private or stem in PRIVATE_FILES:
        return ""
    return f"{item.module} is private to torch: it goes through torch_private.py"


FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("relative", FILES, ids=str)
def test_file_keeps_the_import_directions(relative):
    assert violations(relative, (PACKAGE / relative).read_text(encoding="utf-8")) == []


def test_every_file_stands_in_a_known_room():
    rooms = {relative.with_suffix("").parts[0] for relative in FILES}
    assert rooms <= set(ROOMS_OF)


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        ("records.py", "from dynamo_ext.capture import cell", "records may not import capture"),
        ("errors.py", "import dynamo_ext.records", "errors may not import records"),
        ("backends/base.py", "from ..capture import x", "backends may not import capture"),
        ("capture/cell.py", "def f():\n  import IPython", "IPython belongs to magics and widgets"),
        ("widgets/report.py", "from dynamo_ext import backends", "widgets may not import backends"),
        ("magics/dynamo.py", "import onnx", "onnx belongs to backends/"),
        ("backends/onnxrt.py", "import onnx", "onnx is imported inside functions only"),
        ("backends/tvm.py", "def f():\n  import onnx", "onnx belongs to backends/"),
        ("backends/pipeline.py", "import torch\ntorch._dynamo.reset()", "private to torch"),
        ("capture/session.py", "from torch._dynamo import utils", "private to torch"),
        ("capture/session.py", "import_module('torch._dynamo')", "private to torch"),
        ("__init__.py", "import ipywidgets", "ipywidgets belongs to magics and widgets"),
    ],
)
def test_a_broken_rule_is_found(file, source, problem):
    [found] = violations(Path(file), source)
    assert problem in found


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("backends/onnxrt.py", "def lower():\n  import onnxruntime"),
        ("backends/onnxrt/session.py", "def lower():\n  import onnxruntime"),
        ("backends/torch_private.py", "import torch._dynamo"),
        ("capture/session.py", "import torch\ntorch.compiler.is_compiling()\nx.torch._y"),
        ("magics/dynamo.py", "from dynamo_ext.widgets import report\nimport IPython"),
        ("widgets/report.py", "from dynamo_ext import __version__\nimport ipywidgets"),
        (
            "__init__.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from IPython import x",
        ),
    ],
)
def test_what_the_rules_allow(file, source):
    assert violations(Path(file), source) == []
