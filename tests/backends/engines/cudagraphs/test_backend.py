"""``cudagraphs`` without a GPU: its probe, and how skips are told."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.backends import cudagraphs as torchs
from torch._dynamo.utils import counters
from torch._inductor import cudagraph_trees, cudagraph_utils

from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.cudagraphs import backend as cudagraphs
from dynamo_ext.backends.engines.cudagraphs import torch_private
from dynamo_ext.errors import OptionError
from tests.backends.engine_zoo import is_unavailable

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here")


@pytest.mark.parametrize("given", [{"clone_outputs": "perhaps"}, {"clone": True}])
def test_options_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="clone_outputs"):
        registry.compiler("cudagraphs", given)


def test_reasons_lose_their_prefixes_and_traces() -> None:
    twice = (
        "skipping cudagraphs due to skipping cudagraphs due to cpu device (x). Found from : \n F"
    )
    assert torch_private.plain_skip(twice) == "cpu device (x)"


def test_skips_become_fallbacks(harness: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Torch's own backend skips every graph on the CPU, so its counter and log are real here."""
    before = counters["inductor"]["cudagraph_skips"]
    compiled = harness.compile(lambda x: x.sin() + 1, cudagraphs.BACKEND)
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x.sin() + 1)
    assert counters["inductor"]["cudagraph_skips"] == before + 1
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope, fallback.count) == ("unsupported", "graph", 1)
    assert "cpu device" in fallback.message
    assert "skipping" not in fallback.message
    assert fallback.remedy
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, ...]]]:
    """The shapes of what is fixed in each graph that is recorded; it runs on the CPU here."""
    fixed: list[list[tuple[int, ...]]] = []

    def record(run: Any, inputs: Any, positions: Any, **_: Any) -> Any:
        fixed.append([tuple(inputs[at].shape) for at in positions])
        return run

    monkeypatch.setattr(torchs, "check_for_skip", lambda *_: None)
    monkeypatch.setattr(torchs, "get_device_index", lambda _: 0)
    monkeypatch.setattr(cudagraph_trees, "cudagraphify_impl", record)
    return fixed


@pytest.mark.parametrize("precision", ["", "bf16"])
def test_weights_are_read_where_they_lie(harness: Any, recorded: list[Any], precision: str) -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(5, 3)
    options = {"precision": precision} if precision else {}
    with torch.no_grad():
        compiled = harness.compile(layer, Compiler(cudagraphs.BACKEND, options))
        torch.testing.assert_close(compiled(x), layer(x), rtol=0.02, atol=0.02)
    # Weights in float32 are inputs still; the products read the casts behind them.
    assert recorded == [[(2, 3), (2,)] * (2 if precision else 1)]
    assert not harness.stages


@pytest.mark.usefixtures("recorded")
def test_views_of_inputs_are_not_copied(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudagraphs, "_cloned", lambda outputs: [each.clone() for each in outputs])
    x = torch.randn(2, 3)
    compiled = harness.compile(lambda x: (x.view(-1), x.sin()), Compiler(cudagraphs.BACKEND, {}))
    view, _ = compiled(x)
    assert view.data_ptr() == x.data_ptr()
    assert not harness.stages


def test_skips_at_run_time_become_fallbacks_too(harness: Any) -> None:
    def run(x: torch.Tensor) -> list[torch.Tensor]:
        cudagraph_utils.log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to the moon")
        return [x]

    watched = cudagraphs._watched(run, harness.journal, clone=True)
    assert watched(torch.ones(1))[0].item() == 1
    watched(torch.ones(1))
    (fallback,) = harness.journal.fallbacks.values()
    assert "the moon" in fallback.message
    assert fallback.count == 2


@needs_no_gpu
def test_without_a_gpu_it_runs_eagerly(harness: Any) -> None:
    answer = cudagraphs.BACKEND.probe()
    assert not answer.available
    assert "CUDA" in answer.reason
    assert answer.remedy
    is_unavailable(harness, "cudagraphs", "CUDA")
