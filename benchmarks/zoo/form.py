"""At which size, and on which device, a model of the zoo is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import argparse

LARGER = 16
"""How many times the usual batch the large form has."""


@dataclass(frozen=True)
class Form:
    """What a model is built as.

    Attributes
    ----------
    size
        ``tiny`` for tests, ``usual`` for two cores, ``large`` for bigger machines.
    device
        Of weights and arguments, as torch names it.
    """

    size: Literal["tiny", "usual", "large"] = "usual"
    device: str = "cpu"

    @classmethod
    def of(cls, given: argparse.Namespace) -> Form:
        """From a command line with ``add_arguments``."""
        size: Literal["tiny", "usual", "large"] = "large" if given.full else "usual"
        return cls("tiny" if given.quick else size, given.device)

    @property
    def tiny(self) -> bool:
        """Whether its numbers are for tests alone."""
        return self.size == "tiny"

    @property
    def special(self) -> bool:
        """Whether it is on another device, or larger than usual, as only the zoo can be."""
        return self.device != "cpu" or self.size == "large"

    @property
    def words(self) -> list[str]:
        """The same for the command line of another process."""
        size = {"tiny": ["--quick"], "usual": [], "large": ["--full"]}[self.size]
        return [*size, *([] if self.device == "cpu" else ["--device", self.device])]

    @property
    def suffix(self) -> str:
        """What the names of its files end with: nothing for the usual size on a CPU."""
        device = "" if self.device == "cpu" else f"-{self.device.replace(':', '')}"
        return device + {"tiny": "-quick", "usual": "", "large": "-full"}[self.size]


TINY, USUAL = Form("tiny"), Form()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Let a command line say which form."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="tiny forms")
    size.add_argument("--full", action="store_true", help=f"{LARGER} times the usual batches")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1, for instance")
