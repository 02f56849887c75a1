"""What a backend is, is asked for and gives back: all of it is in the protocol."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.base import Backend, Lowered, LoweringRequest, Support
from dynamo_ext.errors import InvalidBackendError
from dynamo_ext.timing.first_run import FirstRun, within

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
        if not {"engines", "support"} & {*path.parts} or path.name == "engine_store.py":
            read |= _read(path)
    named = {name for name in (*vars(Backend), *Backend.__annotations__) if name[0] != "_"}
    # What a user's ``lower`` gives is asked for by ``lower_for``.
    assert read == named - {"lower"}


class Asked(Backend):
    name = "asked"

    def __init__(self) -> None:
        self.requests: list[LoweringRequest] = []

    def supports(self, node: Any) -> Support:
        return Support(supported=True)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        self.requests.append(request)
        return Lowered(request.graph.forward, 7)


def test_a_backend_gets_a_request_and_gives_what_it_lowered(harness: Any) -> None:
    backend, x = Asked(), torch.randn(4)
    with torch.no_grad(), within(FirstRun(60.0)):
        harness.compile(lambda x: (x + 1).sin().cos(), backend, {"precision": "int8"})(x)
    [request] = backend.requests
    assert request.journal is harness.journal
    assert request.budget.seconds == 60.0
    assert [tuple(each.shape) for each in request.inputs] == [(4,)]
    assert list(harness.journal.lowered.values()) == [7]
    assert torch.equal(backend.lower(request.graph, [x], {})(x)[0], (x + 1).sin().cos())
    assert backend.requests[-1].budget.left == float("inf")


def test_one_that_defines_neither_form_of_lower_is_refused() -> None:
    class Neither(Backend):
        name = "neither"
        supports = Asked.supports

    with pytest.raises(InvalidBackendError, match="it has no lower"):
        registry.compiler(Neither())


def test_no_other_context_carries_what_a_compile_is_asked_for() -> None:
    files = {path.stem for path in PACKAGE.rglob("*.py") if "ContextVar[" in path.read_text()}
    assert files == {"journal", "first_run", "progress", "serialization"}
