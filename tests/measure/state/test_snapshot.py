"""What changes is put back, and the objects stay the same ones."""

from __future__ import annotations

import array
import collections
import dataclasses
import functools
import io
import os
import queue
import random
import threading
import types
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.measure.state.snapshot import Snapshot


@dataclasses.dataclass
class Point:
    x: int
    children: list


class Tagged(list):
    pass


def noted():
    return None


def trained():
    leaf = torch.ones(3, requires_grad=True)
    leaf.sum().backward()
    return leaf


def shrunk(leaf):
    leaf.data, leaf.grad = torch.zeros(2), None


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def restored(root, change, read):
    before = read(root)
    snapshot = Snapshot({"root": root})
    change(root)
    assert read(root) != before
    assert snapshot.restore()
    assert read(root) == before
    assert not snapshot.restore()


class Counting:
    """An iterator of the user's own."""

    n = 0

    def __next__(self):
        self.n += 1
        return self.n

    def __iter__(self):
        return self


def table():
    return pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})


def scheduled():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    return scheduler


def loader():
    data, draws = torch.utils.data.TensorDataset(torch.ones(4)), torch.Generator()
    sampler = torch.utils.data.RandomSampler(data, generator=draws)
    return torch.utils.data.DataLoader(data, sampler=sampler)


def half_complex(value):
    return torch.view_as_real(value).tolist()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize(
    ("make", "change", "read"),
    [
        (lambda: [1, 2], lambda v: v.append(3), list),
        (lambda: {"a": 1}, lambda v: v.update(b=2), dict),
        (lambda: {"a": 1, "b": 2}, lambda v: v.update(b=v.pop("a"), a=v.pop("b")), list),
        (lambda: {1, 2}, lambda v: v.add(3), set),
        (lambda: collections.deque([1]), lambda v: v.append(2), list),
        (lambda: collections.OrderedDict(a=1, b=2), lambda v: v.move_to_end("a"), list),
        (lambda: collections.defaultdict(list), lambda v: v["x"].append(1), dict),
        (lambda: array.array("i", [1]), lambda v: v.append(2), list),
        (lambda: Tagged([1]), lambda v: setattr(v, "tag", 1), lambda v: dict(vars(v))),
        (lambda: noted, lambda v: setattr(v, "calls", 1), lambda v: dict(vars(v))),
        (lambda: types.ModuleType("made"), lambda v: setattr(v, "new", 1), lambda v: len(vars(v))),
        (trained, shrunk, lambda v: (v.tolist(), v.grad is None)),
        (lambda: bytearray(b"ab"), lambda v: v.extend(b"c"), bytes),
        (lambda: np.zeros(3), lambda v: v.fill(1), lambda v: v.tolist()),
        (lambda: Point(1, [2]), lambda v: setattr(v, "x", 5), lambda v: v.x),
        (lambda: Point(1, [2]), lambda v: v.children.append(5), lambda v: list(v.children)),
        (lambda: Slotted(1), lambda v: setattr(v, "value", 2), lambda v: v.value),
        (lambda: ([1],), lambda v: v[0].append(1), lambda v: list(v[0])),
        (Counting, next, lambda v: v.n),
        (table, lambda v: v.__setitem__("c", 1), lambda v: v.to_dict()),
        (table, lambda v: v.iloc.__setitem__((0, 0), 9.0), lambda v: v.to_dict()),
        (lambda: np.ma.array([1, 2], mask=[0, 1]), lambda v: v.mask.fill(1), lambda v: v.tolist()),
        (lambda: torch.amp.GradScaler("cpu"), lambda v: v.scale(torch.ones(1)), lambda v: v._scale),
        (scheduled, lambda v: v.step(), lambda v: (v.last_epoch, v.get_last_lr())),
        (loader, lambda v: setattr(v, "timeout", 5), lambda v: v.timeout),
        (lambda: types.SimpleNamespace(a=1), lambda v: setattr(v, "b", 1), lambda v: dict(vars(v))),
        (lambda: torch.ones(3), lambda v: v.add_(1), lambda v: v.tolist()),
        (lambda: torch.eye(2), lambda v: v.add_(1).t_(), lambda v: (v.tolist(), v.stride())),
        (lambda: torch.ones(3)[1:], lambda v: v.add_(1), lambda v: v.tolist()),
        (lambda: torch.ones(()), lambda v: v.add_(1), lambda v: v.item()),
        (lambda: torch.ones(2, dtype=torch.bfloat16), lambda v: v.add_(1), lambda v: v.tolist()),
        (lambda: torch.ones(2, dtype=torch.complex32), torch.Tensor.zero_, half_complex),
        (lambda: torch.ones(3), lambda v: v.data.add_(1), lambda v: v.tolist()),
        (lambda: torch.ones(3), lambda v: v.numpy().fill(9), lambda v: v.tolist()),
        (lambda: torch.ones(3), lambda v: setattr(v, "data", torch.zeros(2)), lambda v: v.tolist()),
        (lambda: torch.ones(3), lambda v: v.requires_grad_(), lambda v: v.requires_grad),
        (lambda: torch.ones(3), lambda v: setattr(v, "note", 1), lambda v: hasattr(v, "note")),
    ],
)
def test_a_change_is_undone(make, change, read):
    restored(make(), change, read)


