"""Every room has one door on each side: who may import whom, read from the source itself.

The rules are those of docs/architecture.md. Imports are found anywhere in a file: inside functions,
for type checking alone (``if TYPE_CHECKING:``), and by a name in a string, which may be put together
or stand in a table. Only imports for type checking may cross a line, and only to packages outside
ours.
"""

from __future__ import annotations

import ast
import functools
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import dynamo_ext
from dynamo_ext.backends import registry

PACKAGE = Path(dynamo_ext.__file__).parent
NAME = "dynamo_ext"

GROUND = {"errors", "interruptions", "records", "formatting"}
BACKENDS = {"backends", "backends/torch_private", "backends/support", "backends/passes"}
SHARED_BY_ENGINES = (BACKENDS - {"backends/passes"}) | {"numerics", "torch_private"}
BELOW_ENGINES = GROUND - {"formatting"} | SHARED_BY_ENGINES | {"timing"}
BELOW_PIPELINE = GROUND | BACKENDS | {"numerics", "timing", "torch_private"}
ROOMS_OF: dict[str, set[str]] = {
    "errors": set(),
    "interruptions": set(),
    "records": {"errors"},
    "formatting": {"records"},
    "torch_private": {"errors"},
    "numerics": {"errors", "interruptions", "records", "torch_private"},
    "timing": {"records", "interruptions"},
    "analysis": {"records", "formatting"},
    # The compiler of a backend's name goes through the pipeline, and any callable is an engine.
    "backends": BELOW_PIPELINE | {"backends/pipeline", "backends/engines/callable"},
    "backends/torch_private": {"backends", "torch_private", "records"},
    "backends/passes": {"backends", "backends/torch_private", "torch_private"},
    "backends/support": SHARED_BY_ENGINES | {"errors", "interruptions"},
    "backends/pipeline": BELOW_PIPELINE,
    "backends/engines": BELOW_ENGINES,
}
CAPTURE = ("torch_private", "code", "torch_private/patches", "events", "listen", "report", "cells")
"""Each may import those before it; the files of ``capture`` itself, all."""
_before = BELOW_PIPELINE | {"backends/pipeline"}
for _room in CAPTURE:
    ROOMS_OF[f"capture/{_room}"] = set(_before)
    _before.add(f"capture/{_room}")
ROOMS_OF["capture"] = _before
ROOMS_OF["measure"] = ROOMS_OF["capture"] | {"capture", "analysis"}
ROOMS_OF["auto"] = ROOMS_OF["measure"] | {"measure"}
ROOMS_OF["widgets"] = {"errors", "records", "formatting", "analysis"}
ROOMS_OF["api"] = ROOMS_OF["auto"] | {"auto", "widgets"}
ROOMS_OF["magics"] = ROOMS_OF["api"] | {"api"}
ROOMS_OF["__init__"] = ROOMS_OF["magics"] | {"magics"}
ROOMS_OF["__main__"] = ROOMS_OF["api"] | {"api"}
"""Each folder or file, and what it may import besides itself.

An engine's folder may import none of another engine's, but for those that share torch's ONNX
exporter.
"""

NAMES_BACKENDS = Path("backends/registry.py")
"""It loads engines, and ``auto``, by names that it has in strings; nothing else may."""

SHARED = {"onnxrt": {"onnx"}, "onnx2tf": {"onnx"}}
FRONT_END = {"IPython", "ipywidgets", "ipykernel", "traitlets", "matplotlib"}
FRONT_END_ROOMS = {"magics", "widgets"}
ONNX = {"onnx", "onnxrt", "onnx2tf"}
ENGINES = {
    "onnx": ONNX,
    "xgboost": {"tvm"},
    "torch_tensorrt": {"tensorrt"},
    "tensorrt": {"tensorrt"},
    "thunder": {"nvfuser"},
    "nvfuser": {"nvfuser"},
}
"""An engine's package, and the folders of ``backends/engines`` that may import it."""
LAZY = {f"{NAME}.backends.engines.onnx2tf.operations"}
"""Modules that import their engine at the top, and are themselves imported inside functions."""
for _path in registry.OURS.values():
    _folder = _path.split(".")[-2]
    for _module in pkgutil.resolve_name(_path).packages:
        ENGINES.setdefault(_module, {*SHARED.get(_folder, ())}).add(_folder)


