"""Notebook cells on a GPU: they run, they leave everything as it was, and tables tell the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.backends import disk_cache
from dynamo_ext.measure import machine_limits, memory
from tests.capture.live import Live, live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETUP = (
    "import torch",
    "from torch import nn",
    "torch.manual_seed(0)",
    "model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.5), nn.Linear(128, 64))",
    "model = model.cuda().train()",
    "x = torch.randn(8, 64, device='cuda')",
)
STEP = "loss = model(x).square().mean()\nloss.backward()\nshown = float(loss)"


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    with live("\n".join(SETUP)) as found:
        yield found


@pytest.mark.parametrize("backend", ["eager", "inductor", "ts", "onnxrt"])
def test_a_cell_gives_what_it_gives_plainly(cells: Live, backend: str) -> None:
    cells.names["model"].eval()
    cells.well("y = model(x)\nplain, size = y.clone(), y.shape[0]")
    report = cells.report("y = model(x)\nsize = y.shape[0]", f"-b {backend}")
    torch.testing.assert_close(cells.names["y"], cells.names["plain"], rtol=2e-3, atol=2e-3)
    assert cells.names["y"].is_cuda
    assert report.breaks == ()
    again = cells.report("y = model(x)\nsize = y.shape[0]", f"run -b {backend}")
    assert again.graphs
    torch.testing.assert_close(cells.names["y"], cells.names["plain"], rtol=2e-3, atol=2e-3)


def test_dropout_draws_what_eager_draws(cells: Live) -> None:
    cells.well("torch.manual_seed(1)\nplain = model(x)\nafter = torch.cuda.get_rng_state()")
    cells.report("torch.manual_seed(1)\ny = model(x)")
    assert torch.equal(cells.names["y"], cells.names["plain"])
    assert torch.equal(torch.cuda.get_rng_state(), cells.names["after"])


def test_a_comparison_leaves_a_training_step_as_it_was(cells: Live) -> None:
    model = cells.names["model"]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, host = torch.cuda.get_rng_state(), torch.get_rng_state()
    ran = cells.well(f"%%dynamo compare -b eager,inductor,cudagraphs -n 8 -o table --quiet\n{STEP}")
    record = cells.names["table"].record
    assert not ran.out
    assert "loss" not in cells.names
    assert all(each.grad is None for each in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert torch.equal(torch.get_rng_state(), host)
    assert record.device == torch.cuda.get_device_name()
    assert record.candidates[0].peak_bytes


def test_times_include_the_kernels(cells: Live) -> None:
    """A product of 8192² float32 matrices takes a millisecond and more on any GPU of today."""
    cells.well("a = torch.randn(8192, 8192, device='cuda')")
    cells.well("%%dynamo compare -b eager -n 6 -o table --quiet\nb = a @ a")
    for each in cells.names["table"].record.candidates:
        assert each.timing.median > 2 * 8192**3 / 1e15


def test_what_the_gpu_can_do(cells: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_limits, "_SECONDS", 0.05)
    shown = cells.well("%dynamo machine").out
    assert torch.cuda.get_device_name() in shown
    cells.well(
        "%%dynamo compare -b eager -n 6 -o table --quiet\nwith torch.no_grad(): y = model(x)"
    )
    machine = cells.names["table"].record.machine
    assert machine is not None
    assert machine.device == torch.cuda.get_device_name()
    rates = dict(machine.products)
    assert rates["bf16"] > rates["float32"] > 1e12


def test_the_height_of_memory() -> None:
    gpu = torch.empty(1, device="cuda").device
    peak = memory.peak_of(lambda: torch.ones(1 << 20, device="cuda").sum().item(), gpu)
    assert peak is not None
    assert (1 << 22) <= peak < (1 << 23)


def test_the_height_of_a_call_on_the_cpu_where_a_gpu_is_in_use() -> None:
    torch.empty(1, device="cuda")
    peak = memory.peak_of(lambda: torch.ones(32 << 20).sum())
    assert peak is not None
    assert peak > 100 << 20
