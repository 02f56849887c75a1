"""What a call may change, kept until it has gone well, so that a failed one can be repeated."""

from collections.abc import Sequence
from typing import Any

import psutil
import torch

from dynamo_ext.interruptions import suppressed
from dynamo_ext.numerics.rng_state import TorchState
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.dispatch import NUMBERS

_SHARE = 0.25
"""How much of the memory that is free may go into it."""


class Undo:
    """The memory of a call's arguments and other tensors, as it is now.

    Where the call ``draws``, torch's random generators are kept, too.
    """

    def __init__(self, values: Sequence[Any], *, draws: bool) -> None:
        self._values = values
        self._tensors = [value for value in values if isinstance(value, torch.Tensor)]
        self._random = TorchState() if draws else None
        self._memory: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []
        self.possible = self._keep()

    def _keep(self) -> bool:
        """Whether all was kept; not where a value has no memory to copy, or memory is scarce."""
        known = (isinstance(v, NUMBERS) or dispatch.is_plain_tensor(v) for v in self._values)
        if not all(known):
            return False
        with suppressed(RuntimeError):
            self._facts = list(map(_facts, self._tensors))
            found = map(torch.Tensor.untyped_storage, self._tensors)
            # By way of NumPy, one storage may begin where another does, and end before it.
            storages = {(each.data_ptr(), each.nbytes()): each for each in found}
            needed = sum(storage.nbytes() for storage in storages.values())
            if needed > psutil.virtual_memory().available * _SHARE:
                return False
            with dispatch.outside_modes():
                # Not the tensors: elements may share memory, and a write would be of record.
                for each in storages.values():
                    if each.nbytes():
                        self._memory.append((each, each.clone()))  # type: ignore[no-untyped-call]
            return True
        return False

    def copies(self) -> list[Any] | None:
        """The values as they were, in memory of their own that they share as they do theirs.

        ``None`` where that cannot be done.
        """
        memory = {each.data_ptr(): kept for each, kept in self._memory}
        odd = any(t.is_conj() or t.is_neg() or t.is_quantized for t in self._tensors)
        if not self.possible or odd or len(memory) < len(self._memory):
            return None

        with dispatch.outside_modes():
            memory = {at: kept.clone() for at, kept in memory.items()}  # type: ignore[no-untyped-call]

            def copied(value: Any) -> Any:
                if not isinstance(value, torch.Tensor):
                    return value
                made = torch.empty(0, dtype=value.dtype, device=value.device)
                storage = memory.get(value.untyped_storage().data_ptr())
                if storage is None:
                    return made.reshape(value.shape)
                return made.set_(storage, value.storage_offset(), value.shape, value.stride())

            return list(map(copied, self._values))

    def drew(self) -> bool:
        """Whether random numbers were drawn since."""
        return self._random is not None and self._random.changed()

    def restore(self) -> bool:
        """Put all back as it was; false where that cannot be done, and nothing was."""
        if not self.possible or list(map(_facts, self._tensors)) != self._facts:
            return False
        with dispatch.outside_modes():
            for storage, kept in self._memory:
                storage.copy_(kept)
        if self._random is not None:
            self._random.restore()
        return True


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a write of numbers leaves as it is."""
    where = tensor.untyped_storage()
    layout = tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype
    return *layout, where.data_ptr(), where.nbytes(), tensor.requires_grad, tensor.grad_fn
