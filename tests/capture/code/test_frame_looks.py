"""Functions whose names are looked at stay Python; others are captured as before."""

from __future__ import annotations

import collections
import functools
import inspect
import logging
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext

if TYPE_CHECKING:
    from collections.abc import Callable


class Keeper:
    def keep(self) -> None:
        frame: Any = inspect.currentframe()
        self.kept = inspect.getargvalues(frame.f_back).locals

    @property
    def callers(self) -> list[str]:
        return names(2)

    def __call__(self, depth: int) -> list[str]:
        return names(depth)


class Made(Keeper):
    def __init__(self, x: torch.Tensor, *, width: int = 3) -> None:
        doubled = x * 2
        torch._dynamo.graph_break()
        self.x = doubled + 1
        self.keep()


def names(depth: int = 1) -> list[str]:
    return sorted(sys._getframe(depth).f_locals)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


by_wrapper, by_partial, keeper = logged(names), functools.partial(names, 1), Keeper()


def of_a_constructor(x: torch.Tensor) -> Any:
    return sorted(Made(x).kept)


def of_a_caller(x: torch.Tensor) -> Any:
    unread = x * 2  # noqa: F841
    torch._dynamo.graph_break()
    return x + 1, names()


def through_a_wrapper(x: torch.Tensor) -> Any:
    unread = x * 2  # noqa: F841
    torch._dynamo.graph_break()
    return x + 1, by_wrapper(2), by_partial()


def through_an_object(x: torch.Tensor) -> Any:
    unread = x * 2  # noqa: F841
    torch._dynamo.graph_break()
    return x + 1, keeper.callers, keeper(2)


def of_its_own(x: torch.Tensor) -> Any:
    unread = x * 2
    torch._dynamo.graph_break()
    read = unread + 1
    return read, sorted(locals()), sorted(vars()), dir(), eval("unread")


def of_its_name(x: torch.Tensor) -> Any:
    torch._dynamo.graph_break()
    stack = inspect.stack()
    return x + 1, stack[0].function


LOOKED_AT = [
    of_a_constructor, of_a_caller, through_a_wrapper, through_an_object, of_its_own, of_its_name
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "onnxrt"])
@pytest.mark.parametrize("function", LOOKED_AT)
def test_what_is_looked_at_has_all_its_names(function: Any, backend: str) -> None:
    if backend == "onnxrt":
        pytest.importorskip("onnxruntime")
    x = torch.ones(2)
    fast = dynamo_ext.optimize(backend)(function)
    for _ in range(2):
        assert str(fast(x)) == str(function(x))
    found = [f for f in fast.report().fallbacks if "looks at names" in f.message]
    assert found
    assert all(f.remedy for f in found)


def test_what_calls_it_is_compiled() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).tanh()

    def outer(x: torch.Tensor) -> Any:
        return names(), inner(x)

    fast = dynamo_ext.optimize("eager")(outer)
    assert str(fast(torch.ones(2))) == str(outer(torch.ones(2)))
    assert [graph.operation_count for graph in fast.report().graphs] == [2]


def itself_after_a_break() -> list[str]:
    torch._dynamo.graph_break()
    return sorted(sys._getframe(1).f_locals)


@pytest.mark.parametrize("look", [names, itself_after_a_break])
def test_a_look_that_names_do_not_lead_to_is_said_and_met_once(look: Any) -> None:
    held = collections.defaultdict(lambda: look)

    def f(x: torch.Tensor, name: str) -> Any:
        unread = x * 2  # noqa: F841
        torch._dynamo.graph_break()
        return x + 1, held[name]()

    fast = dynamo_ext.optimize("eager")(f)
    fast(torch.ones(2), "any")
    assert "this call had begun" in str(fast.report().fallbacks)
    assert str(fast(torch.ones(2), "any")) == str(f(torch.ones(2), "any"))


def test_whole_graphs_are_asked_for_in_vain() -> None:
    fast = dynamo_ext.optimize("eager", fullgraph=True)(lambda x: (names(), x + 1))
    with pytest.raises(Exception, match="_getframe"):
        fast(torch.ones(2))


LOG = logging.getLogger("tests.frame_looks")


def with_a_named_tuple(x: torch.Tensor) -> Any:
    pair = collections.namedtuple("pair", "a b")  # noqa: PYI024
    return pair(x + 1, x * 2)


def with_a_log(x: torch.Tensor) -> Any:
    y = x * 2
    LOG.info("a graph break")
    return y + 1


def with_a_warning(x: torch.Tensor) -> Any:
    y = x * 2
    warnings.warn("a graph break", stacklevel=2)
    return y + 1


def with_names_of_objects(x: torch.Tensor) -> Any:
    y = torch.stack([x, x])
    torch._dynamo.graph_break()
    return y + 1, len(vars(collections)), len(dir(collections))


@pytest.mark.filterwarnings("ignore:a graph break")
@pytest.mark.parametrize(
    ("function", "graphs"),
    [(with_a_named_tuple, 1), (with_a_log, 2), (with_a_warning, 2), (with_names_of_objects, 2)],
)
def test_what_only_libraries_ask_for_costs_nothing(function: Any, graphs: int) -> None:
    fast = dynamo_ext.optimize("eager")(function)
    fast(torch.ones(2))
    report = fast.report()
    assert not [f for f in report.fallbacks if "looks at names" in f.message]
    assert len(report.graphs) == graphs


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
@pytest.mark.parametrize(
    ("source", "looks"),
    [
        ("def asked(): return sys._getframe(1).f_lineno", False),
        ("def asked():\n f = sys._getframe(1)\n while f: f = f.f_back", False),
        ("def asked(): return sys._getframe(1).f_locals", True),
        ("def asked(): return read(sys._getframe(1))\ndef read(f): return f.f_locals", True),
    ],
)
def test_a_library_looks_where_it_reads_names(
    source: str, *, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library: Any = types.ModuleType("somewhere")
    library.sys = sys
    exec(compile(source, "/lib/site-packages/somewhere.py", "exec"), vars(library))
    monkeypatch.setitem(sys.modules, "somewhere", library)
    asked = library.asked

    def f(x: torch.Tensor) -> Any:
        y = x * 2
        asked()
        return y + 1

    fast = dynamo_ext.optimize("eager")(f)
    fast(torch.ones(2))
    assert bool(fast.report().graphs) is not looks, fast.report().fallbacks
