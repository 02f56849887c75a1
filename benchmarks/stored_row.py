"""A row of a measurement as plain values, and back."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import cattrs


class StoredRow:
    """What a frozen dataclass gains that is kept as JSON between runs."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild a row from ``to_dict`` or from its JSON."""
        return cattrs.structure(record, cls)
