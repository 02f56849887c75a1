"""What the tests define goes to other processes as a notebook's own code does: by value."""

from __future__ import annotations

import cloudpickle
import pytest


@pytest.fixture(autouse=True, scope="module")
def _by_value(request):
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