def test_a_module_keeps_its_objects_and_gets_its_content_back():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    weight, state = module[0].weight, {k: v.clone() for k, v in module.state_dict().items()}
    snapshot = Snapshot({"module": module})
    module(torch.randn(4, 3)).sum().backward()
    with torch.no_grad():
        weight.add_(1)
    module.eval()
    module.extra = torch.nn.Linear(1, 1)
    assert snapshot.restore()
    assert module[0].weight is weight
    assert weight.grad is None
    assert module.training
    assert not hasattr(module, "extra")
    assert all(torch.equal(module.state_dict()[k], v) for k, v in state.items())


def test_an_optimizer_starts_anew():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    snapshot = Snapshot({"optimizer": optimizer})
    losses = []
    for _ in range(2):
        weight.grad = torch.ones(3)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 5.0
        losses.append(weight.tolist())
        snapshot.restore()
        assert not optimizer.state
        assert optimizer.param_groups[0]["lr"] == 0.1
        assert weight.grad is None
    assert losses[0] == losses[1]


def test_an_optimizer_that_has_run_goes_on_from_where_it_was():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    weight.grad = torch.ones(3)
    optimizer.step()
    was = {k: v.clone() for k, v in optimizer.state[weight].items()}
    snapshot = Snapshot({"optimizer": optimizer})
    optimizer.step()
    snapshot.restore()
    assert all(torch.equal(optimizer.state[weight][k], v) for k, v in was.items())


def test_writing_back_shows_in_the_version_counter():
    tensor = torch.ones(3)
    snapshot = Snapshot({"tensor": tensor})
    tensor.data.add_(1)
    version = tensor._version
    snapshot.restore()
    assert tensor._version > version


def test_a_quick_look_trusts_the_version_counter():
    tensor = torch.ones(3)
    snapshot = Snapshot({"tensor": tensor})
    tensor.data.add_(1)
    assert not snapshot.restore(thorough=False)
    assert snapshot.restore(thorough=True)


def test_nan_is_no_change():
    tensor = torch.tensor([float("nan"), 1.0])
    array = np.array([float("nan")])
    assert not Snapshot({"t": tensor, "a": array}).restore()


def test_functions_lead_to_what_they_read():
    scope = {"__name__": "notebook", "seen": [], "torch": torch}
    exec("def f():\n    seen.append(1)\n", scope)
    snapshot = Snapshot({"f": scope["f"]})
    scope["f"]()
    assert snapshot.restore()
    assert scope["seen"] == []


def test_closures_are_put_back():
    def counter():
        count = 0

        def step():
            nonlocal count
            count += 1
            return count

        return step

    step = counter()
    snapshot = Snapshot({"step": step})
    assert step() == 1
    assert snapshot.restore()
    assert step() == 1


def test_a_closures_variable_that_is_deleted_comes_back():
    def forgetful():
        value = [1]

        def step():
            nonlocal value
            del value

        return step

    step = forgetful()
    snapshot = Snapshot({"step": step})
    step()
    assert snapshot.restore()
    assert step.__closure__[0].cell_contents == [1]
    assert not snapshot.restore()


def test_arguments_that_are_bound_beforehand_are_put_back():
    def step(seen, *, more=[]):  # noqa: B006 - as users write it
        seen.append(1)
        more.append(1)

    seen = []
    bound = functools.partial(step, seen)
    snapshot = Snapshot({"bound": bound})
    bound()
    assert snapshot.restore()
    assert seen == step.__kwdefaults__["more"] == []


def test_random_numbers_of_the_system_have_no_state():
    assert not Snapshot({"drawn": random.SystemRandom()}).restore()


