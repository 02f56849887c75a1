"""A torch that starts clean, and a backend that does as told."""

from __future__ import annotations

from tests.backends.conftest import _fresh, harness, scripted, scripted_dynamic

__all__ = ["_fresh", "harness", "scripted", "scripted_dynamic"]
