"""What a machine does at most, and what a piece of code asks of it."""

from dataclasses import dataclass

from dynamo_ext.records.common import FULL

_WIDTHS = {"float64": 8, FULL: 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Bytes of a number."""


@dataclass(frozen=True)
class MachineLimits:
    """What one device does at most, measured with a number of threads.

    ``products`` are operations a second in large matrix products by precision, two for each
    multiplication with its addition; a precision without kernels is not in it. ``reads`` are bytes
    a second, by the number of bytes that are read again and again: few of them stay in a cache.
    Other programs kept ``busy_cores`` busy meanwhile.
    """

    device: str
    threads: int
    torch: str
    products: tuple[tuple[str, float], ...]
    reads: tuple[tuple[int, float], ...]
    busy_cores: float = 0.0

    def limit(self, work: "Work", precision: str = FULL) -> tuple[float, str] | None:
        """The fewest seconds that work can take in a precision, and what takes them.

        The roofline model (Williams, Waterman, Patterson: "Roofline", CACM 2009): nothing is faster
        than its products at the machine's rate, nor than its bytes at the rate at which so many are
        read again and again. ``None`` where there are no kernels for the precision, or no work is.
        """
        rate = dict(self.products).get(work.computed_in(precision))
        if not rate or not work.size:
            return None
        size = work.moved(precision)
        fits = (rate for known, rate in self.reads if known >= size)
        memory = size / next(fits, self.reads[-1][1]), "memory"
        return max((work.operations / rate, "products"), memory)


@dataclass(frozen=True)
class Work:
    """What one run of a piece of code asks for, whatever computes it.

    ``operations`` are those of matrix products, convolutions and attention, two for each
    multiplication with its addition. ``size`` is the bytes that move at least: each tensor from
    before the run that it reads, once, and each of its results. ``precision`` is the code's
    own, in which eager computes most of it: ``float32``, ``bf16``, ``fp16``, or torch's name of
    another dtype. ``weights`` are the bytes of parameters among ``size``.
    """

    operations: int
    size: int
    precision: str = FULL
    weights: int = 0

    def computed_in(self, precision: str) -> str:
        """A precision by its name: what lowers nothing computes in the code's own."""
        return self.precision if precision in {"", FULL} else precision

    def moved(self, precision: str) -> float:
        """The bytes that move at least where weights and tensors are of a precision.

        Engines round weights alone to int8: what they compute with is in the code's own precision.
        """
        lowered, own = (_WIDTHS.get(n, 4) for n in (self.computed_in(precision), self.precision))
        narrowed = self.weights if precision == "int8" else self.size
        return self.size - narrowed * (1 - lowered / own)
