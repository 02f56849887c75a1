"""Our backends for a plain ``torch.compile(model, backend="dx_onnxrt", options={…})``.

Targets of the entry-point group ``torch_dynamo_backends``: torch finds them without an import
of ours in the user's code. Fallbacks are warnings there, since nobody keeps a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule


def entry(name: str) -> Callable[..., Any]:
    """The function that torch gets for the backend of a name."""

    def backend(
        graph: GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        from dynamo_ext.backends import registry
        from dynamo_ext.backends.options import mapping_of

        given = dict(mapping_of(name, options))
        if mode is not None:
            specs = registry.get(name).options
            if not any(spec.name == "mode" for spec in specs):
                message = f"{name} has no modes."
                raise OptionError(message, "Leave mode out of torch.compile.")
            given["mode"] = mode
        return registry.compiler(name, given)(graph, example_inputs)

    backend.__name__ = backend.__qualname__ = name
    backend.__doc__ = f"``torch.compile(…, backend={name!r})`` through dynamo_ext."
    return backend


eager = entry("eager")
inductor = entry("inductor")
onnxrt = entry("onnxrt")
openvino = entry("openvino")
aot_eager = entry("aot_eager")
ts = entry("ts")
ofi = entry("ofi")
nnc = entry("nnc")
tvm = entry("tvm")
tvm_meta_schedule = entry("tvm_meta_schedule")
xla = entry("xla")
xla_trivial = entry("xla_trivial")
lazy = entry("lazy")
onnx2tf = entry("onnx2tf")
cudagraphs = entry("cudagraphs")
tensorrt = entry("tensorrt")
nvfuser = entry("nvfuser")
auto = entry("auto")
