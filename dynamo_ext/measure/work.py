"""What a run of some code asks of the machine, counted in one more run in eager."""

from collections.abc import Callable
from typing import Any

import torch

from dynamo_ext.interruptions import pass_on
from dynamo_ext.measure.accuracy import Results
from dynamo_ext.records.machine import Work
from dynamo_ext.torch_private.work import count_work


def work_of(call: Callable[[], Any], results: Callable[[], Results]) -> Work | None:
    """Run ``call`` and count; ``results`` are then what it gave. ``None`` where it raises."""
    try:
        operations, size, calls = count_work(call)
        found = results().values()
    except Exception as error:  # noqa: BLE001 - not every code runs under such a counter
        pass_on(error)
        return None
    size += sum(each.nbytes for each in found if isinstance(each, torch.Tensor))
    return Work(operations, size, calls)
