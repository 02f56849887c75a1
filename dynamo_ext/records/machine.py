"""What a machine does at most, and what a piece of code asks of it."""

from dataclasses import dataclass

from dynamo_ext.records.common import FULL


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
