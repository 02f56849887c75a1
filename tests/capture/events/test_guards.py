"""Guards in words, and failed guards as expected and actual."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.analysis import guards as sentences
from dynamo_ext.capture.events.guards import _expected, readable_source, root_variable
from dynamo_ext.capture.events.recompiles import recompile_record

if TYPE_CHECKING:
    from dynamo_ext.records.capture import Recompile


@pytest.mark.parametrize(
    ("source", "readable", "root"),
    [
        ("L['x']", "x", "x"),
        ("G['x']", "x", "x"),
        ("L['self']._modules['fc'].weight", "self.fc.weight", "self"),
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight", "self"),
        ("G['model'].__dict__['training']", "model.training", "model"),
        ("G['__builtins_dict___1']['print']", "print", "torch"),
        ("G['__import_torch_dot_nn'].x", "torch.nn.x", "torch"),
        ("L['xs'][0]", "xs[0]", "xs"),
        ("type(L['self'].groups[0]['lr'])", "type(self.groups[0]['lr'])", "self"),
        ("", "", "torch"),
    ],
)
def test_sources_read_as_a_user_writes_them(source: str, readable: str, root: str) -> None:
    assert readable_source(source) == readable
    assert root_variable(source) == root


@pytest.mark.parametrize(
    ("kind", "code", "expected", "is_length"),
    [
        ("EQUALS_MATCH", "L['n'] == 3", "3", False),
        ("CONSTANT_MATCH", "L['n'] == 'sum'", "'sum'", False),
        ("SEQUENCE_LENGTH", "len(L['n']) == 4", "4", True),
        ("TYPE_MATCH", "___check_type_id(L['n'], 1), type=<class 'int'>", "int", False),
        ("BOOL_MATCH", "L['n'] == True  # some/file.py:3", "True", False),
        ("ID_MATCH", "___check_obj_id(L['n'], 1)", "", False),
        ("DUPLICATE_INPUT", "G['torch'].nn is G['nn']  # nn.relu(x)", "G['torch'].nn", False),
        ("GRAD_MODE", "", "", False),
    ],
)
def test_guards_have_facts(kind: str, code: str, expected: str, is_length: bool) -> None:
    assert _expected(kind, (code,) if code else ()) == (expected, is_length)


@pytest.mark.parametrize(
    ("reason", "variable", "expected", "actual"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 3, actual 5", "x", "3", "5"),
        ("- 1/0: L['n'] == 3  # y = x * n", "n", "3", "4"),
        ("0/0: len(L['xs']) == 1", "xs", "1", "2"),
        ("0/0: G['f'] == 0.5", "f", "0.5", "1.5"),
        ("0/0: L['missing'] == 3", "missing", "3", ""),
        ("0/0: something new happened", "torch", "", ""),
    ],
)
def test_failures_say_what_was_expected_and_what_came(
    reason: str, variable: str, expected: str, actual: str
) -> None:
    scopes = {"L": {"n": 4, "xs": [1, 2], "x": torch.ones(5)}, "G": {"f": 1.5}}
    found = recompile_record("0/1", "f", reason, scopes, None)
    assert (found.variable, sentences.expected(found), sentences.actual(found)) == (
        variable,
        expected,
        actual,
    )
    assert "L[" not in found.guard
    assert "#" not in found.guard


def test_a_parameter_is_told_from_a_tensor_and_torchs_hint_left_out() -> None:
    reason = (
        "0/0: tensor 'L['net']._modules['3']._parameters['bias']' size mismatch at index 0. "
        "expected 3, actual 2. Guard failed on a parameter, consider using "
        "torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on "
        "parameters."
    )
    found = recompile_record("0/1", "f", reason, {"L": {}, "G": {}}, None)
    assert found.guard == ("parameter 'net.3.bias' size mismatch at index 0. expected 3, actual 2")
    assert (found.variable, sentences.expected(found), sentences.actual(found)) == ("net", "3", "2")
    assert (found.kind, found.subject, found.dimension) == ("parameter", "net.3.bias", 0)


@pytest.mark.parametrize(
    ("reason", "kind", "subject"),
    [
        ("tensor 'L['x']' rank mismatch. expected 2, actual 1", "rank", "x"),
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Double", "dtype", "x"),
        ("___check_obj_id(L['f'], 7), type=<class 'function'>", "object", "f"),
        ("___check_obj_id(L['f'].__code__, 7), type=<class 'code'>", "code", "f"),
        ("___check_type_id(L['n'], 7), type=<class 'int'>", "type", ""),
        ("L['x'].size()[0] <= 8", "bound", ""),
        ("L['x'].size()[0] == L['y'].size()[0]", "relation", ""),
        ("len(L['net']._forward_hooks) == 0", "hooks", "net._forward_hooks"),
        ("len(L['xs']) == 1", "length", "xs"),
        ("L['n'] == 3", "integer", "n"),
        ("L['n'] == 0.5", "float", "n"),
        ("L['s'] == 'a'", "value", "s"),
        ("something new happened", "", ""),
    ],
)
def test_a_recompile_says_what_differed(reason: str, kind: str, subject: str) -> None:
    scopes = {"L": {"n": 4, "s": "b"}, "G": {}}
    found = recompile_record("0/1", "f", f"0/0: {reason}", scopes, None)
    assert (found.kind, found.subject) == (kind, subject)


def test_a_huge_value_is_cut() -> None:
    found = recompile_record("0/1", "f", "L['s'] == 'a'", {"L": {"s": "b" * 500}, "G": {}}, None)
    assert len(found.actual) <= 80


def recompiles_of(function: Any, *calls: tuple[Any, ...]) -> list[Recompile]:
    torch._dynamo.reset()
    fast = dynamo_ext.optimize("eager")(function)
    for call in calls:
        fast(*call)
    return list(fast.report().recompiles)


X = torch.ones(3)


@pytest.mark.parametrize(
    ("function", "first", "second", "variable", "expected", "actual"),
    [
        (lambda x: x + 1, (X,), (torch.ones(5),), "x", "3", "5"),
        (lambda x: x + 1, (X,), (torch.ones(2, 2),), "x", "1", "2"),
        (lambda x: x + 1, (X,), (X.double(),), "x", "float32", "float64"),
        (lambda x, n: x + n, (X, 1), (X, 2), "n", "1", "2"),
        (lambda x, n: x + n, (X, 1), (X, 2.5), "n", "1", "2.5"),
        (lambda x, b: x + 1 if b else x, (X, True), (X, False), "b", "True", "False"),
        (lambda x, s: x + 1 if s == "a" else x * 2, (X, "a"), (X, "b"), "s", "'a'", "'b'"),
        (lambda x, v: x + len(v), (X, [1]), (X, [1, 2]), "v", "1", "2"),
        (lambda x, v: x * 2 if v is None else x + v, (X, None), (X, X), "v", "None", "Tensor"),
        (lambda x, v: x + len(v), (X, {"a": 1}), (X, {"a": 1, "b": 2}), "v", "1", "2"),
        (lambda x, f: f(x) + 1, (X, torch.sin), (X, torch.cos), "f", "the same object", "cos"),
    ],
)
def test_a_real_recompile_says_what_was_expected_and_what_came(  # noqa: PLR0917
    function: Any, first: Any, second: Any, variable: str, expected: str, actual: str
) -> None:
    (found,) = recompiles_of(function, first, second)
    assert found.variable == variable
    assert expected in sentences.expected(found)
    assert actual in sentences.actual(found)


@pytest.mark.parametrize(
    ("source", "variable"),
    [
        ("G['__import_transformers_dot_utils_dot_generic'].fields", "transformers"),
        ("G['__import_torch_dot_nn_dot_functional'].relu", "torch"),
        ("G['_139895002861234_c3']", "torch"),
        ("G['__optimizer_140438680324624_140438680837296_c6']()", "torch"),
        ("L['self'].weight", "self"),
        ("L['___stack0']", "between graphs"),
    ],
)
def test_what_a_guard_protects_is_named_as_one_knows_it(source: str, variable: str) -> None:
    assert root_variable(source) == variable
    assert not re.search(r"__import|__stack|\d{6}", readable_source(source))


def test_a_bound_of_a_symbolic_size_is_expected_and_actual() -> None:
    found = recompiles_of(lambda x: x + 1, (X,), (torch.ones(5),), (torch.ones(1),))
    assert (sentences.expected(found[-1]), sentences.actual(found[-1])) == ("at least 2", "1")
    assert found[-1].variable == "x"


def test_both_bounds_of_a_symbolic_size_are_expected() -> None:
    calls = [(X,), (torch.ones(5),), (torch.ones(40),)]
    found = recompiles_of(lambda x: x + 1 if x.shape[0] <= 27 else x - 1, *calls)
    assert (sentences.expected(found[-1]), sentences.actual(found[-1])) == ("2 to 27", "40")
    assert found[-1].kind == "bound"


def test_a_changed_mode_of_a_module_names_the_module() -> None:
    layer = torch.nn.Dropout()
    torch._dynamo.reset()
    fast = dynamo_ext.optimize("eager")(lambda x, layer: layer(x) + 1)
    fast(X, layer)
    fast(X, layer.eval())
    (found,) = fast.report().recompiles
    assert (found.variable, sentences.expected(found), sentences.actual(found)) == (
        "layer",
        "True",
        "False",
    )


def test_requiring_grad_is_expected_and_actual() -> None:
    (found,) = recompiles_of(lambda x: x + 1, (X,), (torch.ones(3, requires_grad=True),))
    assert found.variable == "x"
    assert found.expected
    assert found.actual
    assert found.expected != found.actual


def test_one_recompile_is_one_recompile() -> None:
    """However many compiled versions did not fit."""
    found = recompiles_of(lambda x: x + 1, (X,), (X.double(),), (X.half(),), (X.int(),))
    assert sum(one.count for one in found) == 3
