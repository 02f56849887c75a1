"""A row of a measurement as plain values, and back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

import cattrs


class StoredRow:
    """What a frozen dataclass gains that is kept as JSON between runs."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    def short(self, usual: StoredRow) -> dict[str, Any]:
        """The plain values that are not as usual."""
        default = usual.to_dict()
        return {name: value for name, value in self.to_dict().items() if value != default[name]}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild a row from ``to_dict`` or from its JSON."""
        return cattrs.structure(record, cls)


class ModelRow(StoredRow):
    """What a part has of each model of the zoo, and why there is nothing, where it failed."""

    model: str
    error: str

    if TYPE_CHECKING:

        def __init__(self, model: str, *, error: str = "") -> None:
            """Every row can be made so; those that are dataclasses have more fields."""
