"""How large the models of a cell are: what its trials decide holds for models of this size."""

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from torch.nn import Module
from torch.nn.parameter import is_lazy

from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.code.tensor_reachability import names_read
from dynamo_ext.capture.torch_private.traced_frames import attributes


def count(program: CellProgram, namespace: Mapping[str, Any]) -> int:
    """Numbers in the parameters of the modules that a cell reads, and does not bind.

    The cell may name them itself, or functions of the notebook that it calls; they may also be
    attributes of objects that are named so.
    """
    codes, seen = list(program.statement_codes), set(program.stored_names)
    modules: dict[int, Module] = {}
    # The list grows by the functions that are found in it.
    for code in codes:
        for name in names_read(code):
            if name in seen or name not in namespace:
                continue
            seen.add(name)
            value = namespace[name]
            if type(value) is FunctionType and value.__globals__ is namespace:
                codes.append(value.__code__)
            holders = (value, *attributes(value).values())
            modules |= {id(each): each for each in holders if issubclass(type(each), Module)}
    parameters = {id(each): each for module in modules.values() for each in module.parameters()}
    return sum(each.numel() for each in parameters.values() if not is_lazy(each))
