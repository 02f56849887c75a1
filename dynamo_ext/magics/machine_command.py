"""``%dynamo machine``: what this machine can do at most, measured once."""

import torch

from dynamo_ext.backends.known_machines import remembered
from dynamo_ext.formatting import count, seconds
from dynamo_ext.magics.argument_errors import refuse
from dynamo_ext.measure.machine_limits import measure_machine
from dynamo_ext.records.machine import MachineLimits
from dynamo_ext.timing.machine_load import MachineLoad
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
        found = None if action else remembered(device)
        print(_text(found) if found else _measured(device))  # noqa: T201 - a magic's answer


def _measured(device: torch.device) -> str:
    with MachineLoad() as company:
        text = _text(measure_machine(device))
    if not company.sentence:
        return text
    return f"{text}\n{company.sentence} Measure again when it is idle: %dynamo machine measure"


def _text(found: MachineLimits) -> str:
    products = [f"{name} {amount(rate, 'FLOP/s')}" for name, rate in found.products]
    reads = [f"{amount(rate, 'B/s')} of {size(read)}" for read, rate in found.reads]
    where = f"{found.device}, {count(found.threads, 'thread')}, torch {found.torch}"
    lines = [
        f"{where}, measured on {found.measured_on}:",
        f"  products of matrices: {', '.join(products)}",
        f"  memory that is read again and again: {', '.join(reads)}",
        f"  one operation in eager: {seconds(found.call_seconds)}",
    ]
    return "\n".join(lines)
