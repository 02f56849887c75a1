"""The README as the site's first page: a hook of MkDocs (``mkdocs.yml``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(!?)\[(?P<text>[^\]]+)\]\((?P<target>[^)#:]+)\)")
NOTEBOOKS = "".join(
    f"- [{path.stem.replace('_', ' ').capitalize()}](notebooks/{path.stem}.html)\n"
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = f"{_LINK.sub(_moved, text)}\n## Notebooks\n\n{_as_html(NOTEBOOKS)}"
    files.append(File.generated(config, "index.md", content=page))
    return files


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
