"""The line by which a program compiles a model as a cell, or a comparison, compiled its code."""

from typing import Any

from dynamo_ext.backends import registry, user_backends
from dynamo_ext.backends.compiler import Compiler


def program_line(compiler: Any, dynamic: bool | None = None) -> str:  # noqa: FBT001 - as torch has it
    """As ``torch.compile(model, backend="dx_onnxrt", dynamic=True, options={"threads": 1})``.

    Empty for eager, and for what ``torch.compile`` knows by no name of ours.
    """
    if not isinstance(compiler, Compiler):
        return ""
    name = compiler.backend.name
    if name == "eager" or not (name in registry.OURS or name in user_backends.registered):
        return ""
    usual = {spec.name: spec.default for spec in compiler.backend.options}
    options = {key: value for key, value in compiler.options.items() if value != usual.get(key)}
    words = ["model", f'backend="dx_{name}"']
    words += [] if dynamic is None else [f"dynamic={dynamic}"]
    words += [f"options={options}"] if options else []
    return f"torch.compile({', '.join(words)})"
