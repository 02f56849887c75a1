"""Backends that torch and other packages register with Dynamo."""

from typing import Any

from dynamo_ext.backends.base import CompilerFn


def torch_backends(*, debugging: bool = False) -> list[str]:
    """Names that torch lists for ``torch.compile``, entry points of others included.

    With ``debugging`` also those that torch keeps for its own tests, ``aot_eager`` among them.
    """
    import torch

    left_out = () if debugging else ("debug", "experimental")
    names: list[str] = torch._dynamo.list_backends(exclude_tags=left_out)
    return names


def torch_backend(name: str) -> CompilerFn:
    """Torch's own compiler function for a registered name (loads an entry point)."""
    from torch._dynamo.backends.registry import lookup_backend

    found: Any = lookup_backend(name)
    return found  # type: ignore[no-any-return]


def register_torch_backend(name: str, function: CompilerFn) -> None:
    """Put a compiler function into torch's registry, in the place of one with the same name."""
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS.pop(name, None)
    registry.register_backend(function, name=name)
