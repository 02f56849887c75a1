"""``nnc``: TorchScript with its tensor-expression compiler. Not verified on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.torchscript import torch_private
from dynamo_ext.backends.engines.torchscript.backend import TorchScriptBackend
from dynamo_ext.records.common import Availability

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.fx import GraphModule

    from dynamo_ext.backends.base import CompiledFn, Options

WARM_CALLS = 4
"""Calls in which TorchScript profiles and then compiles; later ones only run."""


class NncBackend(TorchScriptBackend):
    """TorchScript with its tensor-expression fuser (NNC). Not verified on a GPU."""

    name = "nnc"
    summary = "TorchScript with NNC, its tensor-expression compiler"
    races = False

    def probe(self) -> Availability:
        """NNC compiles with LLVM on a CPU and with NVRTC on a GPU; else it only interprets."""
        import torch

        if torch.cuda.is_available():
            return Availability(available=True, version=torch.__version__, device="cuda:0")
        if torch_private.llvm_enabled():
            return Availability(available=True, version=torch.__version__, device="cpu")
        reason = f"torch {torch.__version__} is built without LLVM and sees no CUDA device."
        remedy = "Use a torch built with USE_LLVM, or a machine with an NVIDIA GPU."
        return Availability(available=False, reason=reason, remedy=remedy)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """As ``ts``; the fuser is on while TorchScript profiles and compiles, and only then."""
        return _Fused(super().lower(graph, example_inputs, options))


class _Fused:
    """Runs the first calls with NNC switched on, so that TorchScript compiles with it."""

    def __init__(self, run: CompiledFn) -> None:
        self._run = run
        self._left = WARM_CALLS

    def __call__(self, *args: Any) -> Sequence[Any]:
        if not self._left:
            return self._run(*args)
        self._left -= 1
        with torch_private.nnc_fuser():
            return self._run(*args)


BACKEND = NncBackend()
