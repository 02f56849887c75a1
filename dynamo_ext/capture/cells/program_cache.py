"""Cell programs kept by their text: the same text finds its compiled code again.

A notebook cell that is edited lets go of its former text, unless another cell has it too.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.cells.runner import CellState
from dynamo_ext.capture.listen import eager_frames

MOST_PROGRAMS = 128


class ProgramCache:
    """Programs by text, and which cell last ran which text."""

    def __init__(self, most: int = MOST_PROGRAMS) -> None:
        self._most = most
        self._states: OrderedDict[Hashable, CellState] = OrderedDict()
        self._text_of_cell: dict[str, Hashable] = {}

    def __len__(self) -> int:
        return len(self._states)

    def find(
        self, key: Hashable, cell_id: str | None, build: Callable[[], CellProgram]
    ) -> CellState:
        """The state for this text, built where it is new.

        Without a ``cell_id`` (a terminal), texts are let go only beyond ``most``.
        """
        state = self._states.get(key)
        if state is None:
            state = CellState(build())
        if cell_id is not None:
            former = self._text_of_cell.get(cell_id)
            self._text_of_cell[cell_id] = key
            if former is not None and former not in self._text_of_cell.values():
                self._drop(former)
        self._states[key] = state
        self._states.move_to_end(key)
        if len(self._states) > self._most:
            self._drop(next(iter(self._states)))
        return state

    def _drop(self, key: Hashable) -> None:
        if (state := self._states.pop(key, None)) is not None:
            state.release()
        self._text_of_cell = {c: text for c, text in self._text_of_cell.items() if text != key}

    def clear(self) -> None:
        """Let go of every program."""
        for key in list(self._states):
            self._drop(key)
        eager_frames.clear()
