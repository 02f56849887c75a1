"""``-b``: our names, torch's names, and the user's own compiler functions."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_ext.backends import user_backends
from dynamo_ext.errors import OptionError, UnknownBackendError
from dynamo_ext.magics.resolve_backend import choose
from tests.capture.live import Live

NOTEBOOK = """
x = torch.arange(3.)
seen = []
def my_compiler(gm, example_inputs):
    seen.append((type(gm).__name__, len(example_inputs)))
    return gm.forward
"""


def pick(text: str, names: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    return choose(text, names or {}, kwargs.pop("options", {}), strict=kwargs.pop("strict", False))


def mine(gm: Any, inputs: Any) -> Any:
    return gm.forward


def test_our_names_come_before_the_users() -> None:
    assert pick("eager", {"eager": mine}) is pick("eager")


def test_torchs_names_come_before_the_users() -> None:
    assert pick("aot_eager", {"aot_eager": mine}).name == "aot_eager"


def test_an_expression_is_evaluated_in_the_namespace() -> None:
    table = {"a": mine}
    assert pick("table['a']", {"table": table}) is pick("mine", {"mine": mine})


def test_an_expression_may_give_a_name() -> None:
    assert pick("which", {"which": "eager"}) is pick("eager")


def test_a_namespace_is_not_added_to() -> None:
    names: dict[str, Any] = {"mine": mine, "__builtins__": {}}
    pick("mine", names)
    assert set(names) == {"mine", "__builtins__"}


@pytest.mark.parametrize("text", ["nope", "not valid python", "nope.attribute", "nope()"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UnknownBackendError) as caught:
        pick(text)
    assert "\n" not in str(caught.value)


def test_an_interrupt_in_an_expression_passes() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pick("stop()", {"stop": stop})


def test_a_users_compiler_gets_the_graph(cells: Live) -> None:
    report = cells.report("y = x + 1", "-b my_compiler")
    assert cells.names["seen"] == [("GraphModule", 1)]
    assert report.backend == "my_compiler"
    assert [g.backend for g in report.graphs] == ["my_compiler"]
    assert cells.names["y"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "line", ["-b 'lambda gm, inputs: gm.forward'", '--backend "lambda gm, i: gm.forward"']
)
def test_a_lambda_is_a_backend(cells: Live, line: str) -> None:
    report = cells.report("y = x + 1", line)
    assert [g.calls for g in report.graphs] == [1]
    assert report.fallbacks == ()


def test_a_lambda_is_compiled_once_for_each_text(cells: Live) -> None:
    line = "-b 'lambda gm, inputs: gm.forward'"
    for _ in range(20):
        report = cells.report("y = x + 1", line)
    assert report.fallbacks == ()
    assert len(report.graphs) == 1


def test_a_partial_and_an_object_are_backends(cells: Live) -> None:
    cells.well(
        "import functools\n"
        "class Compiler:\n    def __call__(self, gm, inputs): return gm.forward\n"
        "compiler = Compiler()\npart = functools.partial(my_compiler)"
    )
    for name in ("compiler", "part"):
        assert cells.report("y = x + 1", f"-b {name}").fallbacks == ()


def test_redefining_a_compiler_uses_the_new_one(cells: Live) -> None:
    cells.report("y = x + 1", "-b my_compiler")
    cells.well("def my_compiler(gm, inputs):\n    seen.append('new')\n    return gm.forward")
    report = cells.report("y = x + 1", "-b my_compiler")
    assert cells.names["seen"][-1] == "new"
    assert [g.calls for g in report.graphs] == [1]


@pytest.mark.parametrize("result", ["None", "3", "[gm.forward]"])
def test_a_compiler_that_returns_no_function_falls_back(cells: Live, result: str) -> None:
    cells.well(f"def odd(gm, inputs):\n    return {result}")
    report = cells.report("y = x + 1", "-b odd")
    assert [f.stage for f in report.fallbacks] == ["lower"]
    assert cells.names["y"].tolist() == [1, 2, 3]


BACKEND = """
import dynamo_ext
class Doubling(dynamo_ext.Backend):
    name = "doubling"
    def supports(self, node):
        return dynamo_ext.Support("mul" in str(node.target), "It only multiplies.")
    def lower(self, graph, example_inputs, options):
        return lambda *args: [args[0] * 2]
mine = Doubling()
"""


@pytest.fixture
def doubling(cells: Live, monkeypatch: pytest.MonkeyPatch) -> Live:
    monkeypatch.setattr(user_backends, "registered", {})
    cells.well(BACKEND)
    return cells


@pytest.mark.parametrize("text", ["mine", "Doubling()", "[mine][0]"])
def test_a_backend_object_is_a_backend(doubling: Live, text: str) -> None:
    report = doubling.report("y = x * 2", f"-b {text}")
    assert report.backend == "doubling"
    assert [p.engine for g in report.graphs for p in g.partitions] == ["doubling"]
    assert doubling.names["y"].tolist() == [0, 2, 4]


def test_its_options_and_reasons(doubling: Live) -> None:
    report = doubling.report("y = (x * 2).cos()", "-b mine --opt min_partition=1")
    assert [f.message for f in report.fallbacks] == ["It only multiplies."]
    assert {p.engine for g in report.graphs for p in g.partitions} == {"doubling", "eager"}
    with pytest.raises(OptionError, match="min_partition"):
        pick("mine", doubling.names, options={"min_part": "1"})


def test_a_registered_one_goes_by_its_name(doubling: Live) -> None:
    doubling.well("dynamo_ext.register_backend(mine)\ndoubling = None")
    assert doubling.report("y = x * 2", "-b doubling").backend == "doubling"
    (table,) = [out[1]["text/html"] for out in doubling.well("%dynamo backends doubling").outputs]
    assert "(yours)" in table
    doubling.well("%dynamo use doubling")
    assert doubling.report("y = x * 2", "--static").backend == "doubling"
