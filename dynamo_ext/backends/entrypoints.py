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


def _entry(name: str) -> Callable[..., Any]:
    def backend(
        graph: GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        from dynamo_ext.backends import registry

        given = dict(options or {})
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


eager = _entry("eager")
inductor = _entry("inductor")
onnxrt = _entry("onnxrt")
openvino = _entry("openvino")
aot_eager = _entry("aot_eager")
ts = _entry("ts")
ofi = _entry("ofi")
nnc = _entry("nnc")
tvm = _entry("tvm")
tvm_meta_schedule = _entry("tvm_meta_schedule")
xla = _entry("xla")
xla_trivial = _entry("xla_trivial")
lazy = _entry("lazy")
onnx2tf = _entry("onnx2tf")
cudagraphs = _entry("cudagraphs")
tensorrt = _entry("tensorrt")
nvfuser = _entry("nvfuser")