LOADERS = {"importlib.import_module", "import_module", "__import__", "pkgutil.resolve_name"}
LITERAL = re.compile(r"f?'([\w.]+)")
OURS = re.compile(rf"{NAME}(\.\w+)+(:\w+)?")
TABLE = "a name in a table"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Import:
    """One imported module, as an absolute dotted name, and how it was imported.

    A name that is put together is its beginning, which ends in a dot.
    """

    module: str
    line: int
    in_function: bool
    for_types: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@functools.cache
def imports_of(relative: Path, source: str) -> list[Import]:
    """Those of one file of the package, and attributes of torch's."""
    package, nodes = (NAME, *relative.parts[:-1]), list(ast.walk(ast.parse(source)))
    functions = {inner for each in nodes if isinstance(each, FUNCTIONS) for inner in ast.walk(each)}
    for_types = {
        inner
        for each in nodes
        if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test)
        for statement in each.body
        for inner in ast.walk(statement)
    }
    found = [
        Import(module, node.lineno, node in functions, node in for_types)
        for node in nodes
        for module in _modules(node, package)
    ]
    # Where a name is in a variable, each of the file's strings that names a module may be it.
    if not any(each.module == TABLE for each in found) or relative == NAMES_BACKENDS:
        return found
    strings = (each for each in nodes if isinstance(each, ast.Constant))
    names = {str(each.value): each.lineno for each in strings if OURS.fullmatch(str(each.value))}
    return found + [Import(name.partition(":")[0], names[name], True, False) for name in names]


