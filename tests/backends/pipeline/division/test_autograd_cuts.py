"""Where graphs are cut, so that autograd finds what it finds in eager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.backends.base import StayEager
from dynamo_ext.backends.pipeline.division.autograd_cuts import cuts
from tests.capture.captured import captured

if TYPE_CHECKING:
    from collections.abc import Callable


def cut_in_front_of(function: Callable[..., object], *args: torch.Tensor) -> list[str]:
    """Names of the operations behind cuts."""
    return [node.name for node in cuts(captured(function, *args, fullgraph=True)[0])]


@pytest.fixture
def w() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3).requires_grad_()


def chain(w):
    h = w * 2
    a = h.tanh()
    return h, a, a.sum()


def test_each_result_that_another_is_computed_from_ends_a_part(w) -> None:
    assert cut_in_front_of(chain, w) == ["a", "sum_1"]


def test_what_needs_no_gradient_is_not_cut(w) -> None:
    assert not cut_in_front_of(chain, w.detach())
    with torch.no_grad():
        assert not cut_in_front_of(chain, w)


def test_results_that_autograd_does_not_record_do_not_count(w) -> None:
    def measures(w):
        logits = w * 2
        right = (logits.argmax(1) == 0).float().mean()
        with torch.no_grad():
            size = logits.norm()
        return logits, right, size, logits.detach() + 1

    assert not cut_in_front_of(measures, w)


def test_one_result_alone_is_not_cut(w) -> None:
    assert not cut_in_front_of(lambda w: (w * 2).tanh().sum(), w)


def test_results_of_common_operations_are_not_cut(w) -> None:
    def heads(w):
        trunk = (w * 2).tanh()
        return trunk.sum(), trunk.exp().mean()

    assert not cut_in_front_of(heads, w)


def test_results_that_share_nothing_are_apart(w) -> None:
    def losses(w):
        one = w.tanh().sum()
        other = (w * w).exp().mean()
        return one, other

    assert cut_in_front_of(losses, w) == ["mul"]


def test_results_that_take_turns_are_not_apart(w) -> None:
    def sums(w):
        one, other = w[0].sum(), w[1].sum()
        for row in w:
            one = one + row.sin().sum()
            other = other + row.cos().sum()
        return one, other

    assert not cut_in_front_of(sums, w)


def test_a_result_is_ready_behind_its_last_change(w) -> None:
    def changes(w):
        h = w * 2
        before = h.sum()
        h.mul_(3)
        h[0] = before
        return h, h.tanh()

    assert cut_in_front_of(changes, w) == ["tanh"]


def test_a_change_that_is_not_recorded_leaves_a_result_ready(w) -> None:
    def changes(w):
        h = w * 2
        a = h.tanh()
        with torch.no_grad():
            h.zero_()
        return h, a

    assert cut_in_front_of(changes, w) == ["a"]


def test_a_leaf_that_is_changed_without_a_record_is_not_cut_off(w) -> None:
    def updates(w):
        with torch.no_grad():
            w.add_(1)
        return w.flip(0) * w

    assert not cut_in_front_of(updates, w)


def test_a_view_of_before_a_change_counts_as_what_changed(w) -> None:
    def changes(w):
        h = w * 2
        row = h[0]
        h.mul_(3)
        return h, row.tanh()

    assert cut_in_front_of(changes, w) == ["tanh"]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_an_input_that_changes_is_the_caller_s_too(w) -> None:
    def changes(h):
        h += 1
        return h.tanh()

    assert cut_in_front_of(changes, w * 2) == ["tanh"]


def test_several_results_of_one_operation_are_ready_together(w) -> None:
    def chunks(w):
        left, right = (w * 2).split(1)
        return left, right, left * right

    assert cut_in_front_of(chunks, w) == ["mul_1"]


def test_parameters_that_an_optimizer_changes_are_not_recorded(w) -> None:
    def step(w):
        with torch.no_grad():
            w.mul_(0.5)
            w.add_(1)
        return w.detach().sum()

    assert not cut_in_front_of(step, w)


def test_a_transform_is_not_cut_through(w) -> None:
    def slopes(w):
        h = w * 2
        return h, torch.func.grad(lambda v: (v * h).sum())(h)

    graph, _ = captured(slopes, w, fullgraph=True)
    names = [node.name for node in graph.graph.nodes]
    (start,) = cuts(graph)
    assert "nesting" in start.name or names.index(start.name) < names.index(
        "_grad_increment_nesting"
    )


def test_what_is_bound_within_an_attention_choice_cannot_be_apart(w) -> None:
    def chosen(w):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            h = w * 2
            a = h.tanh()
        return h, a

    graph, _ = captured(chosen, w, fullgraph=True)
    with pytest.raises(StayEager, match="within a context"):
        cuts(graph)
