"""The statements that random programs are made of, by kind, with places to fill in.

``{new}`` is a name that may be new, ``{t}``, ``{u}``, ``{v}`` are tensors, ``{f}``, ``{g}``
floating-point ones, ``{i}`` one of integers, ``{b}`` one of booleans, ``{d}``, ``{e}`` dimensions,
``{k}`` a small index, ``{n}`` an integer, ``{s}`` a number, ``{dtype}`` a dtype. What does not fit
raises, and is not taken.
"""

from __future__ import annotations

_VIEWS = """
{new} = {t}.transpose({d}, {e})
{new} = {t}.permute(*range({t}.dim() - 1, -1, -1))
{new} = {t}.mT
{new} = {t}.movedim(0, -1)
{new} = {t}[{k}]
{new} = {t}[..., {k}]
{new} = {t}[{k}:]
{new} = {t}[:, {k}:]
{new} = {t}[..., :-1]
{new} = {t}[::2]
{new} = {t}[..., ::2]
{new} = {t}[..., None]
{new} = {t}[None]
{new} = {t}[{n}:]
{new} = {t}[: {n}]
{new} = {t}.unsqueeze({d})
{new} = {t}.squeeze()
{new} = {t}.squeeze({d})
{new} = {t}.reshape(-1)
{new} = {t}.reshape({t}.shape[0], -1)
{new} = {t}.view(-1)
{new} = {t}.view({t}.shape)
{new} = {t}.view(-1, 1)
{new} = {t}.flatten()
{new} = {t}.ravel()
{new} = {t}.expand(2, *{t}.shape)
{new} = {t}.expand_as({u})
{new} = {t}.narrow({d}, {k}, 1)
{new} = {t}.select({d}, {k})
{new} = {t}.diagonal()
{new} = {t}.unfold({d}, 2, 1)
{new} = {t}.chunk(2, {d})[{k}]
{new} = {t}.split(1, {d})[-1]
{new} = {t}.unbind({d})[{k}]
{new} = {t}.detach()
{new} = {t}.contiguous()
{new} = {t}
{new} = {t}.as_strided((2,), (1,), {k})
{new} = {t}.view(torch.int32)
{new} = {t}.real
{new} = {t}.imag
{new} = {t}.conj()
{new} = {t}.unflatten(-1, (1, -1))
{new} = {t}.T
"""

_IN_PLACE = """
{t}.add_({s})
{t}.add_({u})
{t}.sub_({u}, alpha=2)
{t}.mul_({s})
{t}.mul_({u})
{t}.copy_({u})
{t}.zero_()
{t}.fill_({s})
{t}.neg_()
{t}.abs_()
{t}.clamp_(-1, 1)
{t}.relu_()
{t}.sigmoid_()
{t}.square_()
{t}.cumsum_({d})
{t}.tril_()
{t}.masked_fill_({b}, {s})
{t}.masked_fill_({t} > 0, {s})
{t}.index_fill_({d}, torch.tensor([0]), {s})
{t}.index_add_(0, torch.tensor([0, 0]), {u}[:2].clone())
{t}.index_copy_(0, torch.tensor([1, 0]), {u}[:2].clone())
{t}.scatter_({d}, torch.zeros_like({t}, dtype=torch.int64), {s})
{t}.addcmul_({u}, {v})
{t}.lerp_({u}, 0.5)
{t}.logical_not_()
{t}.bitwise_and_({u})
{t}.t_()
{t}.unsqueeze_(0)
{t}.squeeze_()
{t}.transpose_({d}, {e})
{t} += {u}
{t} += {s}
{t} *= {s}
{t} -= {u}
{t}[{k}] = {s}
{t}[{k}] = {u}
{t}[..., {k}] = {s}
{t}[{k}:] = {u}
{t}[:, {k}] += {s}
{t}[..., ::2] *= {s}
{t}[{t} > 0] = {s}
{t}[{t} < 0] *= {s}
{t}[torch.tensor([0])] = {u}
{t}[{n}:] = {s}
{t}.diagonal().add_({s})
{t}.transpose({d}, {e}).copy_({u})
{t}.view(-1)[{k}] = {s}
torch.add({t}, {u}, out={v})
with torch.no_grad(): {t}.mul_({s})
"""

_POINTWISE = """
{new} = {t} + {u}
{new} = {t} - {u}
{new} = {t} * {u}
{new} = {t} / ({u}.abs() + 1)
{new} = {t} + {s}
{new} = {t} * {s}
{new} = {s} - {t}
{new} = {t} * {n}
{new} = {t} // 2
{new} = {t} % 3
{new} = {t} ** 2
{new} = -{t}
{new} = {t} > {u}
{new} = {t} <= {s}
{new} = {t} == {u}
{new} = ~{b}
{new} = {b} & {b}
{new} = {i} & 3
{new} = {i} << 1
{new} = {f}.sin()
{new} = {f}.exp().clamp(max=8)
{new} = {f}.tanh()
{new} = {f}.sigmoid()
{new} = {f}.abs().sqrt()
{new} = {f}.abs().log1p()
{new} = {f}.floor()
{new} = {f}.round()
{new} = {f}.rsqrt().nan_to_num(0.5, 0.5, 0.5)
{new} = {f}.frac()
{new} = {t}.relu()
{new} = {t}.abs()
{new} = {t}.sign()
{new} = {t}.clamp(-1, 1)
{new} = {t}.to({dtype})
{new} = {t}.bool()
{new} = torch.nn.functional.gelu({f})
{new} = torch.nn.functional.silu({f})
{new} = torch.nn.functional.leaky_relu({f})
{new} = torch.maximum({t}, {u})
{new} = torch.minimum({t}, {u})
{new} = torch.where({b}, {t}, {u})
{new} = torch.where({t} > 0, {t}, {s})
{new} = torch.lerp({f}, {g}, 0.25)
{new} = torch.atan2({f}, {g} + 3)
{new} = torch.logical_or({t}, {u})
{new} = torch.clone({t})
"""

