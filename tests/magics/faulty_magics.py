"""Two magics that stand in for ours, to test the test: one is right, one is wrong on purpose."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING, Any

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand, output_can_be_silenced

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell


def install_faithful(shell: InteractiveShell) -> None:
    """A ``%%dynamo`` that runs the cell as the module code it is."""
    _install(shell, lambda text: text)


def install_wrapping(shell: InteractiveShell) -> None:
    """A ``%%dynamo`` that makes the cell a function and writes its locals back at the end."""
    _install(shell, _as_function)


def _as_function(text: str) -> str:
    return (
        f"def cell():\n{textwrap.indent(text, ' ')}\n globals().update(locals())\ncell()\ndel cell"
    )


def _install(shell: Any, rewrite: Callable[[str], str]) -> None:
    @no_var_expand
    @output_can_be_silenced
    def dynamo(line: str, cell: str) -> None:
        try:
            text = shell.transform_cell(f"# %%dynamo {line}\n{cell}")
            filename = shell.compile.cache(text, shell.displayhook.exec_result.execution_count)
            tree = shell.transform_ast(ast.parse(rewrite(text), filename))
        except SyntaxError:
            _show_instead(shell, lambda **_: shell.showsyntaxerror())
            raise
        if not cell.strip():
            msg = "The cell is empty."
            raise UsageError(msg)
        if any(_waits(node) for node in tree.body):
            msg = "A cell under %%dynamo cannot await."
            raise UsageError(msg)
        for node, shown in _shown(
            tree.body, shell, DisplayHook.semicolon_at_end_of_expression(cell)
        ):
            kind = ast.Interactive([node]) if shown else ast.Module([node], [])
            try:
                exec(shell.compile(kind, filename, "single" if shown else "exec"), shell.user_ns)
            except BaseException as error:
                _show_from(error, filename, shell)
                raise

    shell.register_magic_function(dynamo, "cell", "dynamo")


def _waits(node: ast.AST) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return False
    waits = isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith))
    return (
        waits or bool(getattr(node, "is_async", 0)) or any(map(_waits, ast.iter_child_nodes(node)))
    )


def _shown(nodes: list[ast.stmt], shell: Any, silent: bool) -> list[tuple[ast.stmt, bool]]:
    """Which statements IPython would display."""
    mode = shell.ast_node_interactivity
    if mode == "last_expr_or_assign" and isinstance(nodes[-1], ast.Assign):
        shown = ast.Expr(ast.Name(nodes[-1].targets[0].id, ast.Load()))  # type: ignore[attr-defined]
        nodes = [*nodes, ast.fix_missing_locations(shown)]
    last = len(nodes) - 1
    return [
        (node, not silent and isinstance(node, ast.Expr) and (
            mode == "all" or (mode != "none" and number == last)))
        for number, node in enumerate(nodes)
    ]  # fmt: skip


def _show_from(error: BaseException, filename: str, shell: Any) -> None:
    """Let IPython print the traceback from the cell's own first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next

    def show(*args: Any, **options: Any) -> None:
        error.__traceback__ = trace
        shell.showtraceback(*args, **{"tb_offset": 0, **options})

    if trace is None and isinstance(error, SyntaxError):
        _show_instead(shell, lambda **_: shell.showsyntaxerror())
    elif not isinstance(error, UsageError):
        _show_instead(shell, show)


def _show_instead(shell: Any, show: Callable[..., None]) -> None:
    """Replace the shell's next showing of a traceback."""

    def once(*args: Any, **options: Any) -> None:
        del shell.showtraceback
        show(*args, **options)

    shell.showtraceback = once
