"""What this machine does at most: measured in seconds, and known until the process ends."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

import torch

from dynamo_ext.backends.disk_cache import device_model
from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits
from dynamo_ext.timing import clock
from dynamo_ext.timing.machine_load import MachineLoad

Way = Callable[[int, torch.device], Callable[[], object]]
"""From the side of square matrices to a product of two of them."""

_SECONDS = 0.3
"""For each of the numbers, or a few runs."""

_FEWEST = 3

_PART = 8
"""A product of so much smaller matrices tells how long a whole one would take."""

_SIDES = {"cpu": 1024, "cuda": 8192}
"""Of square matrices, in elements; half of it where a product takes too long."""

_READ = tuple(1 << power for power in (20, 22, 24, 26, 28))
"""Bytes that are read: what fits in a core's cache, in the processor's, and in memory alone."""

_measured: dict[tuple[object, ...], MachineLimits] = {}


def measured(device: torch.device | None = None) -> MachineLimits | None:
    """What ``measure_machine`` found of a device, with as many threads and the same TF32."""
    return _measured.get(_conditions(device or torch.device("cpu")))


def _conditions(device: torch.device) -> tuple[object, ...]:
    # TF32 is many times as fast as float32 on a GPU.
    return device, torch.get_num_threads(), torch.get_float32_matmul_precision()


def measure_machine(device: torch.device | None = None) -> MachineLimits:
    """Measure what a device does (the processor, unless one is given); comparisons show it then.

    It takes some seconds, and means something on a machine that does nothing else.
    """
    device = device or torch.device("cpu")
    with MachineLoad() as company:
        products = {name: _products(ways, device) for name, ways in _PRODUCTS.items()}
        tensors = ((size, torch.ones(size // 4, device=device)) for size in _READ)
        reads = tuple((size, size / _fastest(values.sum)) for size, values in tensors)
    found = _measured[_conditions(device)] = MachineLimits(
        device=device_model(device),
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        products=tuple((name, rate) for name, rate in products.items() if rate),
        reads=reads,
        busy_cores=company.cores,
    )
    return found


def _fastest(call: Callable[[], object], share: float = 1) -> float:
    """Seconds of the fastest of several calls, which take their time or a share of it."""
    wait = clock.device_barrier()
    call()
    found: list[float] = []
    while sum(found) < share * _SECONDS or len(found) < _FEWEST:
        found.append(clock.seconds_per_call(call, 1, wait))
    return min(found)


def _products(ways: Sequence[Way], device: torch.device) -> float:
    """Operations a second of the fastest way to multiply; 0.0 where this torch has none here."""
    rates = []
    for make in ways:
        with suppress(RuntimeError, AttributeError):
            side = _SIDES[device.type]
            # Of one reading alone, a pause of a tenth of a second would leave hardly a matrix.
            expected = _fastest(make(side // _PART, device), share=1 / _PART) * _PART**3
            while expected > _SECONDS:
                side, expected = side // 2, expected / 8
            rates.append(2 * side**3 / _fastest(make(side, device)))
    return max(rates, default=0.0)


def _product(prepared: Callable[[torch.Tensor], torch.Tensor]) -> Way:
    def make(side: int, device: torch.device) -> Callable[[], object]:
        left, right = (prepared(torch.randn(side, side, device=device)) for _ in range(2))
        return lambda: torch.nn.functional.linear(left, right)

    return make


def _quantised(side: int, device: torch.device) -> Callable[[], object]:
    """A product as dynamic quantisation computes it, on a CPU."""
    with warnings.catch_warnings():
        # Torch deprecates quantised tensors, and has no other product in int8 that is fast.
        warnings.simplefilter("ignore", UserWarning)
        weight = torch.quantize_per_tensor(torch.randn(side, side), 0.1, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(weight, None)
    given = torch.randn(side, side, device=device)
    return lambda: torch.ops.quantized.linear_dynamic(given, packed)


_PRODUCTS: dict[str, Sequence[Way]] = {
    # OneDNN uses AVX-512 where MKL, called by eager, does not.
    FULL: (_product(torch.Tensor.float), _product(torch.Tensor.to_mkldnn)),
    "bf16": (_product(torch.Tensor.bfloat16),),
    "fp16": (_product(torch.Tensor.half),),
    "int8": (_quantised,),
}
