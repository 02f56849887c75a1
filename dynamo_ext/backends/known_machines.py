"""What devices do at most, as it was measured, on disk or in this process."""

import dataclasses
import json
import time

import torch

from dynamo_ext.backends.disk_cache import Table, device_model
from dynamo_ext.errors import RecordFormatError
from dynamo_ext.records.common import checked, plain
from dynamo_ext.records.machine import MachineLimits


class Machines(Table):
    """A row for each device, number of threads and torch."""

    name = "machines"


_of_this_process: dict[tuple[str, str], MachineLimits] = {}


def remember(found: MachineLimits, device: torch.device, *, on_disk: bool = True) -> None:
    """Keep what was measured on a device, with the threads, torch and TF32 of this moment.

    Not ``on_disk``, it counts in this process alone.
    """
    if not on_disk:
        _of_this_process[place(device)] = found
        return
    _of_this_process.pop(place(device), None)
    text = json.dumps(dataclasses.asdict(found))
    Machines().keep([(*place(device), text, time.time())])


def remembered(device: torch.device | None = None) -> MachineLimits | None:
    """What was measured on this device, with as many threads, torch and its TF32."""
    where = place(device or torch.device("cpu"))
    if where in _of_this_process:
        return _of_this_process[where]
    rows = Machines().rows("key = ? AND place = ?", *where)
    try:
        return checked(MachineLimits, plain(str(rows[0][2]))) if rows else None
    except RecordFormatError:
        return None


def forget() -> int:
    """Drop what was measured, of every device; how many there were."""
    here = len(_of_this_process)
    _of_this_process.clear()
    return Machines().clear() + here


def place(device: torch.device) -> tuple[str, str]:
    """The key and the place of a device's row."""
    # TF32 is many times as fast as float32 on a GPU.
    products = f"{torch.get_float32_matmul_precision()} precision"
    return (
        device_model(device),
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, {products}",
    )
