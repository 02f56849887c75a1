"""Numbers of a comparison as text: sizes, errors, similarities."""

import math

NONE = "–"
"""The text of a value that is missing."""

_KIB = 1024
_CLOSE = 1e-4


def size(value: float) -> str:
    """Write bytes with the unit that suits them (``4.0 KiB``)."""
    if abs(value) < _KIB:
        return f"{value:,.0f} B"
    power = min(int(math.log(abs(value), _KIB)), 3)
    return f"{value / _KIB**power:.1f} {'KMG'[power - 1]}iB"


def amount(value: float, unit: str) -> str:
    """Write a large number with the prefix that suits it (``14.5 GFLOP``, ``9.2 GB/s``)."""
    value = float(f"{value:.3g}")
    power = min(int(math.log10(value)) // 3, 5) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {['', 'k', 'M', 'G', 'T', 'P'][power]}{unit}"


def cosine(value: float) -> str:
    """Write a similarity so that its distance from 1 can be read (``1 − 2.3e-09``)."""
    if math.isnan(value):
        return NONE
    if value >= 1:
        return "1"
    return f"1 − {1 - value:.1e}" if 1 - value < _CLOSE else f"{value:.6f}"


def decibels(value: float | None) -> str:
    """Write a ratio of signal to noise (``52.3 dB``)."""
    return NONE if value is None else f"{value:.1f} dB"


def share(value: float | None) -> str:
    """Write a part of all with a digit behind the point (``99.6 %``)."""
    return NONE if value is None else f"{100 * value:.1f} %"


def error(value: float) -> str:
    """Write an error with two digits."""
    return NONE if math.isnan(value) else "0" if not value else f"{value:.1e}"
