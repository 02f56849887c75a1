"""What the tests of capture share, too."""

from __future__ import annotations

from tests.capture.conftest import _fresh

__all__ = ["_fresh"]
