"""A forked process has none of its parent's threads, and no engine may wait for them there."""

from __future__ import annotations

import os

import pytest

from dynamo_ext.backends import fork_safety
from dynamo_ext.backends.base import StayEager
from tests.backends.own_process import silent
from tests.needs import needs_backend

_SCRIPT = """
import os, signal, traceback, warnings
import torch, dynamo_ext

name = {name!r}
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
x = torch.randn(64, 64)

def heard(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        return call(), [str(each.message) for each in found]

def in_child(compiled, wanted):
    torch.set_num_threads(1)
    found, said = heard(lambda: compiled(x))
    again, silence = heard(lambda: compiled(x))
    assert torch.allclose(found, wanted, atol=1e-4) and torch.equal(found, again)
    assert len(said) == 1 and "forked" in said[0] and "spawn" in said[0], said
    assert not silence, silence
    anew = torch.compile(torch.nn.Sequential(*model, torch.nn.Tanh()), backend="dx_" + name)
    found, said = heard(lambda: anew(x))
    assert torch.allclose(found, torch.tanh(wanted), atol=1e-4)
    assert any("forked" in each for each in said), said

with torch.no_grad():
    compiled = torch.compile(model.eval(), backend="dx_" + name)
    compiled(x)
    wanted = compiled(x)
    child = os.fork()
    if not child:
        # What hangs ends here, and with another status.
        signal.alarm(60)
        try:
            in_child(compiled, wanted)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        # As the processes of multiprocessing end: engines tear nothing down.
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    # The parent goes on in the engine.
    assert not heard(lambda: compiled(x))[1]
"""


@pytest.mark.parametrize("name", ["tvm", "xla", "onnx2tf"])
def test_a_forked_process_runs_in_eager_what_its_parent_compiled(name: str) -> None:
    needs_backend(name)
    silent(_SCRIPT.format(name=name))


def test_a_process_that_begins_with_an_engine_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_safety, "_begun", {})
    fork_safety.begin("one")
    fork_safety.begin("one")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    fork_safety.begin("another")
    with pytest.raises(StayEager, match="one was in use before this process was forked") as told:
        fork_safety.begin("one")
    assert "spawn" in told.value.remedy
