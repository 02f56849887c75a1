"""The backends of this machine: which are available, and for the others why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.widgets import markup, plain
from dynamo_ext.widgets.markup import Html, code, element
from dynamo_ext.widgets.style import STYLE
from dynamo_ext.wording import is_command, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamo_ext.records import BackendInfo, OptionSpec

_OURS = "dynamo_ext"


@dataclass(frozen=True)
class BackendTable:
    """Backends as a table; a single one with its options.

    A notebook shows it as html, a terminal as text.
    """

    infos: tuple[BackendInfo, ...]

    def html(self) -> Html:
        """Render the table, and for a single backend its options."""
        return element("div", STYLE, *self._parts(), class_="dx")

    def text(self) -> str:
        """Render the same for a terminal."""
        if not self.infos:
            return "No backend matches."
        parts = [self._text_table()]
        if len(self.infos) == 1:
            parts += [plain.paragraph(self.infos[0].summary), _options_text(self.infos[0])]
        return "\n\n".join(filter(None, parts))

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return self.text()

    def _parts(self) -> list[object]:
        if not self.infos:
            return [element("p", "No backend matches.")]
        rows = [
            [
                element("b", info.name),
                _available(info),
                info.availability.version,
                info.availability.device,
                _about(info),
            ]
            for info in self.infos
        ]
        headers = ["Backend", "Available", "Version", "Device", "About"]
        parts: list[object] = [markup.table("Backends", headers, rows)]
        if len(self.infos) == 1:
            parts.append(_options(self.infos[0]))
        return parts

    def _text_table(self) -> str:
        rows = []
        for info in self.infos:
            here = info.availability
            why = [sentence(here.reason), here.remedy] if not here.available else [info.summary]
            about = "\n".join(filter(None, why))
            rows.append([info.name, _available(info), here.version, here.device, about])
        return plain.table(["Backend", "Available", "Version", "Device", "About"], rows)


def render_backends(infos: Sequence[BackendInfo]) -> BackendTable:
    """Make a table of backends that a notebook shows as html and a terminal as text.

    Parameters
    ----------
    infos
        The backends, in the order of the rows. A single one is shown with its options.

    Returns
    -------
    BackendTable
        With ``_repr_html_``, and its text as ``repr`` and ``str``.
    """
    return BackendTable(tuple(infos))


def _available(info: BackendInfo) -> str:
    return "✓ yes" if info.availability.available else "✗ no"


def _about(info: BackendInfo) -> Html:
    """Say what it is; where it is missing, why, and the command that mends it."""
    parts: list[object] = [info.summary]
    if info.origin not in {"", _OURS}:
        parts += [" ", element("span", f"({info.origin})", class_="dx-quiet")]
    here = info.availability
    if not here.available:
        parts += [markup.BREAK, sentence(here.reason)]
        if here.remedy:
            known = is_command(here.remedy)
            parts += [markup.BREAK, code(here.remedy) if known else sentence(here.remedy)]
    return markup.join(parts)


def _shown(option: OptionSpec) -> tuple[str, str]:
    choices = f" One of {', '.join(option.choices)}." if option.choices else ""
    default = "''" if option.default == "" else str(option.default)
    return default, sentence(option.help) + choices


def _options(info: BackendInfo) -> Html:
    title = element("h4", "Options")
    if not info.options:
        return markup.join([title, element("p", f"{info.name} takes no options.")])
    rows = [
        [code(option.name), code(_shown(option)[0]), _shown(option)[1]] for option in info.options
    ]
    return markup.join([title, markup.table("Options", ["Option", "Default", "Help"], rows)])


def _options_text(info: BackendInfo) -> str:
    if not info.options:
        return f"{info.name} takes no options."
    rows = [[option.name, *_shown(option)] for option in info.options]
    return plain.table(["Option", "Default", "Help"], rows)
