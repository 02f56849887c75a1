from __future__ import annotations

import pytest

from dynamo_ext import widgets
from dynamo_ext.records.common import Availability, BackendInfo, OptionSpec
from dynamo_ext.widgets import plain_text, render_backends

HERE = BackendInfo(
    "inductor",
    "torch",
    "PyTorch's own compiler.",
    Availability(available=True, version="2.13.0", device="cpu"),
    (OptionSpec("mode", "default", "How hard to tune", ("default", "max")), OptionSpec("n", 0, "")),
)
GONE = BackendInfo(
    "tvm",
    "dynamo_ext",
    "Apache TVM <b>",
    Availability(available=False, reason="tvm is not installed", remedy="pip install apache-tvm"),
)


def test_availability_is_a_word_and_a_sign(page):
    table = render_backends([HERE, GONE])
    read = page(table._repr_html_()).text
    assert "inductor ✓ yes 2.13.0 cpu PyTorch's own compiler. (torch)" in read
    assert "tvm ✗ no Apache TVM <b> tvm is not installed. pip install apache-tvm" in read
    assert "Options" not in read


def test_text_fits_and_gives_the_command():
    made = repr(render_backends([HERE, GONE]))
    assert str(render_backends([HERE, GONE])) == made
    assert "pip install apache-tvm" in made
    assert max(map(len, made.split("\n"))) <= plain_text.WIDTH


def test_a_single_backend_shows_its_options(page):
    table = render_backends([HERE])
    assert "mode default How hard to tune. One of default, max." in page(table._repr_html_()).text
    assert "One of default, max." in repr(table)
    assert "tvm takes no options." in repr(render_backends([GONE]))
    assert "tvm takes no options." in render_backends([GONE])._repr_html_()


def test_no_backend():
    assert "No backend matches." in repr(render_backends([]))
    assert "No backend matches." in render_backends([])._repr_html_()


def test_the_package_offers_its_public_names_and_no_others():
    assert all(getattr(widgets, name) for name in widgets.__all__)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = widgets.other
