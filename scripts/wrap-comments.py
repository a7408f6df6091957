#!/usr/bin/env python3
"""Wraps comments at 100 columns: wrap-comments.py [--check] FILE|FOLDER...

Reflows each paragraph of a comment that has a line over 100 columns, in Rust (`//`, `///`, `//!`)
and C (`/* */` and `//`). Only comments that have their lines to themselves are touched: not those
after code, and nothing inside string literals. Kept as they are: code blocks, tables, headings,
link definitions, rulers, and paragraphs that are aligned by several spaces. Items of lists are wrapped
with their indentation; code spans and links are not broken.

A folder means its tracked .rs, .c and .h files (without git: all of them). With --check nothing is written: prints
FILE:LINE for each paragraph that would change, and exits with 1 if there is any.
"""

import re
import sys
from pathlib import Path

from tracked import tracked

WIDTH = 100
TAB = 8
SUFFIXES = {".rs", ".c", ".h"}
# Comments, and literals, which may contain text that looks like a comment.
LEXEMES = re.compile(
    r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|b?c?r(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\[^']*'?|[^\\'\n])'""",
    re.DOTALL,
)
MARKER = re.compile(r"(\s*)(///|//!|//)(?!/)( .*)?")
ITEM = re.compile(r"(\s*(?:[-*+]|\d+[.)]) +)(.*)")
VERBATIM = re.compile(r"\s*(?:#|\||>|<|\[[^\]]+\]:|-{3,}$|.*-{8})|.*\S {2,}\S|.*\S {2,}$")
FENCE = re.compile(r"\s*(```+|~~~+)")
# A word, with code spans and links as part of it.
WORD = re.compile(r"(?:(`+)(?!`)[^`\n]{1,60}?\1(?!`)|\[[^\[\]\n]{1,60}\](?:\([^()\s]*\))?|\S)+")
# Words that would begin a list, a heading or a table at the beginning of a line.
GLUED = re.compile(r"(?:[-*+]|\d+[.)]|[#|>].*|\*/)$")


def columns(line: str) -> int:
    return len(line.expandtabs(TAB))


def words(text: str) -> list[str]:
    """The parts of a text that stay on one line."""
    found = []
    for match in WORD.finditer(text):
        if found and GLUED.match(match[0]):
            found[-1] += " " + match[0]
        else:
            found.append(match[0])
    return found


def fill(text: str, first: str, rest: str) -> list[str]:
    """Lines of a paragraph: `first` precedes the first one, `rest` the others."""
    lines, line, empty = [], first, True
    for word in words(text):
        longer = line + word if empty else f"{line} {word}"
        if columns(longer) > WIDTH and not empty:
            lines.append(line)
            longer = rest + word
        line, empty = longer, False
    return [*lines, line]


def paragraphs(texts: list[str]):
    """Yields (position, lines, indentation of the first line, indentation of the others) for each
    paragraph and list item, and (position, lines, None, None) for what must stay as it is. The
    texts are a comment's lines without their markers."""
    fence, at = None, 0
    while at < len(texts):
        text, begin = texts[at], at
        mark = FENCE.match(text)
        at += 1
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = None if fence else mark[1]
            yield begin, [text], None, None
            continue
        after_blank = begin == 0 or not texts[begin - 1].strip()
        indented = len(text) - len(text.lstrip(" "))
        if fence or not text.strip() or VERBATIM.match(text) or (indented >= 4 and after_blank and not ITEM.match(text)):
            yield begin, [text], None, None
            if indented >= 4 and not fence and text.strip():
                while at < len(texts) and texts[at].startswith("    "):
                    yield at, [texts[at]], None, None
                    at += 1
            continue
        item = ITEM.match(text)
        while at < len(texts) and texts[at].strip() and not (ITEM.match(texts[at]) or FENCE.match(texts[at])):
            if VERBATIM.match(texts[at]):
                break
            at += 1
        lines = texts[begin:at]
        first = item[1] if item else " " * indented
        rest = " " * len(first)
        if not item and len(lines) > 1:
            rest = " " * (len(lines[1]) - len(lines[1].lstrip(" ")))
        yield begin, lines, first, rest


def reflow(texts: list[str], first: str, rest: str) -> tuple[list[str], list[int]]:
    """The lines of a comment, and the positions of the paragraphs that changed. `first` precedes
    the first text, `rest` the others."""
    made, changed = [], []
    for begin, lines, lead, follow in paragraphs(texts):
        markers = [first if begin + n == 0 else rest for n in range(len(lines))]
        old = [(marker + text).rstrip() for marker, text in zip(markers, lines)]
        new = old
        if lead is not None and any(columns(line) > WIDTH for line in old):
            new = fill(" ".join(lines)[len(lead) :], markers[0] + lead, rest + follow)
            changed += [begin] if new != old else []
        made += new
    return made, changed


def line_comment(lines: list[str]) -> tuple[list[str], list[int]]:
    """Reflows consecutive line comments with the same marker and indentation."""
    matches = [MARKER.fullmatch(line) for line in lines]
    marker = matches[0][1] + matches[0][2]
    made, changed = reflow([(match[3] or " ")[1:] for match in matches], marker + " ", marker + " ")
    return made if changed else lines, changed


def block_comment(lines: list[str]) -> tuple[list[str], list[int]]:
    """Reflows a block comment that has its lines to itself."""
    indentation, opening, begin = re.match(r"(\s*)(/\*\*?)(.*)", lines[0]).groups()
    texts = [begin.strip()] + [re.sub(r"^\s*(?:\*(?!/) ?)?", "", line) for line in lines[1:]]
    first, rest = f"{indentation}{opening} ", f"{indentation} * "
    # Lines that hold only the opening or the end stay; an end after text belongs to the last word.
    head = 1 if not texts[0] else 0
    tail = len(lines) - 1 if head < len(lines) and texts[-1] == "*/" else len(lines)
    made, changed = reflow(texts[head:tail], rest if head else first, rest)
    if not changed:
        return lines, []
    return lines[:head] + made + lines[tail:], [position + head for position in changed]


def comments(text: str):
    """The (first line, lines, function that reflows it) of each comment that has its lines to
    itself."""
    lines = text.split("\n")
    single, groups = [], []
    for match in LEXEMES.finditer(text):
        if not match["line"] and not match["block"]:
            continue
        begin, end = text.count("\n", 0, match.start()), text.count("\n", 0, match.end())
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        after = text[match.end() :].split("\n", 1)[0]
        if before.strip() or after.strip():
            continue
        if match["block"]:
            groups.append((begin, lines[begin : end + 1], block_comment))
        elif MARKER.fullmatch(lines[begin]):
            single.append(begin)
    for number in single:
        marker = MARKER.fullmatch(lines[number])
        last = groups[-1] if groups else None
        joined = last and last[2] is line_comment and last[0] + len(last[1]) == number
        if joined and MARKER.fullmatch(last[1][0]).group(1, 2) == marker.group(1, 2):
            last[1].append(lines[number])
        else:
            groups.append((number, [lines[number]], line_comment))
    return sorted(groups, key=lambda group: group[0])


def wrap(text: str) -> tuple[str, list[int]]:
    """A file's text with wrapped comments, and the lines at which changed paragraphs begin."""
    lines, changed = text.split("\n"), []
    for begin, old, reflowed in reversed(comments(text)):
        new, positions = reflowed(old)
        lines[begin : begin + len(old)] = new
        changed += [begin + position + 1 for position in positions]
    return "\n".join(lines), sorted(changed)


def sources(names: list[str]) -> list[Path]:
    found = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found += [path / file for file in tracked(path) if file.suffix in SUFFIXES]
        else:
            found.append(path)
    return found


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    names = [argument for argument in arguments if argument != "--check"]
    if not names or any(name.startswith("-") for name in names):
        sys.exit(__doc__)
    found = 0
    for path in sources(names):
        text = path.read_text(encoding="utf-8")
        wrapped, changed = wrap(text)
        found += len(changed)
        if check:
            for line in changed:
                print(f"{path}:{line}: comment over {WIDTH} columns")
        elif changed:
            path.write_text(wrapped, encoding="utf-8")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
