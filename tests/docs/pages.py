"""The pages of the documentation as tests see them: their code blocks, links, anchors and option names."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

DOCS = ROOT / "docs"

#: The pages whose examples run: the site and the README.
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

#: Blocks in these languages run.
RUNNABLE = ("sh", "console", "python")

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)

NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^>]+?) -->\s*\Z")

LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")

IMAGE = re.compile(r"!\[[^\]]*\]\((?P<target>[^()\s]+)\)")

CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and why it is not run, if so."""

    language: str
    code: str
    line: int
    reason: str | None


def name_of(page):
    """Return the name of a page relative to the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(text):
    """Return the blocks of a page in runnable languages."""
    blocks = []
    for match in FENCE.finditer(text):
        language = match["info"].strip()
        if language in RUNNABLE:
            before = NOT_RUN.search(text[: match.start()])
            line = text.count("\n", 0, match.start()) + 1
            blocks.append(Block(language, match["code"], line, before["reason"] if before else None))
    return blocks


def commands_of(block):
    """Return the shell commands of a block, lines that end in a backslash, pipe or `&&` joined to the next."""
    lines = block.code.splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return re.sub(r"\\\n|(?<=\|)\n|(?<=&&)\n", " ", "\n".join(lines)).splitlines()


def prose_of(text):
    """Return a page without its blocks."""
    return FENCE.sub("", text)


def anchors_of(text):
    """Return the anchors of the headings of a page, as GitHub and MyST form them."""
    anchors = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose_of(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchors.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return anchors


def links_of(text):
    """Return the targets of the links and images of a page."""
    prose = CODE_SPAN.sub("", prose_of(text))
    return [match["target"] for pattern in (LINK, IMAGE) for match in pattern.finditer(prose)]


def toctrees_of(page):
    """Return the pages that the toctrees of a page list."""
    listed = []
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        if match["info"].strip() == "{toctree}":
            for line in match["code"].splitlines():
                if line.strip() and not line.startswith(":"):
                    name = re.sub(r".*<(.+)>$", r"\1", line.strip())
                    listed.append((page.parent / f"{name}.md").resolve())
    return listed
