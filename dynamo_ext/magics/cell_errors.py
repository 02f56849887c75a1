"""Errors of a cell, shown as a plain cell shows them."""

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from dynamo_ext.capture.cells.user_traceback import trim_tracebacks


def show_syntax_error(shell: InteractiveShell, error: SyntaxError) -> None:
    """Show an error that is being handled, and fail the cell, with none of our frames."""
    outcome = shell.displayhook.exec_result
    if outcome is None:
        raise error
    # Both of the shell's read sys.exc_info(), which is this error while we handle it.
    if isinstance(error, shell.custom_exceptions):
        shell.CustomTB(type(error), error, error.__traceback__)
    elif isinstance(error, IndentationError):
        shell.showindentationerror()
    else:
        shell.showsyntaxerror()
    outcome.error_before_exec = error


def show_error(shell: InteractiveShell, error: BaseException, filename: str) -> bool:
    """Have the user's error shown with their frames alone; whether it is shown already.

    IPython renders two kinds by itself, and gives others to the user's ``set_custom_exc``: raised,
    these would have our frames in their tracebacks again.
    """
    in_cell = trim_tracebacks(error, filename)
    outcome = shell.displayhook.exec_result
    if in_cell and outcome is not None and isinstance(error, shell.custom_exceptions):
        outcome.error_in_exec = error
        shell.CustomTB(type(error), error, error.__traceback__)
        return True
    if isinstance(error, (SyntaxError, BaseExceptionGroup)) and outcome is not None:
        try:
            raise error
        except (SyntaxError, BaseExceptionGroup):
            trim_tracebacks(error, filename)
            if in_cell:
                outcome.error_in_exec = error
            else:
                outcome.error_before_exec = error
            shell.showtraceback(running_compiled_code=in_cell)
        return True
    traceback = error.__traceback__

    def render() -> list[str]:
        if traceback is None and isinstance(error, KeyboardInterrupt):
            return ["KeyboardInterrupt: stopped while the cell was being compiled."]
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(error), error, traceback, tb_offset=0
        )
        return lines

    if not isinstance(error, UsageError):
        error._render_traceback_ = render  # type: ignore[attr-defined]
    return False


def show_as(error: BaseException, text: str) -> None:
    """Have IPython show an error as one line."""
    lines = [f"{type(error).__name__}: {text}"]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
