"""The same work has the same key, and other work another."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.auto.cache import place_key
from dynamo_ext.backends.disk_cache import device_model
from dynamo_ext.backends.graph_key import graph_key


def key(function, *inputs, training=False):
    graph = torch.fx.symbolic_trace(function)
    return graph_key(graph, inputs, training=training)


X = torch.ones(2, 3)


def test_names_and_values_do_not_count():
    def one(x):
        y = x + 1
        return y.relu()

    def two(tensor):
        return (tensor + 1).relu()

    assert key(one, X) == key(two, torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("function", "inputs", "training"),
    [
        (lambda x: (x + 2).relu(), (X,), False),
        (lambda x: (x + 1).sigmoid(), (X,), False),
        (lambda x: x.relu() + 1, (X,), False),
        (lambda x: (x + 1).relu(), (torch.ones(3, 2),), False),
        (lambda x: (x + 1).relu(), (torch.ones(3, 2).T,), False),
        (lambda x: (x + 1).relu(), (X.double(),), False),
        (lambda x: (x + 1).relu(), (X.clone().requires_grad_(),), False),
        (lambda x: (x + 1).relu(), (X,), True),
    ],
)
def test_everything_else_does(function, inputs, training):
    assert key(function, *inputs, training=training) != key(lambda x: (x + 1).relu(), X)


def test_modules_count_by_what_they_are():
    def of(module):
        return key(torch.nn.Sequential(module), X)

    assert of(torch.nn.Linear(3, 3)) == of(torch.nn.Linear(3, 3))
    assert of(torch.nn.Linear(3, 3)) != of(torch.nn.Linear(3, 4))


def test_a_place_names_machine_threads_and_backends():
    place = place_key(["onnxrt"], torch.device("cpu"))
    assert device_model(torch.device("cpu")) in place
    assert torch.backends.cpu.get_cpu_capability() in place
    assert str(torch.__version__) in place
    assert "onnxrt" in place
