"""How large the models of a cell are: what its trials decide holds for models of this size."""

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from torch.nn import Module, Parameter

from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.code.tensor_reachability import names_read
from dynamo_ext.capture.torch_private.traced_frames import attributes


def count(program: CellProgram, namespace: Mapping[str, Any]) -> int:
    """Numbers in the parameters of the modules that a cell reads, and does not bind.

    The cell, or functions of the notebook that it calls, names them, or what has them as its
    attributes. No code of the user's runs for this.
    """
    codes, seen = list(program.statement_codes), set(program.stored_names)
    values: list[Any] = []
    # The lists grow by what is found in them.
    for code in codes:
        for name in {*names_read(code)} & namespace.keys() - seen:
            seen.add(name)
            value = namespace[name]
            if type(value) is FunctionType and value.__globals__ is namespace:
                codes.append(value.__code__)
            values += [value, *attributes(value).values()]
    sizes: dict[int, int] = {}
    known = {*map(id, values)}
    for value in values:
        if issubclass(type(value), Module):
            held = attributes(value)
            inner = [m for m in held.get("_modules", {}).values() if id(m) not in known]
            known |= {*map(id, inner)}
            values += inner
            own = held.get("_parameters", {}).values()
            sizes |= {id(each): each.numel() for each in own if type(each) is Parameter}
    return sum(sizes.values())
