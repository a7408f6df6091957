#!/usr/bin/env python3
"""Checks the links of the documentation: check-links.py [FOLDER]; default: the repository.

- Relative links and images in all Markdown files: the file must exist, and the heading if the
  link has an anchor.
- Mentions of docs/NAME.md in other files (comments, error messages, scripts): the file must
  exist, and the heading in `docs/NAME.md#anchor` and in `docs/NAME.md, "Heading"`.

External links are not checked. Prints FILE:LINE and the error for each broken link, and exits
with 1 if there is any.
"""

import os
import pathlib
import re
import sys
import urllib.parse

from tracked import tracked

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\)[^()\s<>]*)?)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?([^\s<>]+)>?")
ATTRIBUTE = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]+)\"")
ID = re.compile(r"<[a-z]+\b[^>]*?\b(?:id|name)=\"([^\"]+)\"")
FENCE = re.compile(r"^\s*(```+|~~~+)")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
MENTION = re.compile(r"(?P<before>[^\s\"'`()<>\[\]]*?)(?P<path>docs/[\w./-]+?\.md)(?P<anchor>#[\w-]+)?(?P<heading>`?, \"[^\"\n]+\")?")


def prose(text):
    """Yields numbered lines, without code blocks."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = None if fence else mark[1]
        elif fence is None:
            yield number, line


def plain(heading):
    """The text of a heading, without markup and link targets."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"<[^>]+>", "", heading)
    return re.sub(r"[`*]", "", heading).strip()


def anchors(text):
    """The anchors of a file: those that GitHub generates from headings, and explicit ones."""
    found, seen = set(), {}
    for _, line in prose(text):
        found.update(ID.findall(line))
        if heading := HEADING.match(line):
            slug = re.sub(r"[^\w\- ]", "", plain(heading[1]).lower()).replace(" ", "-")
            times = seen[slug] = seen.get(slug, -1) + 1
            found.add(f"{slug}-{times}" if times else slug)
    return found


def headings(text):
    return {plain(heading[1]) for _, line in prose(text) if (heading := HEADING.match(line))}


class Tree:
    """The files of the repository, with the contents of its Markdown files."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = set(tracked(root))
        self.folders = {parent for path in self.files for parent in path.parents}
        self.texts = {}

    def text(self, path):
        if path not in self.texts:
            try:
                self.texts[path] = (self.root / path).read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                # Images, binary data, external links; or a file that is deleted but still tracked.
                self.texts[path] = ""
        return self.texts[path]

    def link(self, at, target):
        """The error in a link of the file `at`, or None."""
        if re.match(r"[a-z][a-z0-9+.-]*:", target, re.I) or target.startswith("//"):
            return None
        where, _, anchor = urllib.parse.unquote(target).partition("#")
        path = at
        if where:
            path = pathlib.PurePosixPath(os.path.normpath(at.parent / where))
            if path not in self.files and path not in self.folders:
                return f"there is no {path}"
        if anchor and path.suffix == ".md" and anchor not in anchors(self.text(path)):
            return f"{path} has no heading #{anchor}"
        return None

    def mention(self, match):
        """The error in a mention of a page, or None."""
        if match["before"].strip("./"):
            # docs/ of another folder, or a URL: `crates/NAME/docs/...`, `https://.../docs/...`.
            return None
        path = pathlib.PurePosixPath(match["path"])
        if path not in self.files:
            return f"there is no {path}"
        if match["anchor"] and match["anchor"][1:] not in anchors(self.text(path)):
            return f"{path} has no heading {match['anchor']}"
        if match["heading"]:
            heading = match["heading"].split('"')[1]
            if heading not in headings(self.text(path)):
                return f'{path} has no heading "{heading}"'
        return None

    def problems(self):
        for path in sorted(self.files):
            text = self.text(path)
            if path.suffix == ".md":
                for number, line in prose(text):
                    # Code contains no links.
                    line = re.sub(r"(`+)(?:(?!\1).)+\1", lambda code: "`" * len(code[0]), line)
                    reference = REFERENCE.match(line)
                    targets = LINK.findall(line) + ATTRIBUTE.findall(line) + ([reference[1]] if reference else [])
                    for target in targets:
                        if wrong := self.link(path, target):
                            yield f"{path}:{number}: {wrong}"
            elif path.name != "check-links.py":
                for number, line in enumerate(text.splitlines(), 1):
                    for match in MENTION.finditer(line):
                        if wrong := self.mention(match):
                            yield f"{path}:{number}: {wrong}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = list(Tree(root).problems())
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    if found:
        sys.exit(f"check-links: {len(found)} broken links")


if __name__ == "__main__":
    main()
