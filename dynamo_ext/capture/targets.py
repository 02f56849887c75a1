"""What is wrapped, explained or compared: a function or a module, and a call's arguments."""

from typing import Any

import torch

from dynamo_ext.errors import OptionError


def check(target: Any, done: str, args: Any = ()) -> None:
    """Raise ``OptionError`` where ``target`` is not one, or ``args`` is not a sequence.

    ``done`` is what is to be done to it, for the sentence.
    """
    remedy = "Pass a function or a module, and its arguments in a tuple: (model, (x,))."
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        message = f"{target.__name__} is a class, not a module."
        raise OptionError(message, f"Make a module of it first: model = {target.__name__}(…).")
    if not callable(target):
        message = f"A {type(target).__name__} cannot be {done}: it cannot be called."
        raise OptionError(message, remedy)
    if isinstance(args, (str, torch.Tensor)) or callable(args):
        message = f"args is a {type(args).__name__}, not a sequence of arguments."
        raise OptionError(message, remedy)
