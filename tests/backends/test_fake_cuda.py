"""Graphs on CUDA without a GPU: what each engine takes of them, and that a CPU computes it right.

Each engine is told that it has CUDA. What it is asked to try, it tries on the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.errors import OptionError
from tests.backends.fake_cuda import Recorded, on_cpu
from tests.gpu.models import MODELS
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Callable

ATEN = torch.ops.aten
ON_CPU_ALONE = {
    "openvino": "This OpenVINO backend does not run on cuda devices.",
    "tvm": "This TVM backend does not run on cuda devices.",
    "tvm_meta_schedule": "This TVM backend does not run on cuda devices.",
    "onnx2tf": "This TensorFlow backend does not run on cuda devices.",
}


class Kernel(nn.Module):
    """Attention as CUDA computes it, in one of its fused kernels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = x.view(2, 4, 8, 16)
        return ATEN._scaled_dot_product_efficient_attention(q, q, q, None, False)[0] + 1


def training_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8)).train()


def embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 64), nn.Linear(64, 8), nn.GELU()).eval()


def evaluated(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: build().eval()


CASES: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    **{name: (evaluated(build), torch.zeros(shape)) for name, (build, shape) in MODELS.items()},
    "attention": (Kernel, torch.zeros(2, 4, 8, 16)),
    "batch norm in training": (training_norm, torch.zeros(8, 64)),
    "indices": (embedding, torch.zeros(2, 5, dtype=torch.int64)),
    "half": (lambda: MODELS["mlp"][0]().half(), torch.zeros(8, 64, dtype=torch.float16)),
}


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch, fresh_answers: None) -> Callable[[str], Any]:
    """A backend that takes itself for one on a GPU."""

    def told(name: str) -> Any:
        needs_backend(name)
        backend = registry.get(name)
        if name == "onnxrt":
            from dynamo_ext.backends.engines.onnxrt import session

            monkeypatch.setattr(session, "has_cuda", lambda: True)
        if name == "xla":
            from dynamo_ext.backends.engines.xla import session

            cpu, attempt = session.client("cpu"), backend.attempt
            monkeypatch.setattr(session, "client", lambda _: cpu)

            def tried(node: torch.fx.Node) -> str:
                with on_cpu(node, *node.all_input_nodes):
                    return attempt(node)

            monkeypatch.setattr(backend, "attempt", tried)
        return backend

    return told


def needs_no_gpu() -> None:
    """Where there is one, torch traces attention to a kernel that the CPU does not have."""
    if torch.cuda.is_available():
        pytest.skip("it needs a machine without a GPU; tests/gpu runs the same on one")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["onnxrt", "ts", "xla"])
def test_what_runs_on_cuda_is_taken_and_right(with_cuda: Any, name: str, case: str) -> None:
    if case == "batch norm in training" and not torch.version.cuda:
        pytest.skip("torch asks its CUDA library about it, which a build for the CPU does not have")
    if (name, case) == ("ts", "bert"):
        needs_no_gpu()
    build, x = CASES[case]
    seen = Recorded(with_cuda(name), build(), x)
    assert seen.result.is_cuda
    assert seen.said == set()
    assert seen.engines == {name}
    if (name, case) != ("ts", "attention"):  # of which the CPU has no kernel
        seen.check_on_cpu()


def test_torchscript_for_inference_takes_it_too(with_cuda: Any) -> None:
    needs_no_gpu()
    build, x = CASES["bert"]
    seen = Recorded(with_cuda("ofi"), build(), x)
    assert seen.engines == {"ofi"}
    seen.check_on_cpu()


@pytest.mark.parametrize("name", ON_CPU_ALONE)
def test_what_has_no_cuda_leaves_all_of_it_to_eager(with_cuda: Any, name: str) -> None:
    build, x = CASES["mlp"]
    seen = Recorded(with_cuda(name), build(), x)
    assert seen.said == {ON_CPU_ALONE[name]}
    assert seen.engines == {"eager"}
    assert not seen.taken


@pytest.mark.parametrize("name", ["eager", "aot_eager", "inductor", "cudagraphs", "tensorrt"])
def test_what_takes_graphs_whole_gets_them(name: str) -> None:
    build, x = CASES["mlp"]
    seen = Recorded(registry.get(name), build(), x)
    assert len(seen.taken) == 1
    assert seen.said == set()
    with pytest.raises(OptionError):
        Recorded(registry.get(name), build(), x, verify="perhaps")
