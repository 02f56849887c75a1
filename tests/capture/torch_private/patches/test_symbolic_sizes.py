"""Products of symbolic sizes are computed once."""

import torch
from torch.fx.experimental.sym_node import SymNode

import dynamo_ext


def test_a_product_is_computed_once(monkeypatch):
    products, upstream = [], SymNode._mul

    def multiplied(one, other):
        products.extend([(one.expr, other.expr)] * (1 not in (one.expr, other.expr)))
        return upstream(one, other)

    monkeypatch.setattr(SymNode, "_mul", multiplied)
    layers = torch.nn.Sequential(*[torch.nn.Conv2d(2, 2, 1) for _ in range(20)])
    fast, x = dynamo_ext.optimize("aot_eager", dynamic=True)(layers), torch.ones(3, 2, 5, 7)
    torch.testing.assert_close(fast(x), layers(x))
    # Once where no trace is, and for each trace that has not written it down.
    assert 0 < max(map(products.count, products)) < 5
