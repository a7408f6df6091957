#!/usr/bin/env python3
"""Builds the book (`make book`) in target/book and checks all its links and anchors.

Pages link to each other and to files of the tree as on a code host. mdBook only knows the pages
of docs/SUMMARY.md. This script rewrites links that leave docs/: to the page that includes the
file, or else to the file in the tree. Prints a line for each broken link, and exits with 1 if
there is any.
"""

import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS, BOOK = ROOT / "docs", ROOT / "target/book"
INCLUDE = re.compile(r"\{\{#include (\S+)\}\}")
LINK = re.compile(r'(<(?:a|img)\b[^>]*?\b(?:href|src)=")([^"]*)(")')


class Ids(HTMLParser):
    """Collects the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {value for name, value in attrs if value and (name == "id" or (name == "name" and tag == "a"))}


def included() -> dict[Path, Path]:
    """Files outside docs/ that a page includes completely, each with its page."""
    pages = {}
    for page in DOCS.rglob("*.md"):
        whole = INCLUDE.fullmatch(page.read_text().strip())
        if whole:
            pages[(page.parent / whole[1]).resolve()] = page
    return pages


def built(page: Path) -> Path:
    """The path of a page of docs/ in the built book."""
    return BOOK / page.relative_to(DOCS).with_suffix(".html")


class Book:
    """The built book, and the information to resolve its links."""

    def __init__(self) -> None:
        self.pages = included()
        self.home = {built(page): source for source, page in self.pages.items()}
        self.ids: dict[Path, set[str]] = {}
        self.wrong: list[str] = []

    def anchors(self, page: Path) -> set[str]:
        if page not in self.ids:
            parser = Ids()
            parser.feed(page.read_text())
            self.ids[page] = parser.found
        return self.ids[page]

    def source(self, page: Path) -> Path:
        """The source file of a page; the page's links are relative to it."""
        return self.home.get(page, DOCS / page.relative_to(BOOK).with_suffix(".md"))

    def target(self, page: Path, link: str) -> str | None:
        """The link as it must be in the book; None if its target does not exist."""
        path, _, anchor = link.partition("#")
        path = urllib.parse.unquote(path)
        to = page if not path else Path(os.path.normpath(self.source(page).parent / path))
        if path:
            if not to.exists() and to.suffix == ".html":
                # mdBook has rewritten every .md to .html.
                to = to.with_suffix(".md")
            if not to.exists():
                return None
            to = built(self.pages[to]) if to in self.pages else self.in_book(to)
        if anchor and to.suffix == ".html" and anchor not in self.anchors(to):
            return None
        at = os.path.relpath(to, page.parent) if path else ""
        return urllib.parse.quote(at) + (f"#{anchor}" if anchor else "")

    def in_book(self, file: Path) -> Path:
        """The path of a file of docs/ in the book, or else the file itself."""
        if file == DOCS / "SUMMARY.md":
            return BOOK / "index.html"
        if file.is_relative_to(DOCS) and file.is_file():
            copy = built(file) if file.suffix == ".md" else BOOK / file.relative_to(DOCS)
            if copy.exists():
                return copy
        return file

    def mend(self, page: Path) -> None:
        """Corrects the links of a page."""
        text = page.read_text()
        main = re.search(r"<main>.*</main>", text, re.DOTALL)
        if not main:
            return

        def mended(match: re.Match[str]) -> str:
            link = match[2].replace("&amp;", "&")
            if re.match(r"[a-z][a-z0-9+.-]*:|//", link):
                return match[0]
            to = self.target(page, link)
            if to is None:
                self.wrong.append(f"{self.source(page).relative_to(ROOT)}: broken link {link}")
                return match[0]
            return match[1] + to.replace("&", "&amp;") + match[3]

        page.write_text(text[: main.start()] + LINK.sub(mended, main[0]) + text[main.end() :])


def main() -> int:
    subprocess.run(["mdbook", "build", ROOT], check=True)
    book = Book()
    pages = [page for page in sorted(BOOK.rglob("*.html")) if page.name not in ("404.html", "toc.html", "index.html")]
    for page in pages:
        book.mend(page)
    # mdBook writes the first page twice; overwrite the uncorrected copy.
    shutil.copy(built(DOCS / "overview.md"), BOOK / "index.html")
    for wrong in book.wrong:
        print(f"book: {wrong}", file=sys.stderr)
    if not book.wrong:
        print(f"book: {len(pages)} pages, all links are valid: {BOOK.relative_to(ROOT)}/index.html")
    return 1 if book.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
