"""``nvfuser``: NVIDIA's nvFuser, which no torch has that this package needs.

TorchScript's own is gone; lightning-thunder is the one way to it that is left, and 0.2.6 does not
import on torch 2.13. nvFuser has wheels for torch 2.8 to 2.10.
"""

import torch

from dynamo_ext.backends.base import WholeGraphBackend, unavailable
from dynamo_ext.records.common import Availability
from dynamo_ext.torch_private.version import minor


class NvFuserBackend(WholeGraphBackend):
    """Says why it is not there."""

    name = "nvfuser"
    summary = "NVIDIA nvFuser through lightning-thunder"

    def probe(self) -> Availability:
        """It has no wheel for this torch."""
        here = minor(torch.__version__)
        reason = f"Neither nvFuser nor lightning-thunder is made for torch {here}."
        remedy = "Use inductor: nvFuser has wheels for torch 2.10 at most."
        return unavailable(reason, remedy)


BACKEND = NvFuserBackend()
