"""A random program as source text that runs by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_HELPER = """\
def numbers(seed, count, dtype):
    draws = torch.Generator().manual_seed(seed)
    drawn = torch.randint(-16, 17, (count,), generator=draws) / 8
    return (drawn.abs() if dtype == torch.uint8 else drawn).to(dtype)
"""

_WIDER = {
    "torch.float32": "torch.float64",
    "torch.float16": "torch.float64",
    "torch.bfloat16": "torch.float64",
    "torch.complex64": "torch.complex128",
}


@dataclass(frozen=True)
class Program:
    """A function of tensors and numbers, and the arguments of several calls.

    Parameters
    ----------
    seed
        What it was drawn with.
    names
        Of the function's parameters.
    body
        Its statements, a line each.
    returned
        Names that it returns.
    calls
        For each call the lines that make its arguments, which have the parameters' names.
    head
        Lines in front of the function.
    """

    seed: int
    names: tuple[str, ...]
    body: tuple[str, ...]
    returned: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...]
    head: tuple[str, ...] = ()

    @property
    def function(self) -> str:
        """The source of the function alone."""
        lines = [f"def f({', '.join(self.names)}):", *(f"    {line}" for line in self.body)]
        returned = "".join(f"{name}, " for name in self.returned)
        return "\n".join([*lines, f"    return ({returned.strip()})"]) + "\n"

    def arguments(self, call: int) -> str:
        """The source of what makes one call's arguments."""
        lines = [f"def call_{call}():", *(f"    {line}" for line in self.calls[call])]
        names = "".join(f"{name}, " for name in self.names)
        return "\n".join([*lines, f"    return ({names.strip()})"]) + "\n"

    def text(self) -> str:
        """The whole, but for who runs it."""
        calls = "\n\n".join(self.arguments(call) for call in range(len(self.calls)))
        head = "".join(f"{line}\n" for line in self.head) + "\n\n" if self.head else ""
        return f"import torch\n\n\n{_HELPER}\n\n{head}{self.function}\n\n{calls}"

    def script(self, engine: str) -> str:
        """A file that shows what eager and an engine make of each call."""
        compiled = (
            f"torch.compile(f, backend={engine!r})"
            if engine in TORCHS
            else f"dynamo_ext.optimize({engine!r})(f)"
        )
        imports = "" if engine in TORCHS else "import dynamo_ext\n\n"
        calls = ", ".join(f"call_{call}" for call in range(len(self.calls)))
        tail = (
            f"\n\n{imports}compiled = {compiled}\n"
            f"for call in ({calls},):\n"
            "    for run in (f, compiled):\n"
            "        given = call()\n"
            "        print(run.__class__.__name__, run(*given), given)\n"
        )
        return self.text() + tail

    def ready(self, *, wide: bool = False, shaken: int = -1) -> Ready:
        """The functions of the text.

        Parameters
        ----------
        wide
            Every floating-point dtype that is written is float64 instead.
        shaken
            Not negative: floating-point inputs are off by half of their last digit, by this seed.
        """
        text = self.text()
        if wide:
            text = re.sub(
                r"torch\.(float|bfloat|complex)\d+", lambda m: _WIDER.get(m[0], m[0]), text
            )
        space: dict[str, Any] = {}
        # Dynamo keeps what it learnt of code by its file and line.
        code = compile(text, f"<program {self.seed}>", "exec")
        exec(code, space)  # noqa: S102 - a program of our own
        if shaken >= 0:
            space["numbers"] = _shaking(space["numbers"], shaken)
        return Ready(space["f"], [space[f"call_{call}"] for call in range(len(self.calls))])

    def without_statement(self, place: int) -> Program:
        """The program but for one line of its body."""
        return replace(self, body=self.body[:place] + self.body[place + 1 :])


TORCHS = ("aot_eager", "inductor")
"""Controls: torch's own backends, under plain ``torch.compile``."""


@dataclass(frozen=True)
class Ready:
    """A program's function, and what makes the arguments of each call."""

    function: Callable[..., Any]
    calls: list[Callable[[], tuple[Any, ...]]]


def _shaking(numbers: Callable[..., torch.Tensor], seed: int) -> Callable[..., torch.Tensor]:
    def shaken(own: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        made = numbers(own, count, dtype)
        if not made.is_floating_point():
            return made
        draws = torch.Generator().manual_seed(1000 * seed + own)
        noise = torch.randn(count, generator=draws) * torch.finfo(dtype).eps / 2
        return (made.double() * (1 + noise)).to(dtype)

    return shaken
