"""``%dynamo machine``: what this machine can do at most, measured once."""

import torch

from dynamo_ext.backends.known_machines import remembered
from dynamo_ext.formatting import count
from dynamo_ext.magics.argument_errors import refuse
from dynamo_ext.measure.machine_limits import measure_machine
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.machine import MachineLimits
from dynamo_ext.widgets.comparison.number_text import amount, size


def machine_command(action: str = "") -> None:
    """Show what was measured; measure where nothing was, or where ``action`` is ``measure``.

    The devices are the processor and the current GPU, where there is one.

    Raises ``UsageError`` for any other action.
    """
    if action not in {"", "measure"}:
        refuse("machine")
    gpu = [torch.device("cuda", torch.cuda.current_device())] if torch.cuda.is_available() else []
    for device in (torch.device("cpu"), *gpu):
        kept = None if action else remembered(device)
        print(_text(kept or measure_machine(device)))  # noqa: T201 - a magic's answer


def _text(found: MachineLimits) -> str:
    products = [f"{name} {amount(rate, 'FLOP/s')}" for name, rate in found.products]
    reads = [f"{amount(rate, 'B/s')} of {size(read)}" for read, rate in found.reads]
    where = f"{found.device}, {count(found.threads, 'thread')}, torch {found.torch}"
    lines = [
        f"{where}, measured on {found.measured_on}:",
        f"  products of matrices: {', '.join(products)}",
        f"  memory that is read again and again: {', '.join(reads)}",
    ]
    if found.busy_cores >= BUSY_CORES:
        lines.append(
            f"Other programs kept {found.busy_cores:.1f} cores busy meanwhile, so it counts in "
            "this session alone. Measure again when the machine is idle: %dynamo machine measure"
        )
    return "\n".join(lines)
