"""``tensorrt``: torch_tensorrt's Dynamo backend, its options checked. Not verified on a GPU.

torch_tensorrt drops options that it does not know without a word, and turns a failed build into
eager execution; here the first are errors and the second is a recorded fallback. Its
``require_full_compilation`` is no option here: under ``torch.compile`` it has no effect.

Names of modules, settings and the backend were read in the wheel of torch_tensorrt 2.13.0.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib import metadata
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.base import VERIFY_GRAPH, OptionSpec, Support
from dynamo_ext.errors import OptionError
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options

_OURS = ("verify", "precision", "torch_executed_ops", "optimization_level")


class TensorRtBackend:
    """Takes the captured graph whole; torch_tensorrt converts what it can of it."""

    name = "tensorrt"
    summary = "NVIDIA TensorRT through torch_tensorrt"
    extra = "tensorrt"
    whole_graph = True
    options: Sequence[OptionSpec] = (
        OptionSpec(
            "precision", "model", "lowest precision to compute in", ("model", "float16", "bfloat16")
        ),
        OptionSpec("min_block_size", 5, "fewest operations that become an engine", least=0),
        OptionSpec("optimization_level", -1, "TensorRT's, 0 to 5; -1 leaves it to TensorRT"),
        OptionSpec(
            "workspace_size", 0, "bytes that a build may use; 0 means all there are", least=0
        ),
        OptionSpec("torch_executed_ops", "", "operators to leave to torch, separated by commas"),
        OptionSpec("truncate_double", default=False, help="compute float64 in float32"),
        OptionSpec("cache_built_engines", default=False, help="store engines on disk"),
        OptionSpec("reuse_cached_engines", default=False, help="take engines from disk"),
        VERIFY_GRAPH,
    )

    def probe(self) -> Availability:
        """The package, made for this very torch, and a CUDA device."""
        import torch

        minor = _minor(torch.__version__)
        if importlib.util.find_spec("torch_tensorrt") is None:
            reason = "torch_tensorrt is not installed."
            if not torch.cuda.is_available():
                reason += " Nor does torch see a CUDA device."
            return _no(reason, f'pip install "torch-tensorrt=={minor}.*", on an NVIDIA GPU.')
        version = metadata.version("torch-tensorrt")
        if _minor(version) != minor:
            reason = f"torch_tensorrt {version} is made for torch {_minor(version)}, not {minor}."
            return _no(reason, f'pip install "torch-tensorrt=={minor}.*"')
        if not torch.cuda.is_available():
            reason = "TensorRT needs a CUDA device, and torch sees none."
            return _no(reason, "Run on a machine with an NVIDIA GPU and a CUDA build of torch.")
        return Availability(available=True, version=version, device="cuda:0")

    def supports(self, node: Node) -> Support:  # noqa: ARG002
        """torch_tensorrt cuts the graph up itself."""
        return Support(supported=True)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Import torch_tensorrt, which registers its backend, and compile with that."""
        import dataclasses

        # The import registers its backend with torch.
        theirs = importlib.import_module("torch_tensorrt.dynamo")
        known = {field.name for field in dataclasses.fields(theirs.CompilationSettings)}
        settings = translated(options, known)
        compiler: Any = torch_private.torch_backend("torch_tensorrt")
        compiled: CompiledFn = compiler(graph, example_inputs, options=settings)
        return compiled


def translated(options: Options, known: Collection[str]) -> dict[str, Any]:
    """Our options as torch_tensorrt's.

    Parameters
    ----------
    options
        Resolved options of this backend.
    known
        The settings that the installed torch_tensorrt has.

    Raises
    ------
    OptionError
        Where it lacks one that is asked for: it would drop it without a word.
    """
    import torch

    settings: dict[str, Any] = {"pass_through_build_failures": True}
    defaults = {spec.name: spec.default for spec in TensorRtBackend.options}
    settings.update(
        (name, value)
        for name, value in options.items()
        if name not in _OURS and value != defaults[name]
    )
    settings["min_block_size"] = options.get("min_block_size", defaults["min_block_size"])
    precision = options.get("precision", "model")
    if precision != "model":
        settings["enable_autocast"] = True
        settings["autocast_low_precision_type"] = getattr(torch, str(precision))
    level = options.get("optimization_level", -1)
    if level != -1:
        settings["optimization_level"] = level
    kept = {name.strip() for name in str(options.get("torch_executed_ops", "")).split(",")} - {""}
    if kept:
        settings["torch_executed_ops"] = kept
    missing = sorted(set(settings) - set(known))
    if missing:
        message = f"This torch_tensorrt has no setting {', '.join(missing)}."
        raise OptionError(message, "Leave the option out, or install the one for this torch.")
    return settings


def _minor(version: str) -> str:
    return ".".join(version.partition("+")[0].split(".")[:2])


def _no(reason: str, remedy: str) -> Availability:
    return Availability(available=False, reason=reason, remedy=remedy)


BACKEND = TensorRtBackend()
