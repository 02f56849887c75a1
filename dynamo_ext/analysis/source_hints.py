"""What one line of the user's code asks for, as far as the line by itself tells."""

import ast
import contextlib
import re

_READER = re.compile(r"(?<![\w.])(?P<name>float|int|bool|complex)\(")
_CONDITIONS = ("while", "elif", "if", "assert", "and", "or", "not")


def reader(code: str) -> str:
    """The call that reads a value out of a tensor, as written (``float()``), or an empty text."""
    if ".item()" in code:
        return ".item()"
    found = _READER.search(code)
    return f"{found['name']}()" if found else ""


def chooses_by_reading(code: str) -> bool:
    """Whether what is read out of a tensor decides there which way the code goes."""
    tree = _parsed(code)
    choices = (ast.If, ast.While, ast.IfExp)
    return tree is not None and any(
        isinstance(node, choices) and reader(ast.unparse(node.test)) for node in ast.walk(tree)
    )


def condition(code: str) -> str:
    """The word that asks for a truth value (``if``, ``while`` …), or an empty text."""
    words = re.findall(r"\w+", code)
    return next((word for word in _CONDITIONS if word in words), "")


def leaves_value(code: str, function: str) -> bool:
    """Whether the line is no more than a call of ``function``, whose value goes nowhere."""
    tree = _parsed(code)
    last = function.rsplit(".", 1)[-1]
    return tree is not None and any(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rsplit(".", 1)[-1] == last
        for node in ast.walk(tree)
    )


OPTIMIZER = "OPTIMIZER"
"""What stands for the user's name of an optimizer."""


def optimizer(source: str) -> str:
    """The one name whose ``step()`` a cell calls, and ``zero_grad()``; else an empty text."""
    calls = (re.findall(rf"([\w.]+)\.{name}\(", source) for name in ("step", "zero_grad"))
    stepped, cleared = map(set, calls)
    names = stepped & cleared or stepped
    return names.pop() if len(names) == 1 else ""


def _parsed(code: str) -> ast.AST | None:
    """The line as a tree, also where it only opens a block; none of a part of a statement."""
    line = re.sub(r"^elif\b", "if", code.strip())
    for text in (line, f"{line} pass"):
        with contextlib.suppress(SyntaxError, ValueError):
            return ast.parse(text)
    return None