_REDUCTIONS = """
{new} = {t}.sum()
{new} = {t}.sum({d})
{new} = {t}.sum({d}, keepdim=True)
{new} = {f}.mean()
{new} = {f}.mean({d}, keepdim=True)
{new} = {t}.amax({d})
{new} = {t}.amin()
{new} = {t}.max({d}).values
{new} = {t}.prod({d})
{new} = {t}.any({d})
{new} = {t}.all()
{new} = {f}.var({d})
{new} = {f}.std()
{new} = {f}.norm()
{new} = {f}.logsumexp({d})
{new} = {f}.softmax({d})
{new} = {f}.log_softmax({d})
{new} = {t}.cumsum({d})
{new} = {t}.cumprod({d})
{new} = {t}.sort({d}).values
{new} = {t}.topk(1, {d}).values
{new} = {t}.count_nonzero()
{new} = {t}.cummax({d}).values
{new} = torch.nn.functional.layer_norm({f}, {f}.shape[-1:])
"""

_COMBINATIONS = """
{new} = torch.cat([{t}, {u}], {d})
{new} = torch.stack([{t}, {u}], {d})
{new} = {f} @ {g}
{new} = {f} @ {g}.mT
{new} = {f}.mT @ {f}
{new} = torch.nn.functional.linear({f}, {g})
{new} = torch.einsum("...i,...i->...", {f}, {g})
{new} = torch.outer({f}.reshape(-1), {g}.reshape(-1))
{new} = {t}.gather({d}, torch.zeros_like({t}, dtype=torch.int64))
{new} = {t}.index_select({d}, torch.tensor([1, 0]))
{new} = {t}[torch.tensor([1, 0, 1])]
{new} = {t}[:, torch.tensor([1, 0])]
{new} = {t}[{b}]
{new} = {t}.masked_fill({b}, {s})
{new} = {t}.repeat(2, 1)
{new} = {t}.repeat_interleave(2, {d})
{new} = {t}.roll(1, {d})
{new} = {t}.flip({d})
{new} = {t}.tril()
{new} = {t}.scatter_add({d}, torch.zeros_like({t}, dtype=torch.int64), {t})
{new} = {t}.index_put((torch.tensor([0, 0]),), {u}, accumulate=True)
{new} = torch.nn.functional.pad({t}, (1, 2))
{new} = torch.nn.functional.pad({t}, (-1, 1), value=2)
{new} = torch.nn.functional.one_hot({i}.abs() % 4, 4)
{new} = torch.nn.functional.conv1d({f}.reshape(1, 1, -1), torch.ones(1, 1, 2, dtype={f}.dtype))
{new} = torch.nn.functional.max_pool1d({f}.reshape(1, 1, -1), 2)
{new} = torch.broadcast_to({t}, (2, *{t}.shape)).clone()
{new} = torch.complex({f}, {f} * 2)
"""

_SIZES = """
{new} = torch.zeros({n}, dtype={dtype})
{new} = torch.ones({n}, {n})
{new} = torch.full(({n},), {s})
{new} = torch.full(({n},), {n} >= 3, dtype=torch.bool)
{new} = torch.full(({n},), {n}, dtype={dtype})
{new} = torch.arange({n})
{new} = torch.arange({n}, dtype={dtype})
{new} = torch.eye({n})
{new} = torch.tensor({n})
{new} = torch.tensor([{n}, {n}])
{new} = torch.linspace(0, 1, {n})
{new} = torch.zeros_like({t})
{new} = torch.full_like({t}, {s})
{new} = {t}.new_ones({n}, 2)
{new} = {t}.new_tensor({s})
{new} = {t}.new_zeros({t}.shape)
{new} = {t}.numel() * 0.5
{new} = {t}.shape[0] + {n}
{new} = {t}.size({d})
{new} = len({t}) / 2
{new} = {n} * {n} - 1
{new} = {n} > 2
{new} = {t}.dim()
{new} = {s} * 2
{new} = {t} * {t}.shape[0]
{new} = {t} + {t}.shape[-1] / 2
{new} = {t} + 1 if {n} > 2 else {t}
{new} = {t}.stride(0)
{new} = {t}.is_contiguous()
{new} = {t}.sum().item()
{new} = int({t}.abs().sum()) + 1
if {n} > 2: {t}.add_(1)
if {t}.shape[0] == 2: {t} = {t} * 2
if {t}.sum() > 0: {u} = {u} + 1
for _ in range(2): {t} = {t} * {s} + 1
for index in range({t}.shape[0]): {t}[index] += index
"""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


KINDS: dict[str, list[str]] = {
    "view": _lines(_VIEWS),
    "in place": _lines(_IN_PLACE),
    "pointwise": _lines(_POINTWISE),
    "reduction": _lines(_REDUCTIONS),
    "combination": _lines(_COMBINATIONS),
    "size": _lines(_SIZES),
}

WEIGHTS = {
    "view": 28,
    "in place": 22,
    "pointwise": 20,
    "reduction": 8,
    "combination": 12,
    "size": 10,
}
"""How often a statement of each kind is drawn, of 100."""
