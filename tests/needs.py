"""Leaving out a file or a test that cannot run here; files, without importing their packages.

Every worker collects every test. ``pytest.importorskip`` would load TensorFlow, JAX and TVM into
each of them: seconds, and gigabytes that each full garbage collection goes through.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from dynamo_ext.backends import registry
from dynamo_ext.torch_private import version


def needs(package: str) -> None:
    """Skip the file that is being collected unless a package is installed."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)


def needs_backend(name: str) -> None:
    """Skip the test that runs where a backend cannot, for the reason that the backend gives."""
    answer = registry.probe(registry.get(name))
    if not answer.available:
        pytest.skip(f"{name}: {answer.reason}")


def needs_feature(feature: str) -> None:
    """Skip the file that is being collected where this torch lacks what a feature uses."""
    if reason := version.reason_without(feature):
        pytest.skip(reason, allow_module_level=True)


def captures_less(version: str, what: str) -> pytest.MarkDecorator:
    """Skip a test on torch before a version, of which a user of such a torch loses something."""
    import torch

    return pytest.mark.skipif(torch.__version__ < version, reason=f"torch before {version} {what}")
