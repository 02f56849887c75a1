"""Loops and ``with`` blocks that Dynamo cannot capture whole, so that they are gone through."""

from __future__ import annotations

from tests.corpus.case import Case, case, cases

SETUP = "# plain\nimport torch\nx = torch.arange(4.)\nrows = list(torch.ones(3, 4))\nlog = []"

TRAINING = """\
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        opt.zero_grad()
        loss = ((model(a) - b) ** 2).mean()
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, f"{total:.4f}")
"""

CASES: list[Case] = [
    case(
        "print in a loop", SETUP, "for r in rows:\n    y = r * 2\n    print(y.sum())\ny", graphs=1
    ),
    case(
        "a number read in a loop",
        SETUP,
        "total = 0.0\nfor r in rows:\n    s = (r + x).sum()\n    total += s.item()\ntotal",
        graphs=1,
    ),
    *cases(
        SETUP,
        """
## break, continue and the loop's else
for i in range(6):
    y = x * i
    if i == 1:
        continue
    print(i, float(y.sum()))
    if i == 3:
        break
else:
    never = 1
i, y
## else after a loop without break
for r in rows:
    print(float(r.sum()))
else:
    end = x + 1
end
## nested loops
for epoch in range(2):
    total = 0.0
    for r in rows:
        if epoch and total:
            break
        y = r * 2
        total += float(y.sum())
    else:
        print("all of them")
        continue
    print(epoch, total)
y, total
## break and continue of the outer loop in the inner's else
for a in range(4):
    for b in range(2):
        y = x + a * b
        print(a, b, float(y.sum()))
    else:
        if a == 0:
            continue
        if a == 2:
            break
    log.append(a)
log
## while that depends on a tensor
y = x
n = 0
while y.sum() < 100:
    y = y * 2 + 1
    n += 1
else:
    z = y
n, z
## with around a loop
w = torch.ones(4, requires_grad=True)
with torch.no_grad():
    for r in rows:
        y = r * w
        print(y.requires_grad)
    z = y + 1
z, (w * 2).requires_grad
## return from a with inside a loop
import contextlib
@contextlib.contextmanager
def told(i):
    print("in", i)
    try:
        yield i
    finally:
        print("out", i)
# %%
for i in range(4):
    with told(i) as j:
        y = x * j
        if j == 1:
            continue
        print(float(y.sum()))
        if j == 2:
            break
i, j, y
## if around a loop
if len(rows) > 2:
    for r in rows:
        print(float(r.sum()))
else:
    r = None
r
## try, finally and continue inside a loop
for i in range(3):
    try:
        y = x * i
        if i == 1:
            continue
        print(float(y.sum()))
    finally:
        log.append(i)
log, y
""",
    ),
    case(
        "training that can be interrupted",
        "# plain\nfrom torch import nn\nimport torch\ntorch.manual_seed(0)\nmodel = nn.Linear(3, 1)\n"
        "opt = torch.optim.SGD(model.parameters(), 0.1)\n"
        "loader = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(3)]",
        "try:\n"
        + "".join(f"    {line}\n" for line in TRAINING.splitlines())
        + "except KeyboardInterrupt:\n    print('stopped')\nelse:\n    done = True\ndone, loss",
        graphs=2,
    ),
    *cases(
        SETUP,
        """
## an interrupt in a loop that is ready for it
try:
    for i in range(6):
        y = x * i
        print(float(y.sum()))
        if i == 2:
            raise KeyboardInterrupt
except KeyboardInterrupt as stop:
    print("stopped", type(stop).__name__, i)
finally:
    log.append(i)
"stop" in globals(), y, log
## an error in a loop that is caught, told and raised again -> RuntimeError
import sys
# %%
try:
    for n in [4, 3]:
        y = torch.ones(n)
        print(n)
        z = y + x
except RuntimeError as error:
    print(type(error).__name__, sys.exc_info()[1] is error, error.__context__)
    raise
# %%
n, y, z
## an error from an error in a loop -> ValueError
try:
    for r in rows:
        print(float((r * x).sum()))
        missing
except NameError as error:
    z = x + 1
    raise ValueError(float(z.sum())) from error
# %%
z
## an error in a loop that another handler would catch
try:
    try:
        for r in rows:
            print(float((r * x).sum()))
            {}["k"]
    except ValueError:
        print("no")
    finally:
        log.append(float(r.sum()))
except KeyError as error:
    print("yes", error)
log
## continue and break from handlers around a loop
for i in range(5):
    try:
        for j in range(2):
            y = x * i + j
            print(float(y.sum()))
            if i == 1 and j:
                raise ValueError(i)
            if i == 3:
                raise KeyError(i)
    except ValueError:
        continue
    except KeyError:
        break
    else:
        log.append(i)
    finally:
        log.append(-i)
i, j, y, log
## a loop after try in a loop's else
try:
    y = x + 1
except ValueError:
    pass
else:
    for r in rows:
        y = y + r
        print(float(y.sum()))
y
## an error in the second turn -> ValueError
for i in range(3):
    y = x * i
    print(float(y.sum()))
    if i == 1:
        raise ValueError(i)
# %%
i, y
## an error of a tensor in the second turn -> RuntimeError
sizes = [4, 3]
for n in sizes:
    y = torch.ones(n)
    print(n)
    z = y + x
# %%
n, y
## an error in nested loops -> IndexError
for a in range(2):
    for b in range(2):
        y = x * a
        print(float(y.sum()))
        z = y[a + b + 3]
# %%
a, b, y
## an error in the loop's own line -> NameError
for r in rows + nothing:
    print(float(r.sum()))
## an error in the generator that is looped over -> KeyError
def g():
    yield x
    raise KeyError('g')
# %%
for r in g():
    y = r * 2
    print(float(y.sum()))
# %%
y
## an error in a function called in a loop -> AttributeError
def f(v):
    print(float(v.sum()))
    return v.nothing
# %%
for r in rows:
    y = f(r * 2)
# %%
r
## an error that a with suppresses
import contextlib
with contextlib.suppress(ValueError):
    for i in range(3):
        y = x * i
        print(float(y.sum()))
        if i == 1:
            raise ValueError
i, y
## names that a loop deletes and binds
for r in rows:
    t = r * 2
    print(s := float(t.sum()), [q for q in range(2)])
    del t
"t" in globals(), s, "q" in globals()
## functions that see the namespace change
def seen():
    return y.tolist(), i
# %%
for i in range(3):
    y = x + i
    print(seen())
(lambda: i)()
""",
    ),
    case(
        "a loop after a print",
        SETUP,
        "y = x\nprint('begin')\nfor k in range(3):\n    y = y * 2\nz = y.sin()\nz",
        graphs=1,
        operations=4,
    ),
    case(
        "several loops, one of which prints",
        SETUP,
        """
        y = x
        for k in range(2):
            y = y * 2
        for k in range(2):
            y = y + 1
            print(float(y.sum()))
        for k in range(2):
            y = y - 1
        y
        """,
    ),
    case(
        "unpacking, attributes and items as the loop's names",
        SETUP,
        """
        class Box: pass
        box = Box(); d = {}
        for box.a, (d["k"], *rest) in [(1, (x, 2)), (3, (x * 2, 4, 5))]:
            y = d["k"] + box.a
            print(float(y.sum()), rest)
        box.a, d, rest
        """,
    ),
    case(
        "training with the loss printed",
        "# plain\nimport torch\ntorch.manual_seed(0)\nmodel = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))\n"
        "opt = torch.optim.SGD(model.parameters(), lr=0.1)\nsets = torch.utils.data.TensorDataset(torch.randn(12, 4), torch.randn(12, 1))\n"
        "loader = torch.utils.data.DataLoader(sets, batch_size=4)",
        TRAINING,
    ),
    case(
        "a statement that Dynamo cannot trace, between others",
        SETUP + "\nmodel = torch.nn.Linear(4, 2)",
        """
        y = model(x).relu()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        z = model(x) * 2
        y, z, len(opt.param_groups)
        """,
        graphs=2,
    ),
    case(
        "a shown expression that Dynamo cannot trace",
        SETUP,
        """
        y = x * 2
        z = y + 1
        z.tolist().__len__(), x.sum().item().__format__(".2f")
        """,
    ),
]
