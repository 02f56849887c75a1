"""Small products in sequence, between them elementwise operations and numbers without dimensions.

``python -m benchmarks.random_programs.sequences`` runs them, each in a process of its own. The
exit status is 1 where a program is wrong or ends the process.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from benchmarks import machine, packed_rows
from benchmarks.architectures import forked
from benchmarks.random_programs import judge
from benchmarks.random_programs.check import Row, check
from benchmarks.random_programs.program import Program
from benchmarks.workers import Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE = packed_rows.of_any_machine("random-sequences")

_LAYER = """\
def layer(seed, inputs, outputs, learns):
    made = torch.nn.Linear(inputs, outputs)
    for each in made.parameters():
        drawn = numbers(seed, each.numel(), torch.float32).view(each.shape) / inputs
        each.data = drawn
        each.requires_grad_(learns)
    return made

"""
_BETWEEN = ("Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "ELU", "Softplus", "Identity", "Softmax")
_FORMS = """
{n}({u})
{n}({u} + {s} * {v})
{n}({u} - {v} / 3)
{n}({n}({u}))
{n}({u}) + {v}
{n}({u}) * {v}.tanh()
{n}({u}).{f}()
{u} + {s} * {v}
{u} - {s} * ({v} - {w} / 3)
({u} + 3 * ({v} + {w})) * {s} * 0.125
{u} * {v}.{f}()
{u}.{f}() - {v}
{u} / ({v}.abs() + 1)
{u} / ({s}.abs() + 1)
torch.where({u} > {v}, {u}, {s} * {w})
torch.maximum({u}, {v})
torch.lerp({u}, {v}, {s}.sigmoid())
torch.addcmul({u}, {v}, {w}, value=0.5)
{u}.clamp(-1, 1) + {s}
{u}.softmax(-1) * {v}
torch.nn.functional.layer_norm({u}, {u}.shape[-1:]) + {v}
{u} - {u}.mean(-1, keepdim=True)
({u} * {v}).sum(-1, keepdim=True) * {w}
({u} + {v}).view(-1, {u}.shape[-1]).{f}()
torch.cat([{u}, {v}], -1)[..., : {u}.shape[-1]] * {s}
{s} * {s}.{f}() + {u}
""".strip().splitlines()
_FUNCTIONS = "tanh sigmoid relu exp sin square abs neg sqrt log1p erf sign".split()


def program(seed: int) -> tuple[Program, int]:
    """The program of a seed, and its number of threads."""
    draw = random.Random(seed)  # noqa: S311 - programs, no secrets
    while True:
        made = _drawn(seed, draw)
        if _runs(made):
            return made, draw.choice((1, 2))


def _drawn(seed: int, draw: random.Random) -> Program:
    width = draw.choice((1, 2, 3, 4, 8, 16))
    learns, given = draw.random() < 0.2, draw.random() < 0.25
    nets = [f"n{n}" for n in range(draw.randint(1, 3))]
    head = [_LAYER]
    for net in nets:
        widths = [width, *draw.choices((1, 4, 8, 32, 64), k=draw.randint(0, 2)), width]
        layers = []
        for n, (wide, out) in enumerate(zip(widths, widths[1:], strict=False)):
            layers.append(f"layer({draw.randrange(1000)}, {wide}, {out}, {learns})")
            if n < len(widths) - 2 or draw.random() < 0.2:
                kind = draw.choice(_BETWEEN)
                layers.append(f"torch.nn.{kind}({'-1' if kind == 'Softmax' else ''})")
        head.append(f"{net} = torch.nn.Sequential({', '.join(layers)}).eval()")
    tensors, numbers = ["x0", "x1"], ["t", "dt"]
    calls = []
    for _ in range(3):
        # Twice of one size: the third is dynamic.
        rows = calls and draw.choice((calls[0][0], draw.randint(1, 12))) or draw.randint(1, 10)
        calls.append((rows, draw.randrange(1000)))
    body = []
    for n in range(draw.randint(3, 12)):
        late = tensors + tensors[-3:]
        u, v, w = draw.choices(late, k=3)
        form = draw.choice(_FORMS[: 7 if draw.random() < 0.4 else None])
        line = form.format(
            n=draw.choice(nets), u=u, v=v, w=w, s=draw.choice(numbers), f=draw.choice(_FUNCTIONS)
        )
        body.append(f"v{n} = {line}")
        tensors.append(f"v{n}")
    returned = ["v" + str(len(body) - 1), *draw.sample(tensors[2:], draw.randint(0, 2))]
    end = ".requires_grad_()" if given else ""
    lines = [
        (
            *(
                f"x{k} = numbers({own + k}, {rows * width}, torch.float32).view({rows}, {width}){end}"
                for k in range(2)
            ),
            *(
                f"{s} = numbers({own + k}, 1, torch.float32).view(()){end}"
                for k, s in enumerate(numbers)
            ),
        )
        for rows, own in calls
    ]
    return Program(
        seed,
        ("x0", "x1", *numbers),
        tuple(body),
        tuple(dict.fromkeys(returned)),
        tuple(lines),
        tuple(head),
    )


def _runs(made: Program) -> bool:
    """Whether eager runs it and its numbers are finite and of a usual size."""
    ready = made.ready()
    for call in ready.calls:
        found = judge.seen(ready.function, call())
        values = [value for value in [*found.results, *found.gradients] if value is not None]
        if found.error or not all(value.abs().max() < 1e4 for value in values):  # noqa: PLR2004
            return False
    return True


def _row(engine: str, seed: int) -> dict[str, Any]:
    made, threads = program(seed)
    torch.set_num_threads(threads)
    row = check(made, engine)
    return replace(row, minimal=made.text() if row.status == "wrong" else "").to_dict()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and store them; 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of a program")
    given = parser.parse_args(arguments)
    forked.prepare()
    store = packed_rows.PackedRows(STORE, ("engine", "seed"))
    store.note_machine(machine.sentence())
    faults = 0
    for seed in tqdm(range(given.seed, given.seed + given.programs), disable=None):
        if (given.engine, seed) in store:
            continue
        said = forked.answer(partial(_row, given.engine, seed), Bounds(given.timeout, 16.0))
        row = (
            said
            if isinstance(said, dict)
            else Row(
                given.engine, seed, "crash", reason=said, minimal=program(seed)[0].text()
            ).to_dict()
        )
        store.add(row)
        if row["status"] in ("wrong", "crash"):
            faults += 1
            tqdm.write(f"program {seed}: {row['status']}: {row['reason']}\n{row['minimal']}")
            store.save()
    store.save()
    return int(bool(faults))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
