"""Inductor's Triton code for an H100, compiled to PTX and machine code on a machine without one.

Torch and Triton are told of the device. What Inductor leaves to cuBLAS and cuDNN is not seen.
"""

from __future__ import annotations

import contextlib
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from torch._dynamo.device_interface import CudaInterface
from torch._subclasses.fake_tensor import FakeTensorMode

from dynamo_ext.backends.engines.inductor.torch_private import inductor_compile
from tests.backends.fake_cuda import CUDA, moved, placed
from tests.gpu.models import MODELS
from tests.needs import needs

if TYPE_CHECKING:
    from collections.abc import Iterator

needs("triton")
if not torch.version.cuda:
    pytest.skip("torch is built without CUDA", allow_module_level=True)

H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=80 * 2**30,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    L2_cache_size=50 * 2**20,
)


class Written(Exception):  # noqa: N818 - ends Inductor's work once it has written its code
    """Inductor's module, as text."""


@pytest.fixture
def h100(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from torch._inductor import config, scheduler
    from torch._inductor.graph import GraphLowering
    from torch._inductor.runtime import triton_helpers
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    for owner in (torch.cuda, CudaInterface, CudaInterface.Worker):
        monkeypatch.setattr(owner, "get_device_properties", lambda *_, **__: H100)
        monkeypatch.setattr(owner, "current_device", lambda *_, **__: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_, **__: (9, 0))
    monkeypatch.setattr(scheduler, "has_triton", lambda *_: True)
    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)
    target = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(driver, "_active", target)

    def keep(lowering: Any) -> None:
        code = lowering.codegen()[0]
        raise Written(getattr(code, "value", code))

    monkeypatch.setattr(GraphLowering, "compile_to_module", keep)
    # It would compute constants on the device.
    with config.patch(joint_graph_constant_folding=False):
        yield


def written(name: str, mode: str) -> str:
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    build, shape = MODELS[name]
    model = moved(build().eval(), fake_mode)
    captured: list[Any] = []

    def capture(graph: Any, inputs: Any) -> Any:
        captured.extend((graph, inputs))
        return graph.forward

    with fake_mode, torch.no_grad():
        torch.compile(model, backend=capture)(placed(torch.zeros(shape), fake_mode, CUDA))
        with pytest.raises(Exception, match="async_compile") as told:
            inductor_compile(captured[0], captured[1], mode, eagers_random=True)
    return str(told.value)


@contextlib.contextmanager
def machine_code() -> Iterator[list[dict[str, Any]]]:
    import triton

    found, compile_it = [], triton.compile

    def kept(*args: Any, **kwargs: Any) -> Any:
        found.append(compile_it(*args, **kwargs))
        return found[-1]

    with mock.patch.object(triton, "compile", kept):
        yield found


@pytest.mark.parametrize(
    ("model", "mode"),
    [("mlp", "default"), ("cnn", "default"), ("bert", "default"), ("mlp", "reduce-overhead")],
)
def test_its_triton_code_becomes_ptx(h100: None, model: str, mode: str) -> None:
    from torch._inductor.codecache import PyCodeCache

    sources = re.findall(
        r"async_compile\.triton\('(\w+)', '''(.*?)'''", written(model, mode), re.DOTALL
    )
    assert sources
    with machine_code() as found:
        for name, source in sources:
            kernel = getattr(PyCodeCache.load(source), name)
            for config in kernel.configs:
                kernel._precompile_config(config)
    assert len(found) >= len(sources)
    for each in found:
        assert ".target sm_90" in each.asm["ptx"]
        assert each.asm["cubin"].startswith(b"\x7fELF")
