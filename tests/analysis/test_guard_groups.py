"""Guards put together by module, and those of many layers that are alike."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.guards import OTHER, condition, grouped, owner, total
from dynamo_ext.records.capture import Guard, Recompile
from tests.widgets.conftest import CLEAN


def layer(index: int, attribute: str, kind: str, frame: str = "0/0", **facts: str) -> Guard:
    """A guard on an attribute of a layer's norm."""
    norm = f"G['model']._modules['layers']._modules['{index}']._modules['norm']"
    subject = f"model.layers.{index}.norm.{attribute}"
    return Guard(frame, "model", f"{norm}.{attribute}", kind, subject=subject, **facts)


GUARDS = (
    *(layer(index, "eps", "EQUALS_MATCH", expected="1e-05") for index in range(24)),
    layer(3, "eps", "EQUALS_MATCH", frame="1/0", expected="1e-05"),
    layer(7, "p", "EQUALS_MATCH", expected="0.1"),
    layer(8, "p", "EQUALS_MATCH", expected="0.2"),
    *(layer(index, "_forward_hooks", "SEQUENCE_LENGTH") for index in range(24)),
    Guard("0/0", "torch", "G['__import_torch'].nn", "ID_MATCH", subject="torch.nn"),
    Guard("0/0", "x", "L['x']", "TYPE_MATCH", subject="x", expected="float"),
    Guard("0/0", "", "", "GRAD_MODE"),
)
REPORT = dataclasses.replace(CLEAN, guards=GUARDS)


def test_guards_of_layers_that_are_alike_are_one_row_and_all_are_counted():
    groups = grouped(REPORT)
    assert list(groups) == ["model.layers.*.norm", "x", "torch", OTHER]
    eps, first, second, hooks = groups["model.layers.*.norm"]
    assert condition(eps.first) == "`model.layers.*.norm.eps` must stay 1e-05"
    assert eps.frames == ("0/0", "1/0")
    assert condition(first.first) == "`model.layers.7.norm.p` must stay 0.1"
    assert condition(second.first) == "`model.layers.8.norm.p` must stay 0.2"
    assert [len(each.members) for each in (eps, hooks)] == [25, 24]
    assert sum(total(of) for of in groups.values()) == len(GUARDS)


def test_what_failed_comes_first():
    failed = Recompile("0/0", "f", "", "x", "1", "2")
    assert next(iter(grouped(dataclasses.replace(REPORT, recompiles=(failed,))))) == "x"


def test_a_search_finds_one_layer():
    (rows,) = grouped(REPORT, " Layers.7.norm").values()
    assert [condition(each.first) for each in rows[:2]] == [
        "`model.layers.7.norm.eps` must stay 1e-05",
        "`model.layers.7.norm.p` must stay 0.1",
    ]
    assert grouped(REPORT, "nowhere") == {}


def test_structure_is_told_from_what_a_user_sets():
    found = [each for of in grouped(REPORT).values() for each in of if each.is_structural]
    assert [each.first.kind for each in found] == ["SEQUENCE_LENGTH", "ID_MATCH"]


@pytest.mark.parametrize(
    ("source", "subject", "expected"),
    [
        ("L['self']._modules['fc'].weight", "self.fc.weight", "self.fc"),
        ("L['self'].net._modules['fc'].weight", "self.net.fc.weight", "self.net.fc"),
        ("type(L['m']._modules['0'])", "type(m.0)", "m"),
        ("L['m'].training", "m.training", "m"),
        ("L['m']._modules['fc'].weight", "", "m"),
    ],
)
def test_the_owner_is_a_module_where_one_is_named(source, subject, expected):
    assert owner(Guard("0/0", "m", source, "ID_MATCH", subject=subject)) == expected
