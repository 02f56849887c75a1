"""Guards in words, and failed guards as expected and actual."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.capture.guard_record import (
    in_words,
    readable_source,
    root_variable,
    tensor_words,
)
from dynamo_ext.capture.recompile_record import recompile_record

if TYPE_CHECKING:
    from dynamo_ext.records import Recompile


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
    ("kind", "code", "words"),
    [
        ("EQUALS_MATCH", "L['n'] == 3", "`n` must stay 3"),
        ("CONSTANT_MATCH", "L['n'] == 'sum'", "`n` must stay 'sum'"),
        ("SEQUENCE_LENGTH", "len(L['n']) == 4", "`n` must keep its length of 4"),
        ("TYPE_MATCH", "___check_type_id(L['n'], 1), type=<class 'int'>",
         "`n` must stay of type int"),
        ("BOOL_MATCH", "L['n'] == True", "`n` must stay True"),
        ("ID_MATCH", "___check_obj_id(L['n'], 1)", "`n` must stay the same object"),
        ("GRAD_MODE", "", "gradient mode must stay as it was"),
        ("NEW_KIND", "", "`n` must pass NEW_KIND"),
        ("NEW_KIND", "cond(L['n'])  # some/file.py:3", "`n`: cond(L['n'])"),
    ],
)  # fmt: skip
def test_conditions_are_sentences(kind: str, code: str, words: str) -> None:
    assert in_words(kind, "n", (code,) if code else ()) == words


@pytest.mark.parametrize(
    ("value", "sizes", "words"),
    [
        (torch.ones(2, 3), None, "`x` must stay a float32 tensor on the CPU of shape (2, 3)"),
        (torch.ones(2), None, "`x` must stay a float32 tensor on the CPU of shape (2,)"),
        (torch.tensor(1), None, "`x` must stay an int64 tensor on the CPU of shape ()"),
        (torch.ones(2, 3), ("s0", "3"),
         "`x` must stay a float32 tensor on the CPU of shape (any, 3)"),
        (torch.ones(1, requires_grad=True), None,
         "`x` must stay a float32 tensor on the CPU of shape (1,), requiring grad"),
    ],
)  # fmt: skip
def test_tensor_guards_say_what_they_hold(
    value: torch.Tensor, sizes: tuple[str, ...] | None, words: str
) -> None:
    assert tensor_words("x", value, sizes) == words


def test_an_object_under_two_names_is_no_tensor() -> None:
    assert in_words("DUPLICATE_INPUT", "inspect", ()) == (
        "`inspect` must stay the same object as its other name"
    )


def test_a_dtype_has_its_article() -> None:
    assert "must stay an int64 tensor" in tensor_words("n", torch.ones(2, dtype=torch.int64), None)


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
    assert (found.variable, found.expected, found.actual) == (variable, expected, actual)
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
    assert (found.variable, found.expected, found.actual) == ("net", "3", "2")


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
        (lambda x: x + 1, (X,), (X.double(),), "x", "Float", "Double"),
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
    assert expected in found.expected
    assert actual in found.actual


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
    assert (found[-1].variable, found[-1].expected, found[-1].actual) == ("x", "at least 2", "1")


def test_a_changed_mode_of_a_module_names_the_module() -> None:
    layer = torch.nn.Dropout()
    torch._dynamo.reset()
    fast = dynamo_ext.optimize("eager")(lambda x, layer: layer(x) + 1)
    fast(X, layer)
    fast(X, layer.eval())
    (found,) = fast.report().recompiles
    assert (found.variable, found.expected, found.actual) == ("layer", "True", "False")


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


def test_checking_guards_is_timed_when_they_are_made() -> None:
    torch._dynamo.reset()
    fast = dynamo_ext.optimize("eager")(lambda x: x + 1)
    fast(X)
    (frame,) = fast.report().frames
    assert 0 < frame.guard_seconds < 1e-3