def test_generators_of_random_numbers_are_put_back():
    mine = [random.Random(1), np.random.default_rng(1), torch.Generator().manual_seed(1)]

    def draw():
        return [mine[0].random(), mine[1].random(), torch.rand(1, generator=mine[2]).item()]

    snapshot = Snapshot({"mine": mine})
    first = draw()
    snapshot.restore()
    assert draw() == first


def test_what_cannot_be_put_back_is_named():
    found = Snapshot({"it": iter([1]), "gen": (i for i in "a"), "file": io.StringIO()})
    assert [text.split()[0] for text in found.unrestorable] == ["it", "gen", "file"]


@pytest.mark.parametrize(
    "stopped", [threading.Thread(), threading.Lock(), iter([1]), queue.Queue()]
)
def test_an_attribute_that_is_no_data_keeps_its_identity(stopped):
    owner = types.SimpleNamespace(held=stopped, seen=[], count=0)
    kept = Snapshot({"owner": owner})
    owner.held, owner.count = None, 3
    owner.seen.append(1)
    assert kept.restore()
    assert owner.held is stopped
    assert (owner.seen, owner.count) == ([], 0)
    assert [text.partition(" ")[0] for text in kept.stopped] == ["owner['held']"]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_of_a_loader_is_left_alone(workers):
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    batches = iter(
        torch.utils.data.DataLoader(data, num_workers=workers, persistent_workers=workers > 0)
    )
    kept = Snapshot({"batches": batches})
    found = [next(batches)[0].item()]
    kept.restore()
    found += [each.item() for (each,) in batches]
    assert found == [0.0, 1.0, 2.0, 3.0]


def test_a_weak_proxy_of_what_is_gone_is_no_error():
    gone = weakref.proxy(torch.nn.Linear(1, 1))
    kept = Snapshot({"gone": gone, "held": [gone]})
    assert not kept.restore()
    assert kept.stopped == []


def test_an_object_that_is_read_meanwhile_never_lacks_an_attribute():
    owner, missing, end = types.SimpleNamespace(kept=1), [], threading.Event()

    def read():
        while not end.is_set():
            if not hasattr(owner, "kept"):
                missing.append(1)

    snapshot = Snapshot({"owner": owner})
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20_000):
        owner.more = 1
        snapshot.restore()
    end.set()
    reader.join()
    assert missing == []


def test_where_one_thing_cannot_be_put_back_all_else_is():
    class Fixed(dict):
        def clear(self):
            raise ValueError(self)

    fixed, later = Fixed(), [1]
    kept = Snapshot({"fixed": fixed, "later": later})
    fixed["a"] = later[0] = 2
    with pytest.raises(ValueError, match="a"):
        kept.restore()
    assert later == [1]


def test_library_modules_are_not_entered():
    assert len(Snapshot({"torch": torch, "np": np})._seen) == 0
    # Python keeps the code of this one within itself.
    assert id(os.environ) not in Snapshot({"getenv": os.getenv})._seen


def test_surroundings_come_back(tmp_path, monkeypatch):
    monkeypatch.setenv("DX_TEST", "1")
    before = Surroundings()
    numbers = (random.random(), np.random.rand(), torch.rand(1).item())
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DX_TEST", "2")
    before.restore()
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == numbers
    assert os.environ["DX_TEST"] == "1"
    assert Path.cwd() != tmp_path


@pytest.mark.parametrize("train", [False, True])
def test_a_lazy_module_is_lazy_again(train):
    layers = torch.nn.LazyConv2d(4, 3), torch.nn.LazyBatchNorm2d(), torch.nn.ReLU()
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.LazyLinear(2))
    parameters, kinds = list(net.parameters()), [type(m) for m in net.modules()]
    snapshot = Snapshot({"net": net})
    assert len(snapshot.uninitialized) == 8
    assert not snapshot.restore()
    for _ in range(2):
        result = net(torch.ones(2, 3, 6, 6))
        if train:
            result.sum().backward()
        assert all(each.initialized for each in snapshot.uninitialized)
        assert snapshot.restore()
        assert not snapshot.restore()
        assert [type(m) for m in net.modules()] == kinds
        assert all(map(torch.nn.parameter.is_lazy, net.parameters()))
        assert all(a is b for a, b in zip(net.parameters(), parameters, strict=True))
    net(torch.ones(2, 5, 8, 8))
    assert net[0].weight.shape == (4, 5, 3, 3)