def _modules(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(base, names, level):
            parents = package[: len(package) - level + 1] if level else ()
            yield from (".".join(filter(None, (*parents, base, alias.name))) for alias in names)
        case ast.Call(function, [name, *_]) if ast.unparse(function) in LOADERS:
            text = ast.unparse(name).replace("{__name__}", ".".join(package))
            begun = LITERAL.match(text)
            yield begun[1] if begun else TABLE
        case ast.Attribute():
            text = ast.unparse(node)
            if text.startswith("torch.") and text.replace(".", "").isidentifier():
                yield text


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module or of a name in one: the longest path that has rules."""
    path = "/".join(parts)
    if path.startswith("backends/engines/"):
        return "/".join(parts[:3])
    rooms = [room for room in ROOMS_OF if path == room or path.startswith(f"{room}/")]
    return max(rooms, key=len, default="")


def violations(relative: Path, source: str) -> list[str]:
    """The broken rules of one file of the package, as sentences."""
    parts = relative.with_suffix("").parts
    return [
        f"{relative}:{item.line}: {problem}"
        for item in imports_of(relative, source)
        for problem in (
            _own(parts, item),
            _front_end(parts[0], item),
            _engine(parts, item),
            _private(parts, item),
        )
        if problem
    ]


def _own(parts: tuple[str, ...], item: Import) -> str:
    top, *rest = item.module.split(".")
    # A name of `dynamo_ext/__init__.py`, as `__version__`, is in no room.
    if top != NAME or not (target := room_of(tuple(rest))):
        return ""
    room = room_of(parts)
    if room == target:
        return ""
    engine = room.removeprefix("backends/engines/")
    if engine != room:
        allowed = BELOW_ENGINES | {f"backends/engines/{each}" for each in SHARED.get(engine, ())}
    else:
        allowed = ROOMS_OF[room]
    return "" if target in allowed else f"{room} may not import {target}"


def _front_end(room: str, item: Import) -> str:
    if item.top not in FRONT_END or room in FRONT_END_ROOMS:
        return ""
    if room == "__init__" and item.for_types:
        return ""
    return f"{item.top} belongs to magics and widgets"


def _engine(parts: tuple[str, ...], item: Import) -> str:
    if item.module in LAZY and not item.in_function:
        return f"{item.module} is imported inside functions only"
    folders = ENGINES.get(item.top)
    if folders is None:
        return ""
    if parts[:2] != ("backends", "engines") or parts[2] not in folders:
        return f"{item.top} belongs to backends/engines/{', '.join(sorted(folders))} alone"
    lazy = item.in_function or item.for_types or ".".join((NAME, *parts)) in LAZY
    if not lazy:
        return f"{item.top} is imported inside functions only"
    return ""


def _private(parts: tuple[str, ...], item: Import) -> str:
    private = any(
        part.startswith("_") and not part.startswith("__") for part in item.module.split(".")[:2]
    )
    if item.top != "torch" or not private or "torch_private" in parts:
        return ""
    return f"{item.module} is private to torch: it goes through a folder or file torch_private"


FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("relative", FILES, ids=str)
def test_file_keeps_the_import_directions(relative):
    assert violations(relative, (PACKAGE / relative).read_text(encoding="utf-8")) == []


def test_every_file_is_in_a_known_room():
    assert [str(each) for each in FILES if not room_of(each.with_suffix("").parts)] == []


@pytest.mark.parametrize("for_types", [False, True])
def test_imports_form_no_circle(for_types):
    """Of modules, with imports inside functions, and with those for types but for ``auto``'s."""
    files = [each for each in FILES if not for_types or each.parts[0] != "auto"]
    modules = {".".join((NAME, *each.with_suffix("").parts)): each for each in files}
    arrows: dict[str, set[str]] = {}
    for name, relative in modules.items():
        found = imports_of(relative, (PACKAGE / relative).read_text(encoding="utf-8"))
        names = {each.module for each in found if for_types or not each.for_types}
        targets = {each if each in modules else each.rpartition(".")[0] for each in names}
        # Of the package itself, others read facts (`__version__`).
        targets |= {f"{each}.__init__" for each in names | targets if each != NAME}
        begun = tuple(each for each in names if each.endswith("."))
        targets |= {each for each in modules if each.startswith(begun)}
        arrows[name] = (targets & modules.keys()) - {name}
    while leaves := {name for name, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in leaves}
    assert arrows == {}


def test_no_folder_has_more_than_twenty_files():
    root = PACKAGE.parent
    folders = Counter(
        path.parent for top in (NAME, "tests", "benchmarks") for path in (root / top).rglob("*.py")
    )
    assert {str(f.relative_to(root)): n for f, n in folders.items() if n > 20} == {}


ENGINE = "backends/engines/onnxrt/backend.py"


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        ("records.py", "from dynamo_ext.capture import cell", "records may not import capture"),
        ("backends/base.py", "from ..capture import x", "backends may not import capture"),
        ("magics/dynamo.py", "import onnx", "onnx belongs to backends/"),
        ("api/optimize.py", "def f():\n  import IPython", "IPython belongs to magics and widgets"),
        (ENGINE, "import onnx", "onnx is imported inside functions only"),
        (ENGINE, "from ..tvm import x", "onnxrt may not import backends/engines/tvm"),
        ("api/optimize.py", "import torch\ntorch._dynamo.reset()", "private to torch"),
        ("api/optimize.py", "import_module('torch._dynamo')", "private to torch"),
        ("records/a.py", "import_module(f'dynamo_ext.widgets.{x}')", "may not import widgets"),
        ("records/a.py", "import_module('dynamo_ext.widgets.' + x)", "may not import widgets"),
        ("records/a.py", "T = ['dynamo_ext.api.run:f']\nimport_module(T[0])", "not import api"),
        ("records/a.py", "if TYPE_CHECKING:\n  from ..api import x", "may not import api"),
        ("capture/code/a.py", "from ..listen import x", "may not import capture/listen"),
        ("capture/listen/a.py", "from ..report.builder import x", "may not import capture/report"),
        ("capture/torch_private/a.py", "from .patches import x", "may not import capture/torch_"),
        ("capture/cells/a.py", "from dynamo_ext.capture.report.builder import x", ""),
        ("capture/a/__init__.py", "import_module(f'{__name__}.{x}')", ""),
        ("records/a.py", "FOLDER = 'dynamo_ext.widgets.'", ""),
        (ENGINE, "def lower():\n  import onnxruntime", ""),
        ("backends/torch_private/aot.py", "import torch._dynamo", ""),
        ("api/optimize.py", "import torch\ntorch.compiler.is_compiling()\nx.torch._y", ""),
        ("__init__.py", "if TYPE_CHECKING:\n  from IPython import x", ""),
    ],
)
def test_a_broken_rule_is_found_and_nothing_else(file, source, problem):
    found = violations(Path(file), source)
    assert found == [] if not problem else problem in found[0]
