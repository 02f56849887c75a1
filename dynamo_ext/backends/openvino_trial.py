"""One operation in OpenVINO and in eager, on made-up data: the surest answer there is.

The frontend converts much that it gets wrong (NaN, signs, arguments that it drops), so that a
conversion alone says little. A trial takes about 20 ms, once for all nodes that are alike.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import openvino_limits, openvino_session, verify
from dynamo_ext.backends.layout import hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch.fx import GraphModule, Node

_MOST = 2**22
"""Elements from which an input is not made up in full: the trial takes smaller ones."""
