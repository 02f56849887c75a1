"""The backends of this machine: which are available, and for the others why not."""

from collections.abc import Iterator, Sequence

from dynamo_ext.formatting import sentence
from dynamo_ext.records.common import BackendInfo
from dynamo_ext.widgets.blocks import Block, Shown, Table
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import Markup, code, element, quiet_words

_OURS = "dynamo_ext"


def render_backends(infos: Sequence[BackendInfo]) -> Shown:
    """A table of backends, as html and as text, in their order; a single one with its options."""
    return Shown(_blocks(infos))


def _blocks(infos: Sequence[BackendInfo]) -> Iterator[Block]:
    if not infos:
        yield "No backend matches."
    rows = [
        [
            element("b", info.name),
            "✓ yes" if here.available else "✗ no",
            here.version,
            here.device,
            _about(info),
        ]
        for info in infos
        for here in [info.availability]
    ]
    yield Table("Backends", ["Backend", "Available", "Version", "Device", "About"], rows)
    if len(infos) == 1:
        yield from _options(infos[0])


def _about(info: BackendInfo) -> Markup:
    parts: list[object] = [info.summary]
    if info.origin not in {"", _OURS}:
        parts += [" ", quiet_words(f"({info.origin})")]
    here = info.availability
    if not here.available:
        parts += [markup.BREAK, sentence(here.reason)]
        parts += [markup.BREAK, markup.remedy(here.remedy)] if here.remedy else []
    return markup.join(parts)


def _options(info: BackendInfo) -> Iterator[Block]:
    if not info.options:
        yield f"{info.name} takes no options."
    rows = []
    for option in info.options:
        choices = f" One of {', '.join(option.choices)}." if option.choices else ""
        default = "''" if option.default == "" else str(option.default)
        rows.append([code(option.name), code(default), sentence(option.help) + choices])
    yield Table("Options", ["Option", "Default", "Help"], rows, title="Options")
    for precision, reason in info.lacking:
        yield f"No {precision} here: {sentence(reason)}"
