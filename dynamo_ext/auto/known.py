"""The winner of an earlier race, which checks its first results and is forgotten if they differ."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from dynamo_ext.measure.switchboard import EAGER, Switch, compile_into, runs_in_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.compilers import Compiler
    from dynamo_ext.backends.journal import Journal


class Known:
    """A captured graph in one backend's form.

    Parameters
    ----------
    graph
        As Dynamo hands it over.
    journal
        Where the backend's parts and fallbacks are told.
    name
        The backend that won.
    """

    def __init__(self, graph: GraphModule, journal: Journal, name: str) -> None:
        self._switch: Switch | None = Switch(0, graph, {EAGER: graph.forward})
        self._journal = journal
        self._name = name
        self._form: Callable[..., Any] = graph.forward
        self.then: Callable[[], None] | None = None

    def compile(self, compiler: Compiler, inputs: Sequence[Any]) -> bool:
        """Compile it; whether anything of it runs in the engine."""
        switch = self._switch
        if switch is None:
            return False
        compile_into(switch, {self._name: compiler}, inputs)
        if self._name in switch.errors or not runs_in_engine(switch, self._name):
            return False
        self._form = switch.compiled[self._name]
        return True

    def __call__(self, *args: Any) -> Any:
        """Run it; after the first call, look whether the backend's own check found it right."""
        result = self._form(*args)
        switch = self._switch
        if switch is not None:
            self._switch = None
            wrong = any(f.stage in {"verify", "run"} for f in switch.fallbacks(self._name))
            wrong = wrong or not runs_in_engine(switch, self._name)
            self._journal.adopt(switch.journals[self._name])
            if wrong and self.then is not None:
                # A store that cannot be written must not cost the user the result.
                with contextlib.suppress(OSError):
                    self.then()
        return result
