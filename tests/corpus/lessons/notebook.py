"""Cells of lessons in a notebook: widgets, timers, plots, and what one tries out."""

from __future__ import annotations

from tests.corpus.case import Case, case, cases

T = "# plain\nimport torch\nx = torch.arange(4.)"
W = T + "\nimport ipywidgets as widgets"
PLOT = T + "\nimport matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt"
TIME = T + "\nimport time"

WIDGETS = [
    *cases(
        W,
        """
## slider's value
slider = widgets.IntSlider(value=3, min=0, max=9)
y = x * slider.value
slider.value = 20
z = x * slider.value
del slider
## slider that calls back
seen = []
def moved(change):
    seen.append((x * change['new']).sum().item())
slider = widgets.FloatSlider(value=1.0, max=10.0)
slider.observe(moved, names='value')
for value in (2.0, 3.0):
    slider.value = value
y = x + len(seen)
del slider
## button pressed
presses = []
button = widgets.Button(description='step')
button.on_click(lambda b: presses.append(x.sum() + len(presses)))
button.click()
button.click()
y = presses[-1] * 2
del button
## progress bar
bar = widgets.IntProgress(max=3)
total = torch.zeros(4)
for k in range(3):
    total = total + x * k
    bar.value += 1
done = bar.value
del bar
## a widget whose text a loop changes
label = widgets.HTML('start')
for k in range(2):
    loss = (x * k).sum()
    label.value = f'<b>{loss.item():.1f}</b>'
said = label.value
del label
## widget that fails -> TraitError
y = x + 1
slider = widgets.IntSlider(value='many')
z = x + 2
## function of a widget's value
def curve(power=2):
    return (x ** power).sum()
box = widgets.interactive(curve, power=(1, 3))
box.update()
y = box.result
del box
""",
    )
]

TIMERS = [
    case(
        "time around",
        TIME,
        "start = time.perf_counter()\ny = x * 2\ntook = time.perf_counter() - start\nok = took > 0\ndel start, took",
    ),
    case(
        "timer of a lesson",
        TIME,
        """
        class Timer:
            def __init__(self):
                self.times = []
                self.start()
            def start(self):
                self.tik = time.time()
            def stop(self):
                self.times.append(time.time() - self.tik)
                return self.times[-1]
        timer = Timer()
        c = torch.zeros(4)
        for i in range(4):
            c[i] = x[i] + 1
        n = timer.stop() >= 0, len(timer.times)
        print(f'{len(timer.times)} lap')
        del timer
        """,
    ),
    case(
        "timed by timeit",
        TIME,
        "import timeit\nruns = []\nt = timeit.timeit(lambda: runs.append(x + 1), number=3)\nn = len(runs)\nok = t > 0\ndel t",
    ),
    case("a line magic that times", T, "%time y = x * 2\nz = y + 1", clock=True),
    case(
        "a clock in a loop",
        TIME,
        "end = time.time() + 60\nk = 0\nwhile time.time() < end and k < 3:\n    x = x + 1\n    k += 1\ndel end",
    ),
    case("sleep between", TIME, "a = x + 1\ntime.sleep(0.001)\nb = a * 2"),
    case(
        "a thread that waits",
        TIME,
        """
        import threading
        rung = []
        alarm = threading.Timer(0.001, lambda: rung.append(float(x.sum())))
        alarm.start()
        alarm.join()
        y = x * len(rung)
        del alarm
        """,
    ),
    case(
        "a manager that times",
        TIME,
        """
        from contextlib import contextmanager
        times = {}
        @contextmanager
        def timed(name):
            start = time.perf_counter()
            yield
            times[name] = time.perf_counter() - start
        with timed('add'):
            y = x + 1
        with timed('mul'):
            z = y * 2
        names = list(times)
        del times
        """,
    ),
]

