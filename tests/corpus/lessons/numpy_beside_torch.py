"""Cells of lessons that have NumPy beside torch: shared memory, in place, its own random numbers."""

from __future__ import annotations

from tests.corpus.case import Case, cases

NP = "# plain\nimport numpy as np\nimport torch\nx = torch.ones(3)"

CASES: list[Case] = [
    *cases(
        NP,
        """
## array of a tensor, in place [inductor]
n = x.numpy()
n += 1
y = x * 2
## new array of a tensor, in place
y = torch.zeros(3)
m = np.asarray(y)
m += 1
z = y + 1
## element set, then another view [inductor]
n = x.numpy()
n[0] = 5
y = x * 2
m = np.asarray(y)
m += 1
y
## logged before and after
log = []
log.append(x.sum().item())
n = x.numpy()
n *= 3
log.append(float(n.sum()))
## array that torch looks at
a = np.arange(4.)
t = torch.from_numpy(a)
a[1] = 10
s = t.sum()
t[0] = 7
a
## rows of an array
m = torch.arange(6.).reshape(2, 3)
for row in m.numpy():
    row += 1
total = m.sum()
## out of a ufunc
n = x.numpy()
np.add(n, 1, out=n)
np.multiply(n, 2, n)
y = x + 0
## methods of an array
t = torch.tensor([3., 1., 2.])
n = t.numpy()
n.sort()
y = t * 1
n.fill(4)
z = t + 1
## slices of an array
t = torch.zeros(2, 3)
n = t.numpy()
n[:, 1] = 5
n[n > 4] -= 1
n[0, ::2] = [7, 8]
y = t * 2
## a loop in place
n = x.numpy()
for i in range(3):
    n += i
    print(i, x.sum().item(), n.sum())
## random numbers of both
a = np.random.rand(2)
b = torch.rand(2)
c = np.random.randint(0, 9, 3)
d = b + 1
e = np.random.rand()
## a generator of NumPy's
rng = np.random.default_rng(5)
x1 = torch.tensor(rng.integers(0, 9, 3))
y = x1 * 2
z = rng.random()
del rng
## shuffled in place
t = torch.arange(5)
np.random.shuffle(t.numpy())
y = t + 1
t
## scalar of NumPy's [inductor]
s = np.float64(2.5)
y = x * s
z = x + float(s)
k = x * int(np.int64(3))
## ufunc of a tensor
y = np.sqrt(x * 4)
z = x + 1
type(y).__name__
## array of a tensor that needs gradients -> RuntimeError
w = torch.ones(2, requires_grad=True)
y = w * 2
n = y.numpy()
z = 1
## shapes that do not fit -> ValueError
a = x + 1
n = np.ones(3) + np.ones(2)
b = x + 2
## losses collected [inductor]
losses = np.zeros(3)
w = torch.tensor(1.)
for i in range(3):
    w = w * 0.5
    losses[i] = w.item()
best = losses.argmin()
## saved and loaded by NumPy
import io
file = io.BytesIO()
np.save(file, (x * 2).numpy())
file.seek(0)
y = torch.from_numpy(np.load(file)) + 1
del file
## copied and not copied [inductor]
a = torch.tensor(x.numpy())
b = torch.as_tensor(x.numpy())
x += 1
c = a + b
a, b
## vectorized Python
f = np.vectorize(lambda v: v * 2 + 1)
y = torch.tensor(f(x.numpy()))
z = y - 1
del f
## in place in a function
def scale(t, factor):
    n = t.numpy()
    n *= factor
    return t + 0
y = scale(x, 2)
z = scale(x, 3)
## swapped elements
t = torch.tensor([1., 2., 3.])
n = t.numpy()
n[0], n[2] = n[2], n[0]
y = t * 10
t
""",
    )
]
