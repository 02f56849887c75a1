"""The pages of the site that other files hold: a hook of MkDocs (``mkdocs.yml``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from dynamo_ext.backends import registry
from dynamo_ext.magics import compare_arguments
from dynamo_ext.magics.dynamo import DynamoMagics

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
_MARK = re.compile(r"^[ ]*::\n\n?|(?<=:):", re.MULTILINE)
_LINK = re.compile(r"(!?)\[(?P<text>[^\]]+)\]\((?P<target>[^)#:]+)\)")
NOTEBOOKS = "".join(
    f"- [{path.stem.replace('_', ' ').capitalize()}](notebooks/{path.stem}.html)\n"
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the first page, and the reference of magics and options."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = f"{_LINK.sub(_moved, text)}\n## Notebooks\n\n{_as_html(NOTEBOOKS)}"
    pages = {"index.md": first, "magics.md": _magics(), "options.md": _options()}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def _magics() -> str:
    """The help of the magics, as a notebook shows it."""
    compare = compare_arguments.HELP + compare_arguments.parser().format_help()
    texts = {"%dynamo": DynamoMagics.dynamo.__doc__ or "", "%%dynamo compare": compare}
    sections = (
        f"\n## `{title}`\n\n```text\n{_MARK.sub('', text).rstrip()}\n```\n"
        for title, text in texts.items()
    )
    return "# Magics\n" + "".join(sections)


def _options() -> str:
    """A table of each backend's options, for `--opt KEY=VALUE` and `options={...}`."""
    said = "`--opt KEY=VALUE` in a cell, `options={...}` in Python; `%dynamo backends NAME` too."
    return f"# Options of each backend\n\n{said}\n" + "".join(map(_backend, registry.OURS))


def _backend(name: str) -> str:
    backend = registry.get(name)
    rows = [
        f"| `{each.name}` | `{each.default!r}` | {', '.join(each.choices)} | {each.help} |\n"
        for each in backend.options
    ]
    head = "| option | default | choices | what it does |\n|---|---|---|---|\n"
    table = head + "".join(rows) if rows else "It has no options.\n"
    return f"\n## `{name}`\n\n{backend.summary}.\n\n{table}"


def _moved(found: re.Match[str]) -> str:
    """A link as it is from the folder of the pages; what has no page there stays text."""
    mark, text, target = found[1], found["text"], found["target"]
    if target.startswith("docs/"):
        return f"{mark}[{text}]({target.removeprefix('docs/')})"
    if target.endswith(".ipynb"):
        return f'<a href="{target.removesuffix(".ipynb")}.html">{text}</a>'
    return text


def _as_html(links: str) -> str:
    """Links to what is put beside the site later, which MkDocs must not look for."""
    return _LINK.sub(lambda m: f'<a href="{m["target"]}">{m["text"]}</a>', links)
