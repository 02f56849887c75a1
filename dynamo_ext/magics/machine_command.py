"""``%dynamo machine``: what this machine can do at most."""

import torch

from dynamo_ext.formatting import count
from dynamo_ext.measure.machine_limits import measure_machine
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.machine import MachineLimits
from dynamo_ext.widgets.comparison.number_text import amount, size


def machine_command() -> None:
    """Measure the processor and the current GPU, where there is one, and show what they do."""
    gpu = [torch.device("cuda", torch.cuda.current_device())] if torch.cuda.is_available() else []
    for device in (torch.device("cpu"), *gpu):
        print(_text(measure_machine(device)))  # noqa: T201 - a magic's answer


def _text(limits: MachineLimits) -> str:
    products = [f"{name} {amount(rate, 'FLOP/s')}" for name, rate in limits.products]
    reads = [f"{amount(rate, 'B/s')} of {size(read)}" for read, rate in limits.reads]
    where = f"{limits.device}, {count(limits.threads, 'thread')}, torch {limits.torch}"
    lines = [
        f"{where}:",
        f"  products of matrices: {', '.join(products)}",
        f"  memory that is read again and again: {', '.join(reads)}",
    ]
    if limits.busy_cores >= BUSY_CORES:
        lines.append(
            f"Other programs kept {limits.busy_cores:.1f} cores busy meanwhile. Measure again when "
            "the machine is idle: %dynamo machine"
        )
    return "\n".join(lines)
