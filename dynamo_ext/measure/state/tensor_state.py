"""One tensor's content, memory, gradient and precision, to be put back in place."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_SEEDS = 1_000  # for each tensor seeds of its own
_UNITS = 4  # of the last digit at most, as the rounding of several layers adds up to
_SHAKEN = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

GRADIENT = ".grad"
"""After a tensor's path, that of its gradient."""


class TensorState:
    """What a dense tensor holds now; its ``content`` is cloned.

    Raises ``RuntimeError`` or ``NotImplementedError`` for tensors that cannot be copied (on the
    meta device, of a subclass that refuses).
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided or tensor.is_meta:
            message = f"a tensor that is {tensor.layout} on {tensor.device} is not put back"
            raise NotImplementedError(message)
        self.tensor = tensor
        # Shares memory with the tensor for as long as the tensor is not given other memory.
        self._memory = tensor.data
        self.content = tensor.detach().clone()
        self._grad = tensor.grad if tensor.is_leaf else None
        self._requires_grad = tensor.requires_grad
        self._version = _version(tensor)

    def content_changed(self, *, thorough: bool) -> bool:
        """Whether content or memory is another.

        Without ``thorough`` the content counts as unchanged where the version counter is
        the same, as it is after writes through ``.data`` and NumPy.
        """
        tensor = self.tensor
        if _layout(tensor) != _layout(self._memory):
            return True
        if not thorough and _version(tensor) == self._version:
            return False
        return not _equal(tensor.detach(), self.content)

    def gradient_changed(self) -> bool:
        """Whether the gradient is another tensor, or gone; not whether its content changed."""
        return self.tensor.is_leaf and self.tensor.grad is not self._grad

    def restore(self, *, thorough: bool) -> bool:
        """Put memory, content and gradient back where they changed; whether they had."""
        tensor = self.tensor
        required = tensor.is_leaf and tensor.requires_grad != self._requires_grad
        another = self.gradient_changed()
        if not (required or another or self.content_changed(thorough=thorough)):
            return False
        if another:
            # Its shape may be that of the memory which is put back first.
            tensor.grad = None
        if required:
            tensor.requires_grad_(self._requires_grad)
        if _layout(tensor) != _layout(self._memory):
            tensor.data = self._memory
        if not _equal(tensor.detach(), self.content):
            # Not through .data: code that froze this tensor must see that it was written to.
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                tensor.detach().copy_(self.content)
        if another:
            tensor.grad = self._grad
        self._version = _version(tensor)
        return True


class UninitializedState:
    """A parameter or buffer of a lazy module that has no shape yet, to be put back so."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._kind = type(tensor)
        self._memory = tensor.data

    @property
    def initialized(self) -> bool:
        """Whether a call of its module has given it a shape since."""
        return type(self.tensor) is not self._kind

    def restore(self) -> bool:
        """Take shape, content and gradient away; whether it had any."""
        if not self.initialized:
            return False
        self.tensor.grad = None
        self.tensor.data = self._memory
        self.tensor.__class__ = self._kind
        return True


@contextlib.contextmanager
def precision(tensors: Iterable[torch.Tensor], dtype: torch.dtype) -> Iterator[None]:
    """Hold every floating tensor in ``dtype`` for the block, as ``Module.to`` would.

    Integer and complex ones stay as they are. Tensors that the code makes itself come in torch's
    default dtype, which stays: random numbers drawn at another precision would be other numbers.
    """
    # A gradient is held so, too, before it is given back: torch takes none of another dtype.
    given = [each for each in tensors if each.is_leaf]
    grads = [each.grad for each in given if each.grad is not None]
    leaves = {id(each): each for each in [*given, *grads] if each.is_leaf}
    kept = [
        (each, each.data, each.grad)
        for each in leaves.values()
        if each.is_floating_point() and each.dtype != dtype
    ]
    try:
        for tensor, data, _grad in kept:
            tensor.grad, tensor.data = None, data.to(dtype)
        for tensor, _data, grad in kept:
            if grad is not None and grad.dtype == dtype:
                tensor.grad = grad
        yield
    finally:
        for tensor, data, _grad in kept:
            tensor.grad, tensor.data = None, data
        for tensor, _data, grad in kept:
            tensor.grad = grad


def shake(tensors: Iterable[torch.Tensor], seed: int, times: int = 1) -> None:
    """Give leaves of common floating dtypes other memory, with elements smaller by a few roundings.

    ``times`` as many: the steps of a loop add up theirs. Their own memory is not written: it may be
    a file's. No element grows, so that probabilities stay within 0 and 1; zero stays zero.
    """
    for place, tensor in enumerate(tensors):
        if tensor.is_leaf and tensor.dtype in _SHAKEN:
            draws = torch.Generator(tensor.device).manual_seed(seed + _SEEDS * place)
            content = tensor.detach().clone()
            less = torch.rand(content.shape, generator=draws, device=content.device)
            tensor.data = content - (
                content * torch.finfo(tensor.dtype).eps * _UNITS * times * less
            ).to(tensor.dtype)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else int(tensor._version)  # noqa: SLF001 - public in effect


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same values, NaN for NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype is not torch.complex32 and torch.equal(one, other):
        return True
    if not (one.is_floating_point() or one.is_complex()):
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())
