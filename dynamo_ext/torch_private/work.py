"""What a piece of code asks of the machine, counted operation by operation as it runs in eager."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

_LOOKUPS = frozenset({"embedding", "_embedding_bag", "gather", "index", "index_select"})
"""Operations that read as much of their first tensor as they return."""


_LAYERS = ("_transformer_encoder_layer", "_native_multi_head_attention")
"""Operations that have several products inside."""


class Count(NamedTuple):
    """What a run asks for: operations of products, bytes read, a dtype, bytes of weights."""

    operations: int
    size: int
    dtype: torch.dtype
    weights: int


def count_work(call: Callable[[], object]) -> Count:
    """Run ``call`` once and count.

    Two operations for each multiplication with its addition, in matrix products, convolutions,
    attention and recurrent layers. The bytes are those of each tensor that an operation reads and
    none has made, once. The dtype is that of most operations of products, or of the floating
    numbers that are read where there are none. Weights are what is read of parameters.
    """
    found = _Counter()
    with found:
        call()
    return Count(found.products.total(), found.size, found.dtype, found.weights)


def precision_of(dtype: torch.dtype) -> str:
    """What records call a dtype: ``bf16``, ``fp16``, or torch's own name."""
    name = str(dtype).removeprefix("torch.")
    return {"bfloat16": "bf16", "float16": "fp16"}.get(name, name)


def products_in(dtype: torch.dtype, call: Callable[[], object]) -> int | None:
    """Run ``call`` once: operations of the products among it whose operands are of a dtype.

    ``None`` where a whole layer is one operation: its products have dtypes of their own.
    """
    found = _Counter()
    with found:
        call()
    return None if found.has_layers else found.products[dtype]


def product_operations(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Operations of one product, by its tensors; 0 for what is none."""
    formula = _formula(getattr(func, "overloadpacket", None))
    return int(formula(*args, **kwargs, out_val=result)) if formula else 0


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that compute, and the bytes of what they read from before."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.has_layers = False
        self.products: Counter[torch.dtype] = Counter()
        # A reference, which frees no number for another storage, and how much of it was read.
        self._made: dict[int, Any] = {}
        self._read: dict[int, tuple[Any, int]] = {}
        self._looked_up = 0
        self._parameters: set[int] = set()
        self._numbers: Counter[torch.dtype] = Counter()

    @property
    def dtype(self) -> torch.dtype:
        """What most products are computed in, or most floating numbers are."""
        most = (self.products or self._numbers).most_common(1)
        return most[0][0] if most else torch.float32

    @property
    def weights(self) -> int:
        """Bytes of parameters among them."""
        return sum(size for key, (_, size) in self._read.items() if key in self._parameters)

    @property
    def size(self) -> int:
        """Bytes of what was read and not made."""
        return self._looked_up + sum(size for _, size in self._read.values())

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation, and count it."""
        kwargs = kwargs or {}
        # Where a fake tensor is, is an operation of its own.
        if func.namespace == "prim":
            return func(*args, **kwargs)
        # Where no gradient is recorded, torch hands over what it would take apart.
        if _formula(func.overloadpacket) is None and func._can_decompose():
            with self:
                return func.decompose(*args, **kwargs)
        result = func(*args, **kwargs)
        given = list(_tensors((*args, *kwargs.values())))
        # Most weights are read by way of a view.
        weights = (each for each in given if isinstance(each, torch.nn.Parameter))
        self._parameters.update(each.untyped_storage()._cdata for each in weights)
        if not func.is_view:
            self.has_layers |= func.overloadpacket.__name__.startswith(_LAYERS)
            if products := product_operations(func, args, kwargs, result):
                self.products[given[0].dtype] += products
            self._move(func.overloadpacket.__name__, given, list(_tensors([result])))
        return result

    def _move(self, name: str, given: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        for each in filter(torch.is_floating_point, given):
            self._numbers[each.dtype] += each.nbytes
        if name in _LOOKUPS:
            source, *given = given
            if source.untyped_storage()._cdata not in self._made:
                self._looked_up += min(source.nbytes, sum(each.nbytes for each in made))
        for each in given:
            storage = each.untyped_storage()
            if storage._cdata not in self._made:
                _, known = self._read.get(storage._cdata, (None, 0))
                size = min(max(each.nbytes, known), storage.nbytes())
                self._read[storage._cdata] = _weakly(storage), size
        for each in made:
            storage = each.untyped_storage()
            if storage._cdata not in self._read:
                self._made[storage._cdata] = _weakly(storage)


def _weakly(storage: torch.UntypedStorage) -> Any:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _formula(packet: Any) -> Callable[..., int] | None:
    return _formulas().get(packet) or flop_counter.flop_registry.get(packet)


@functools.cache
def _formulas() -> dict[Any, Callable[..., int]]:
    """Of operations on a CPU that torch's own counter does not know."""
    aten = torch.ops.aten
    by_shape = {
        aten._scaled_dot_product_flash_attention_for_cpu: _attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
        aten.mkldnn_rnn_layer: _recurrent,
        aten.mkldnn_rnn_layer_backward: lambda *shapes, **_: 2 * _recurrent(*shapes),
    }
    return {
        aten._native_multi_head_attention: _attention_layer,
        aten._transformer_encoder_layer_fwd: _encoder_layer,
        **{packet: flop_counter.shape_wrapper(formula) for packet, formula in by_shape.items()},  # type: ignore[no-untyped-call]
    }


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(flop_counter.sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]


def _attention_backward(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(flop_counter.sdpa_backward_flop_count(grad, query, key, value))  # type: ignore[no-untyped-call]


def _attention_layer(query: Any, key: Any, *given: Any, **_: Any) -> int:
    """The products of a whole layer of attention; of ``given``, its weights are [3] and [5]."""
    lengths = zip(_lengths(query), _lengths(key), strict=True)
    between = 4 * query.size(-1) * sum(one * other for one, other in lengths)
    return int(2 * sum(_lengths(query)) * (given[3].numel() + given[5].numel()) + between)


def _encoder_layer(source: Any, *given: Any, **_: Any) -> int:
    """The products of a whole encoder layer: attention, and two that follow it."""
    follow = given[13].numel() + given[15].numel()
    return _attention_layer(source, source, source, *given) + int(
        2 * sum(_lengths(source)) * follow
    )


def _lengths(batch: Any) -> list[int]:
    """Steps of each sequence: where a mask leaves steps out, torch has a nested tensor."""
    if batch.is_nested:
        return [each.size(0) for each in batch.unbind()]
    return [batch.size(1)] * batch.size(0)


def _recurrent(given: Any, by_input: Any, by_state: Any, *_: Any, **__: Any) -> int:
    steps, batch, _ = given
    return int(2 * steps * batch * (math.prod(by_input) + math.prod(by_state)))
