"""Docstrings, comments and messages use plain words and the field's terms."""

import ast
import io
import re
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "dynamo_ext"

WORDS = (  # what is not written, and what to write instead
    (r"(?<!`)told|tells? of|hears?", "reported, receives, called with, distinguished from"),
    (r"(?:cut|cuts|cutting)[ -]up|taken apart", "decomposed, partitioned"),
    (r"anew|once more", "again, re-"),
    (r"(?<!those )(?<!user )who(?:ever)?", "the caller, the backend that: a program is it"),
    (r"(?:no|some|every)body", "no backend, a tool, all candidates"),
    (r"yardstick", "reference"),
    (r"in (?:the )?company", "within the program"),
    (r"mend(?:s|ed|ing)?", "fix, remedy"),
    (r"g[ai]ves? way", "fell back to eager"),
    (r"anything at all", "uninitialised memory, any error"),
    (r"(?<!there )(?:is|are) no(?!,| longer| more| less| wider| worse)", "is not a"),
)
PATTERNS = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), instead) for words, instead in WORDS]


def prose(source: str) -> list[tuple[int, str]]:
    """Every string and every run of comments on neighbouring lines, with its first line."""
    found: list[tuple[int, str]] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, text = token.start[0], token.string.lstrip("# ")
            if found and line == last + 1:
                found[-1] = found[-1][0], f"{found[-1][1]} {text}"
            else:
                found.append((line, text))
            last = line
    strings = (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Constant))
    return found + [(each.lineno, each.value) for each in strings if isinstance(each.value, str)]


def test_the_prose_of_the_package_is_plain():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in prose(path.read_text()):
            for pattern, instead in PATTERNS:
                if hit := pattern.search(" ".join(text.split())):
                    found.append(f"{path.name}:{line}: {hit.group()!r}: write {instead!r}")
    assert not found, "\n".join(found)