PLOTS = [
    *cases(
        PLOT,
        """
## line
y = x ** 2
lines = plt.plot(x, y)
data = lines[0].get_ydata().tolist()
plt.close('all')
del lines
## losses plotted at each step
fig, ax = plt.subplots()
losses = []
for k in range(3):
    loss = (x - k).square().mean()
    losses.append(loss.item())
    ax.plot(losses)
n = len(ax.lines)
plt.close(fig)
del fig, ax
## weights as an image
w = torch.outer(x, x)
image = plt.imshow(w, cmap='gray')
limits = image.get_clim()
plt.close()
del image
## histogram
counts, edges, bars = plt.hist((x * 2).numpy(), bins=2)
plt.close()
del bars
## several axes
fig, axes = plt.subplots(1, 2)
for ax, f in zip(axes.flat, (torch.sin, torch.cos)):
    ax.plot(x, f(x * 0))
    ax.set_title(f.__name__)
titles = [ax.get_title() for ax in axes.flat]
plt.close(fig)
del fig, axes, ax
## figure in a file
import io
file = io.BytesIO()
plt.plot((x + 1).tolist())
plt.savefig(file, format='png')
plt.close()
png = file.getvalue()[:4]
del file
## plot of what needs gradients -> RuntimeError
w = torch.ones(3, requires_grad=True)
y = w * 2
line = plt.plot(y)
# %%
# plain
plt.close('all')
## style for one figure
with plt.rc_context({'lines.linewidth': 5}):
    y = x * 2
    line, = plt.plot(y)
    width = line.get_linewidth()
after = plt.rcParams['lines.linewidth']
plt.close()
del line
""",
    )
]

TRIED = [
    case(
        "prints inside",
        T,
        "def f(x):\n    print('in f', tuple(x.shape))\n    return x * 2\ny = f(x)\nprint(f'{y.sum().item():.1f}')\nz = f(y)",
        inductor=True,
    ),
    case(
        "until it is small",
        T,
        "steps = 0\nv = x.sum()\nwhile v > 1:\n    v = v / 2\n    steps += 1\nprint(steps, v)",
        inductor=True,
    ),
    case(
        "assertion",
        T,
        "y = x + 1\nassert y.sum() == 10, 'so far'\nassert (y > 2).all(), 'not all'\nz = 1",
        raises="AssertionError",
    ),
    case(
        "shapes that do not fit",
        T,
        "a = x + 1\nb = a @ torch.ones(3)\nc = 1",
        raises="RuntimeError",
        inductor=True,
    ),
    case(
        "sorted by a tensor",
        T,
        "rows = [x * k for k in (3, 1, 2)]\nby = sorted(rows, key=lambda r: r.sum().item())\nbest = max(rows, key=torch.sum)",
    ),
    case(
        "remembered results",
        T,
        "memo = {}\ndef power(k):\n    if k not in memo:\n        print('new', k)\n        memo[k] = x ** k\n    return memo[k]\na = power(2)\nb = power(2)\nc = a is b",
    ),
    case(
        "recursion",
        T,
        "def fold(t):\n    return t if len(t) == 1 else fold(t[: len(t) // 2]) + fold(t[len(t) // 2 :])\ny = fold(x)",
        inductor=True,
    ),
    case("last value shown", T, "x * 2\nx + 1", "_ * 2", "y = _ + __\ny;"),
    case(
        "values that change type",
        T,
        "y = x + 1\ny = y.tolist()\ny = torch.tensor(y[:2])\ny = y * 3\ny",
        inductor=True,
    ),
    case(
        "names swapped", T, "a, b = x, x * 2\na, b = b, a\na += 1\nc = a + b\na, b", inductor=True
    ),
    case(
        "builtin replaced for a while",
        T,
        "import builtins\nold = builtins.input\nbuiltins.input = lambda prompt='': '3'\nn = int(input('how many? '))\ny = x * n\nbuiltins.input = old",
    ),
    case(
        "mapped over a batch",
        T,
        "def f(v):\n    return (v ** 2).sum()\ng = torch.vmap(f)\nd = torch.func.grad(f)\ny = g(x.reshape(2, 2)), d(x)\nnames = g.__name__, d.__name__",
        differs="torch copies the annotations where functools.wraps shares them",
        differs_on=("2.14", "2.15"),
    ),
]

CASES: list[Case] = [*WIDGETS, *TIMERS, *PLOTS, *TRIED]
