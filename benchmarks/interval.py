"""A ratio with its interval, as every page writes it."""

from __future__ import annotations


def told(ratio: float, low: float, high: float) -> str:
    """``1.87 (1.81–1.93)``.

    Parameters
    ----------
    ratio
        Of two times.
    low, high
        Its 95 % interval.
    """
    return f"{ratio:.2f} ({low:.2f}–{high:.2f})"
