"""Cells that the magic refuses in one sentence, and cells that Python itself refuses."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case(
        "await at the top",
        "import asyncio\nx = 1",
        "y = 2\nawait asyncio.sleep(0)\nz = 3",
        refused="await",
    ),
    case(
        "async for at the top",
        "async def g():\n    yield 1",
        "async for v in g():\n    pass",
        refused="await|async",
    ),
    case(
        "async with at the top",
        "import contextlib",
        "async with contextlib.AsyncExitStack() as s:\n    pass",
        refused="await|async",
    ),
    case(
        "async comprehension at the top",
        "async def g():\n    yield 1",
        "r = [v async for v in g()]",
        refused="await|async",
    ),
    case("empty", "x = 1", "", refused="empty|no code"),
    case("only blanks", "x = 1", "   \n\n", refused="empty|no code", verbatim=True),
    case("only comments", "x = 1", "# nothing here"),
    case("syntax error", "x = = 1", raises="SyntaxError"),
    case(
        "syntax error further down",
        "a = 1\nb = 2\nif a\n    c = 3",
        "'a' in globals()",
        raises="SyntaxError",
    ),
    case("syntax error in a function", "a = 1\ndef f(:\n    pass", raises="SyntaxError"),
    case("unclosed bracket", "x = (1,\ny = 2", raises="SyntaxError"),
    case("unclosed string", "a = 1\nx = 'abc", raises="SyntaxError"),
    case("indentation error", "if True:\nx = 1", raises="IndentationError"),
    case("unexpected indent", "x = 1\n    y = 2", raises="IndentationError"),
    case("mixed tabs", "if True:\n        x = 1\n\ty = 2", raises="TabError", verbatim=True),
    case("return outside a function", "x = 1\nreturn x", raises="SyntaxError"),
    case("yield outside a function", "x = 1\nyield x", raises="SyntaxError"),
    case("break outside a loop", "x = 1\nif x:\n    break", raises="SyntaxError"),
    case("nonlocal at the top", "nonlocal x\nx = 1", raises="SyntaxError"),
    case("assignment to a call", "f() = 1", raises="SyntaxError"),
    case("global after use", "x = 1\nglobal x\nx = 2"),
    case("two starred targets", "*a, *b = [1]", raises="SyntaxError"),
    case("future too late", "x = 1\nfrom __future__ import annotations"),
    case("keyword as a name", "a = 1\nclass = 2", raises="SyntaxError"),
    case("print statement", "print 'old'", raises="SyntaxError"),
    case("f-string error", "x = f'{1 +}'", raises="SyntaxError"),
    case("syntax error in exec", "a = 1\nexec('x = = 1')", "a", raises="SyntaxError"),
    case(
        "syntax error in an import-like call",
        "compile('a b', 'there.py', 'exec')",
        raises="SyntaxError",
    ),
]
