"""The written pages, their code blocks and their links."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]))
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str, pages: tuple[Path, ...] = PAGES) -> Iterator[Block]:
    """Every fenced block in one of the languages."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            if match["language"] in languages:
                line = text.count("\n", 0, match.start()) + 1
                yield Block(page, line, match["language"], textwrap.dedent(match["body"]))


def output_under(block: Block) -> str:
    """The block of text directly below a block, without the empty lines around it."""
    below = block.line + block.body.count("\n") + 3
    [output] = [text for text in blocks("text", pages=(block.page,)) if text.line == below]
    return output.body.strip("\n")


def links(page: Path) -> list[str]:
    """Targets of a page's links, without anchors and without links inside the page."""
    targets = (match["target"].partition("#")[0] for match in _LINK.finditer(page.read_text(encoding="utf-8")))
    return [target for target in targets if target]
