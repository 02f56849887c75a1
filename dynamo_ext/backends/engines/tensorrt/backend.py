"""``tensorrt``: torch_tensorrt's Dynamo backend, its settings as options. Not verified on a GPU.

torch_tensorrt drops settings that it does not know without a word, and turns a failed build into
eager execution; here the first are errors and the second is a recorded fallback. Its networks are
typed as the graph is, so a lower precision is torch's autocast, as of other whole graphs.

Names of modules, settings and the backend were read in the wheel of torch_tensorrt 2.13.0.
"""

import ast
import dataclasses
import difflib
import importlib
import importlib.util
from collections.abc import Collection, Sequence
from importlib import metadata
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import base, precision
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.errors import OptionError
from dynamo_ext.records.common import Availability, OptionSpec
from dynamo_ext.torch_private import version as torch_version


class TensorRtBackend(base.WholeGraphBackend):
    """Takes the captured graph whole; torch_tensorrt converts what it can of it."""

    name = "tensorrt"
    summary = "NVIDIA TensorRT through torch_tensorrt"
    races = True
    extra = "tensorrt"
    options: Sequence[OptionSpec] = (
        OptionSpec("*", "", "any field of torch_tensorrt.dynamo.CompilationSettings"),
        *precision.BY_AUTOCAST,
        base.VERIFY_GRAPH,
    )

    def probe(self) -> Availability:
        """The package, made for this very torch, and a CUDA device."""
        minor = torch_version.minor(torch.__version__)
        if importlib.util.find_spec("torch_tensorrt") is None:
            reason = "torch_tensorrt is not installed."
            if not torch.cuda.is_available():
                reason += " Nor does torch see a CUDA device."
            remedy = f'pip install "torch-tensorrt=={minor}.*", on an NVIDIA GPU.'
            return base.unavailable(reason, remedy)
        version = metadata.version("torch-tensorrt")
        made_for = torch_version.minor(version)
        if made_for != minor:
            reason = f"torch_tensorrt {version} is made for torch {made_for}, not {minor}."
            return base.unavailable(reason, f'pip install "torch-tensorrt=={minor}.*"')
        if not torch.cuda.is_available():
            reason = "TensorRT needs a CUDA device, and torch sees none."
            remedy = "Run on a machine with an NVIDIA GPU and a CUDA build of torch."
            return base.unavailable(reason, remedy)
        return Availability(available=True, version=version, device="cuda:0")

    def lower(
        self, graph: GraphModule, example_inputs: base.Inputs, options: base.Options
    ) -> base.CompiledFn:
        """Import torch_tensorrt, which registers its backend, and compile with that."""
        # The import registers its backend with torch.
        theirs = importlib.import_module("torch_tensorrt.dynamo")
        known = {field.name for field in dataclasses.fields(theirs.CompilationSettings)}
        settings = translated(options, known)
        return aot.compile_by_aot("torch_tensorrt", graph, example_inputs, options=settings)


def translated(options: base.Options, names: Collection[str]) -> dict[str, Any]:
    """Our options as torch_tensorrt's: all but ours, text as the value that it writes.

    ``names`` are the settings that the installed torch_tensorrt has. Raises ``OptionError`` where
    it lacks one that is asked for: it would drop it without a word.
    """
    ours = {spec.name for spec in (*precision.BY_AUTOCAST, base.VERIFY_GRAPH)}
    given = {name: _value(value) for name, value in options.items() if name not in ours}
    settings = {"pass_through_build_failures": True, **given}
    missing = sorted(set(settings) - set(names))
    if missing:
        near = difflib.get_close_matches(missing[0], names, n=1)
        message = f"This torch_tensorrt has no setting {', '.join(missing)}."
        raise OptionError(message, f"Did you mean {near[0]}?" if near else "Leave the option out.")
    return settings


def _value(given: Any) -> Any:
    """What a text from a command line writes: a dtype's name, a literal of Python, or itself."""
    if not isinstance(given, str):
        return given
    if isinstance(getattr(torch, given, None), torch.dtype):
        return getattr(torch, given)
    try:
        return ast.literal_eval(given.title() if given in ("true", "false") else given)
    except (SyntaxError, ValueError):
        return given


BACKEND = TensorRtBackend()
