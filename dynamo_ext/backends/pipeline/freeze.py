"""Parameters and buffers as constants of an engine, and the watch for changes of them.

A frozen weight can change behind an engine's back: an optimizer step (``_version``), a new
``.data`` (``data_ptr``), another instance of the module that shares the compiled graph
(identity). ``Watch.fresh`` looks at all three before each call, in C loops. A batch norm in
training updates its running statistics, and torch does not count that: of those it looks at the
values on the CPU, and on a device they are inputs. Nor does torch count an in-place change
*through* ``.data`` or ``.detach().numpy()``, as of a moving average of weights: of every matrix,
the largest and the smallest element are looked at.
What it cannot see is such a change that leaves those alone in all of the weights;
``freeze=false`` is for code that does that.
"""

import ctypes
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule

from dynamo_ext.backends.fx_graph import FROZEN, WithoutCode, copied, hold

_pointer = torch.Tensor.data_ptr
_version = operator.attrgetter("_version")
_value = operator.attrgetter("value")

_PART = 1 << 17
"""Elements that are looked at together."""

_WORDS = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
"""What an element of so many bytes is read as: as integers, NaN is itself."""


def _samples(weight: torch.Tensor) -> list[Any]:
    """A matrix's elements of the largest and the smallest magnitude, as they lie in memory.

    Of one dimension, the largest; of other dtypes than common floating-point ones, the first.
    """
    word = _WORDS.get(weight.element_size())
    if word is None or not weight.numel() or weight.device.type != "cpu":
        return []
    weight = weight.detach()
    places = {0}
    if weight.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        places = set(_extremes(weight)[: max(weight.ndim, 1)])
    found = []
    for place in places:
        index = np.unravel_index(place, weight.shape)
        offset = int(np.dot(index, weight.stride()))
        found.append(word.from_address(weight.data_ptr() + offset * weight.element_size()))
    return found


def _extremes(weight: torch.Tensor) -> tuple[int, int]:
    """Where the elements of the largest and the smallest magnitude are, counted row by row.

    A part at a time, which stays in the processor's caches: five times as fast as ``argmax``.
    """
    known = weight.float() if weight.dtype is torch.bfloat16 else weight
    row: Any = known.reshape(-1).resolve_neg().numpy()
    memory = np.empty(_PART, row.dtype)
    largest, smallest = [], []
    for start in range(0, len(row), _PART):
        part = row[start : start + _PART]
        sizes = np.abs(part, out=memory[: len(part)])
        places = sizes.argmax(), sizes.argmin()
        largest.append((sizes[places[0]], start + places[0]))
        smallest.append((sizes[places[1]], start + places[1]))
    values = [[size for size, _ in each] for each in (largest, smallest)]
    return int(largest[np.argmax(values[0])][1]), int(smallest[np.argmin(values[1])][1])


def _uncounted(weight: torch.Tensor) -> bool:
    """Whether a tensor may be a batch norm's statistics, which eager kernels change uncounted."""
    parameter = isinstance(weight, torch.nn.Parameter)
    return weight.ndim == 1 and weight.is_floating_point() and not parameter


def _reader(weight: torch.Tensor) -> Callable[[], object]:
    """What gives a tensor's values as they are now, in a form that is quick to compare."""
    weight = weight.detach()
    if weight.device.type == "cpu" and weight.is_contiguous() and not weight.is_neg():
        # A tensor of one element or none is contiguous whatever its strides, which a view keeps.
        row = weight.as_strided((weight.numel(),), (1,))
        buffer: Any = row.view(torch.uint8).numpy()
        return memoryview(buffer).tobytes
    return weight.tolist


def watchable(tensor: torch.Tensor) -> bool:
    """Whether changes of this tensor are seen: not of one born in inference mode.

    Nor of statistics on a device: reading their values would wait for it at each call.
    """
    return not (tensor.is_inference() or (tensor.device.type != "cpu" and _uncounted(tensor)))


class Watch:
    """Whether the weights that were frozen, by their positions in a call, are still the same."""

    def __init__(self, weights: Mapping[int, torch.Tensor]) -> None:
        positions = tuple(weights)
        # One position makes itemgetter return a bare item, so it is asked for twice.
        self._select = operator.itemgetter(*positions, positions[0])
        twice = (*weights.values(), weights[positions[0]])
        # By identity, since the watch must not keep a model alive: its owner lets go of
        # it when a weight is gone, before another object can have its place.
        self._weights = list(map(id, twice))
        self._versions = list(map(_version, twice))
        self._pointers = list(map(_pointer, twice))
        # An alias of each storage: its address cannot be handed to another tensor meanwhile.
        self._alive = [weight.detach() for weight in weights.values()]
        self._uncounted = [_reader(weight) for weight in weights.values() if _uncounted(weight)]
        self._values = [read() for read in self._uncounted]
        counted = [weight for weight in weights.values() if not _uncounted(weight)]
        self._cells = [cell for weight in counted for cell in _samples(weight)]
        self._samples = list(map(_value, self._cells))

    def fresh(self, args: Sequence[Any]) -> bool:
        """Whether the call's arguments hold the frozen weights, unchanged."""
        current = self._select(args)
        return (
            list(map(id, current)) == self._weights
            and list(map(_version, current)) == self._versions
            and list(map(_pointer, current)) == self._pointers
            and list(map(operator.call, self._uncounted)) == self._values
            and list(map(_value, self._cells)) == self._samples
        )


def frozen(
    graph: GraphModule, weights: Mapping[int, torch.Tensor], unused: Collection[int] = ()
) -> GraphModule:
    """A copy of a partition with ``weights`` as constants and without ``unused`` placeholders.

    The other placeholders keep their order. Constants are ``get_attr`` nodes with the
    placeholder's ``meta``.
    """
    result = WithoutCode(graph, copied(graph))
    placeholders = [node for node in result.graph.nodes if node.op == "placeholder"]
    for position in unused:
        result.graph.erase_node(placeholders[position])
    for count, (position, weight) in enumerate(weights.items()):
        node = placeholders[position]
        hold(result, f"{FROZEN}{count}", weight.detach().resolve_neg(), node)
        result.graph.erase_node(node)
    result.recompile()
    return result
