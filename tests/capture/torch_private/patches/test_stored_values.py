"""What tracing leaves in cycles is freed at its end, and the user's frozen objects stay so."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch

import dynamo_ext
from dynamo_ext.capture.torch_private.patches import stored_values


class Finalised:
    freed = 0

    def __init__(self):
        self.itself = self

    def __del__(self):
        Finalised.freed += 1


@pytest.fixture(autouse=True)
def no_collector():
    Finalised.freed = 0
    gc.disable()
    yield
    gc.enable()


def seen():
    stored_values.note_value(Finalised())


def test_a_trace_within_a_trace_leaves_the_collection_to_the_outer_one():
    with stored_values.let_go_of_the_new():
        held = Finalised()
        stored_values.note_value(held)
        with stored_values.let_go_of_the_new():
            pass
        del held
        assert not Finalised.freed
    assert Finalised.freed == 1
    assert not gc.get_freeze_count()


def test_an_error_puts_the_collector_back_and_what_it_held_goes_after_the_next_trace():
    with contextlib.suppress(ValueError), stored_values.let_go_of_the_new():
        seen()
        raise ValueError
    assert not gc.get_freeze_count()
    seen()
    with stored_values.let_go_of_the_new():
        pass
    assert Finalised.freed == 2
    # An error that is handled around a trace is not one of the trace.
    try:
        int("")
    except ValueError:
        with stored_values.let_go_of_the_new():
            seen()
    with stored_values.let_go_of_the_new():
        Finalised()
    assert Finalised.freed == 3


def test_what_the_user_has_frozen_stays_frozen():
    gc.freeze()
    try:
        with stored_values.let_go_of_the_new():
            seen()
        assert gc.get_freeze_count()
        assert Finalised.freed == 1
    finally:
        gc.unfreeze()


def by_operator(weight):
    weight -= 0.5 * weight.grad
    weight.grad = None


def by_method(weight):
    weight.mul_(2).add_(1).grad = None


def of_a_new_tensor(weight):
    other = doubled = weight * 2
    doubled += 1
    doubled.note = "kept"
    weight.note = other.note


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("change", [by_operator, by_method, of_a_new_tensor])
def test_an_attribute_of_what_changed_in_place_is_the_tensors(change, backend):
    torch._dynamo.reset()
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    for weight, run in zip(weights, (change, dynamo_ext.optimize(backend)(change)), strict=True):
        weight.grad = torch.ones(2)
        with torch.no_grad():
            run(weight)
    plain, captured = ((each.tolist(), each.grad is None, vars(each)) for each in weights)
    assert captured == plain
    assert dynamo_ext.last_report().graphs
