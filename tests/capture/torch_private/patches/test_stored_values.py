"""What tracing leaves in cycles is freed at its end, and the user's frozen objects stay so."""

from __future__ import annotations

import contextlib
import gc

import pytest

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
