"""Random programs of small products in sequence, each in a process of its own.

``python -m benchmarks.random_programs.sequences``. Between the products are elementwise operations
and numbers in tensors without dimensions. Rows are stored as they come; the exit status is 1 where
a program is wrong or ends its process.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from dataclasses import replace
from functools import partial

import torch
from tqdm import tqdm

import dynamo_ext
from benchmarks import machine, packed_rows
from benchmarks.architectures import forked
from benchmarks.random_programs import judge
from benchmarks.random_programs.check import USUAL, Row, check
from benchmarks.random_programs.program import Program
from benchmarks.workers import Bounds

STORE = packed_rows.of_any_machine("random-sequences")
KEYS = ("engine", "seed")
_BOUNDS = Bounds(seconds=180.0)
_LAYER = """\
def layer(seed, inputs, outputs, learns):
    made = torch.nn.Linear(inputs, outputs)
    for each in made.parameters():
        each.data = numbers(seed, each.numel(), torch.float32).view(each.shape) / inputs
    return made.requires_grad_(learns)

"""
_BETWEEN = ("Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "ELU", "Softplus", "Identity", "Hardswish")
_OF_NETS = ("{n}({u})", "{n}({u} + {s} * {v})", "{n}({u} - {v} / 3)", "{n}({n}({u}))")
_FORMS = """
{n}({u}) * {v}.tanh()
{n}({u}).{f}() + {v}
{u} - {s} * ({v} - {w} / 3)
({u} + 3 * ({v} + {w})) * {s} * 0.125
{u} * {v}.{f}()
{u}.{f}() - {v}
{u} / ({v}.abs() + {s}.abs() + 1)
{s} * {s}.{f}() + {u}
torch.where({u} > {v}, {u}, {s} * {w})
torch.maximum({u}, {v})
torch.lerp({u}, {v}, {s}.sigmoid())
torch.addcmul({u}, {v}, {w}, value=0.5)
{u}.clamp(-1, 1) + {s}
{u}.softmax(-1) * {v}
torch.nn.functional.layer_norm({u}, {u}.shape[-1:]) + {v}
({u} * {v}).sum(-1, keepdim=True) * {w}
({u} + {v}).view(-1, {u}.shape[-1]).{f}()
torch.cat([{u}, {v}], -1)[..., : {u}.shape[-1]] * {s}
torch.cat([{u}]) - {v}
""".strip().splitlines()
_FUNCTIONS = ("tanh", "sigmoid", "relu", "exp", "sin", "square", "abs", "neg", "sqrt", "erf")


def program(seed: int) -> tuple[Program, int]:
    """The program of a seed, and its number of threads."""
    draw = random.Random(seed)  # noqa: S311 - programs, no secrets
    while not _runs(made := _drawn(seed, draw)):
        pass
    return made, draw.choice((1, 2))


def _drawn(seed: int, draw: random.Random) -> Program:
    width, learns = draw.choice((1, 2, 3, 4, 8, 16)), draw.random() < 0.2
    nets, head = [f"n{n}" for n in range(draw.randint(1, 3))], [_LAYER]
    for net in nets:
        layers = []
        for wide, out in itertools.pairwise([width, draw.choice((1, 4, 8, 32, 64)), width]):
            layers.append(f"layer({draw.randrange(1000)}, {wide}, {out}, {learns})")
            layers += [f"torch.nn.{draw.choice(_BETWEEN)}()"] * (draw.random() < 0.7)
        head.append(f"{net} = torch.nn.Sequential({', '.join(layers)}).eval()")
    tensors, body = ["x", "y"], []
    for n in range(draw.randint(3, 12)):
        forms = _OF_NETS if draw.random() < 0.35 else _FORMS
        u, v, w = draw.choices(tensors + tensors[-3:], k=3)
        net, s, f = draw.choice(nets), draw.choice(("t", "dt")), draw.choice(_FUNCTIONS)
        body.append(f"v{n} = {draw.choice(forms).format(n=net, u=u, v=v, w=w, s=s, f=f)}")
        tensors.append(f"v{n}")
    returned = dict.fromkeys([tensors[-1], *draw.sample(tensors[2:], draw.randint(0, 2))])
    end = ".requires_grad_()" if draw.random() < 0.25 else ""
    calls = []
    # With a second size, sizes are dynamic.
    for rows in draw.sample(range(1, 11), draw.randint(1, 2)):
        sizes = {"x": (rows, width), "y": (rows, width), "t": (), "dt": ()}
        made = "{} = numbers({}, {}, torch.float32).view({})" + end
        drawn = ((k, draw.randrange(1000), rows * width if v else 1, v) for k, v in sizes.items())
        calls.append(tuple(itertools.starmap(made.format, drawn)))
    names = ("x", "y", "t", "dt")
    return Program(seed, names, tuple(body), tuple(returned), tuple(calls), tuple(head))


def _runs(made: Program) -> bool:
    """Whether eager runs it and its numbers are finite and of a usual size."""
    ready = made.ready()
    for call in ready.calls:
        found = judge.seen(ready.function, call())
        values = [value for value in (*found.results, *found.gradients) if value is not None]
        if found.error or not all(value.abs().max() < 1e4 for value in values):
            return False
    return True


def _row(engine: str, seed: int) -> Row:
    made, threads = program(seed)
    torch.set_num_threads(threads)
    row = check(made, engine)
    return replace(row, minimal=made.text() if row.status == "wrong" else "")


def main() -> int:
    """Run and store them; 1 where one is wrong or ends its process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    given = parser.parse_args()
    forked.prepare()
    # Dynamo imports much when it is used first.
    dynamo_ext.optimize("aot_eager")(torch.sin)(torch.ones(2))
    store = packed_rows.PackedRows(STORE, KEYS)
    store.note_machine(machine.sentence())
    faults = 0
    for seed in tqdm(range(given.seed, given.seed + given.programs), disable=None):
        if (given.engine, seed) in store:
            continue
        row = forked.answer(partial(_row, given.engine, seed), _BOUNDS)
        if isinstance(row, str):
            text = program(seed)[0].text()
            row = Row(given.engine, seed, "crash", reason=row, minimal=text)
        store.keep(row.short(USUAL))
        faults += row.status in ("wrong", "crash")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
