"""Values that compiled code carries along and knows by type alone."""

from typing import Any, NoReturn

from torch._dynamo.variables.base import VariableTracker

_SLOTS = tuple(
    name
    for name in dir(VariableTracker)
    if name.endswith("_impl") or name.startswith(("mp_", "sq_", "nb_", "tp_"))
    # Some are tables of methods.
    if callable(getattr(VariableTracker, name))
)


class Carried(VariableTracker):
    """A value of which compiled code knows the type alone: what it does not define, it refuses."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Torch would take what is not defined for what Python refuses, and trace a TypeError.
        for name in _SLOTS:
            if name not in vars(cls):
                setattr(cls, name, cls.refuse)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """End the graph, so that Python does what was asked for."""
        raise NotImplementedError
