"""What a backend is, is asked for and gives back: all of it is in the protocol."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dynamo_ext
from dynamo_ext.backends.base import Backend

PACKAGE = Path(dynamo_ext.__file__).parent
_OF_A_BACKEND = re.compile(r"(^|\.)backend$|\bbackend', None\)$|^(registry\.get|_load)\(\w+\)$")


def _read(path: Path) -> set[str]:
    """The attributes that a file reads of backends; strings, as their names may be, have others."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(of, name) if _OF_A_BACKEND.search(ast.unparse(of)):
                names.add(name)
            case ast.Call(ast.Name("fact"), [_, ast.Constant(name)]):
                names.add(name)
            case ast.Call(ast.Name("getattr"), [of, ast.Constant(name), *_]):
                names |= {name} if _OF_A_BACKEND.search(ast.unparse(of)) else set()
    return {name for name in names if not (name.startswith("_") or hasattr(str, name))}


def test_the_protocol_names_what_is_read_of_a_backend_and_nothing_else() -> None:
    read: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if not {"engines", "support"} & {*path.parts}:
            read |= _read(path)
    named = {name for name in (*vars(Backend), *Backend.__annotations__) if name[0] != "_"}
    # What a user's ``lower`` gives is asked for by ``lower_for``.
    assert read == named - {"lower"}
