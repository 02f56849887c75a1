"""The Lazy Tensor backend in torch's wheels."""

import functools
from collections.abc import Callable

import torch


def has_lazy() -> bool:
    """Whether this torch was built with Lazy Tensor Core's TorchScript backend."""
    return hasattr(torch._C, "_lazy_ts_backend")


@functools.cache
def lazy_start() -> None:
    """Register the kernels of the device ``lazy``, once in a process."""
    start: Callable[[], None] = torch._C._lazy_ts_backend._init
    start()


def lazy_step() -> None:
    """Compute every lazy tensor that is pending, and wait for it.

    A failure is raised here, and again in the next call that waits.
    """
    torch._C._lazy._mark_step("", [], True)  # noqa: FBT003 - device, devices, wait


def lazy_eager_calls() -> dict[str, int]:
    """How often Lazy Tensor Core has run each operator eagerly for want of a lowering."""
    lazy = torch._C._lazy
    names = [name for name in lazy._counter_names() if name.startswith("aten::")]
    return {name: int(lazy._counter_value(name)) for name in names}


def has_lazy_kernel(name: str) -> bool:
    """Whether an operator (``aten::add.Tensor``) has a lazy kernel, or is made of others.

    A view has none: it is computed as its copying twin (``aten::view_copy``).
    """
    keys = (
        "Lazy",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional",
    )
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    packet, dot, overload = name.partition(".")
    twin = f"{packet}_copy{dot}{overload}"
    known = set(torch._C._dispatch_get_all_op_names())
    return any(has(each, key) for each in (name, twin) if each in known for key in keys)
