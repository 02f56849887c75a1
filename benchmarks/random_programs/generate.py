"""Draws programs: a statement is taken where eager runs it in every call."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from benchmarks.random_programs.program import Program
from benchmarks.random_programs.statements import KINDS, WEIGHTS

CALLS = 4
"""Of each program: like the first, another size, another layout."""

_MOST_STATEMENTS = 9
_TRIES = 12
_MOST_ELEMENTS = 400
_LARGEST = 500.0
_RAISES = 0.04
"""Share of the programs whose last statement raises."""

DTYPES = {
    "torch.float32": 10,
    "torch.float64": 2,
    "torch.float16": 1,
    "torch.bfloat16": 1,
    "torch.int64": 3,
    "torch.int32": 1,
    "torch.bool": 2,
    "torch.uint8": 1,
    "torch.complex64": 1,
}
"""Of inputs, and how often."""


def program(seed: int) -> Program:
    """The program of a seed: the same one each time."""
    drawn = _Drawing(seed)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        return drawn.program()


class _Plan(NamedTuple):
    """What all calls of a program share: whether inputs learn, and whether two share memory."""

    names: list[str]
    forms: dict[str, tuple[list[str], str]]
    learns: bool
    shared: bool


class _Drawing:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draw = random.Random(seed)  # noqa: S311 - programs, no secrets
        self._count = 0

    def program(self) -> Program:
        spaces: list[dict[str, Any]] = []
        while not spaces:
            made = self._start()
            spaces = self._run(made)
        for _ in range(self._draw.randint(3, _MOST_STATEMENTS)):
            for _ in range(_TRIES):
                line = self._statement(spaces[0])
                if not line:
                    continue
                longer = replace(made, body=(*made.body, line))
                found = self._run(longer)
                if found:
                    made, spaces = longer, found
                    break
        if self._draw.random() < _RAISES:
            made = self._with_error(made, spaces[0])
        return replace(made, returned=self._returned(made, spaces[0]))

    def _start(self) -> Program:
        draw = self._draw
        tensors = [f"x{n}" for n in range(draw.randint(1, 3))]
        names = [*tensors, *(["n"] if draw.random() < 0.3 else [])]
        names += ["s"] if draw.random() < 0.25 else []
        forms = {}
        for name in tensors:
            rank = draw.choice([1, 2, 2, 2, 3, 3])
            shape = [draw.choice("aabbc12") for _ in range(rank)]
            forms[name] = (shape, draw.choices(list(DTYPES), list(DTYPES.values()))[0])
        learns = draw.random() < 0.3
        plan = _Plan(names, forms, learns, len(tensors) > 1 and draw.random() < 0.2)
        sizes = {letter: draw.randint(2, 4) for letter in "abc"}
        calls = []
        for number in range(CALLS):
            if number >= 2 and draw.random() < 0.7:
                sizes = {**sizes, draw.choice("abc"): draw.randint(1, 6)}
            calls.append(self._call(number, plan, sizes))
        return Program(self._seed, tuple(names), (), (names[0],), tuple(calls))

    def _call(self, number: int, plan: _Plan, sizes: dict[str, int]) -> tuple[str, ...]:
        draw = self._draw
        lines = []
        more = [draw.randint(1, 3)] if number >= 2 and draw.random() < 0.08 else []
        for place, name in enumerate(plan.names):
            if name == "n":
                lines.append(f"n = {draw.randint(1, 5)}")
                continue
            if name == "s":
                lines.append(f"s = {draw.randint(-8, 8) / 4}")
                continue
            letters, dtype = plan.forms[name]
            shape = [*more, *(sizes.get(letter) or int(letter) for letter in letters)]
            plain = number < 2 and draw.random() < 0.8
            strides, offset = self._layout(shape, plain=plain)
            reach = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            first = plan.forms[plan.names[0]][1]
            memory = "m0" if plan.shared and place == 1 and first == dtype else f"m{place}"
            if memory == f"m{place}":
                count = max(reach, 64) if plan.shared else reach
                lines.append(f"{memory} = numbers({10 * number + place}, {count}, {dtype})")
            line = f"{name} = {memory}.as_strided({tuple(shape)}, {tuple(strides)}, {offset})"
            learns = plan.learns and "float" in dtype and "16" not in dtype
            lines.append(f"{line}.requires_grad_()" if learns else line)
        return tuple(lines)

    def _layout(self, shape: list[int], *, plain: bool) -> tuple[list[int], int]:
        """Strides and an offset: dense, of another order, with steps, or expanded."""
        draw = self._draw
        order = list(range(len(shape)))
        step = 1
        if not plain:
            if draw.random() < 0.5:
                draw.shuffle(order)
            if draw.random() < 0.2:
                step = 2
        strides = [0] * len(shape)
        for place in reversed(order):
            strides[place] = step
            step *= shape[place]
        if not plain and draw.random() < 0.08:
            strides[draw.randrange(len(shape))] = 0
        offset = 0 if plain or draw.random() < 0.5 else draw.randint(1, 5)
        return strides, offset

    def _statement(self, space: dict[str, Any]) -> str:
        draw = self._draw
        kind = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        form = draw.choice(KINDS[kind])
        tensors = [name for name, value in space.items() if isinstance(value, torch.Tensor)]
        if not tensors:
            return ""
        # What was made last is used more often.
        tensors += tensors[-2:] * 2
        fill: dict[str, str] = {}
        groups = {
            "tuv": tensors,
            "fg": [name for name in tensors if space[name].is_floating_point()],
            "i": [name for name in tensors if space[name].dtype in _INTEGERS],
            "b": [name for name in tensors if space[name].dtype is torch.bool],
        }
        for letters, among in groups.items():
            for letter in letters:
                if f"{{{letter}}}" in form:
                    if not among:
                        return ""
                    fill[letter] = draw.choice(among)
        numbers = [name for name, value in space.items() if type(value) is int]
        fill["n"] = draw.choice([*numbers, *numbers, "2", "3", f"{draw.choice(tensors)}.shape[-1]"])
        floats = [name for name, value in space.items() if type(value) is float]
        fill["s"] = draw.choice([*floats, *floats, *numbers, "2", "-3", "0.5", "-1.25", "1"])
        fill["d"], fill["e"] = (draw.choice(["0", "-1", "1"]) for _ in range(2))
        fill["k"] = draw.choice(["0", "1", "-1"])
        fill["dtype"] = draw.choice(list(DTYPES))
        fill["new"] = self._name(tensors)
        return form.format(**fill)

    def _name(self, tensors: list[str]) -> str:
        if self._draw.random() < 0.15:
            return self._draw.choice(tensors)
        self._count += 1
        return f"v{self._count}"

    def _run(self, made: Program) -> list[dict[str, Any]]:
        """The names of each call after its last statement; nothing where one does not run."""
        looking = replace(made, returned=("locals()",))
        spaces = []
        try:
            ready = looking.ready()
            for call in ready.calls:
                (space,) = ready.function(*call())
                if not all(map(_fine, space.values())):
                    return []
                spaces.append({k: v for k, v in space.items() if k not in {"_", "index"}})
        except Exception:  # noqa: BLE001 - whatever it is, the statement does not fit
            return []
        return spaces

    def _with_error(self, made: Program, space: dict[str, Any]) -> Program:
        for _ in range(20):
            line = self._statement(space)
            longer = replace(made, body=(*made.body, line)) if line else made
            if line and not self._run(longer) and _raises(longer):
                return longer
        return made

    def _returned(self, made: Program, space: dict[str, Any]) -> tuple[str, ...]:
        draw = self._draw
        names = [name for name in space if any(name in line for line in made.body)] or list(space)
        last = names[-3:]
        chosen = [draw.choice([*names, *last]) for _ in range(draw.randint(1, 4))]
        return tuple(chosen)


_INTEGERS = (torch.int64, torch.int32, torch.uint8)


def _fine(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return not isinstance(value, float) or abs(value) < _LARGEST
    if value.numel() > _MOST_ELEMENTS:
        return False
    wide = value.detach().resolve_conj().abs() if value.is_complex() else value.detach()
    return bool((wide.double().abs() < _LARGEST).all())


def _raises(made: Program) -> bool:
    ready = made.ready()
    try:
        for call in ready.calls:
            ready.function(*call())
    except Exception:  # noqa: BLE001 - it is asked whether it does
        return True
    return False
