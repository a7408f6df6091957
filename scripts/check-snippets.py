#!/usr/bin/env python3
"""Checks the snippets of the documentation: parses Python, TOML and JSON, runs `bash -n` on shell
lines, and checks that each `make TARGET`, `scripts/FILE` and `cargo test ... --test NAME` exists.
Part of `make lint` and `make book`. The program's unit tests (tests/docs.rs) parse commands that
begin with `yuzuri`. Prints a line for each invalid snippet, and exits with 1 if there is any."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/howto").glob("*.md"), ROOT / "python/README.md"]
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def snippets() -> Iterator[tuple[str, str, str]]:
    """Yields position, language and text of each fenced block."""
    for page in sorted(PAGES):
        text = page.read_text()
        for block in FENCE.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            yield f"{page.relative_to(ROOT)}:{line}", block[2].split(",")[0].strip(), block[3]


def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def names() -> set[str]:
    """The valid names for `--test`, `--bin` and `--example`."""
    crates = ROOT / "crates"
    files = [*crates.glob("*/tests/*.rs"), *crates.glob("*/examples/*.rs"), *crates.glob("*/tests/tools/*.rs"), *crates.glob("*/tests/*/main.rs")]
    there = {file.parent.name if file.name == "main.rs" else file.stem for file in files}
    return there | {crate.name for crate in crates.iterdir()}


def shell(text: str, targets: set[str], names: set[str]) -> Iterator[str]:
    """Yields the errors in shell lines."""
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    if checked.returncode:
        yield checked.stderr.strip()
    for line in (line.split(" #")[0] for line in text.splitlines() if not line.startswith("#")):
        for words in re.findall(r"(?:^|[;&|(] *|\b[A-Z_]+=\S+ )make ((?:[\w-]+(?![\w=-]) ?)+)", line):
            yield from (f"make has no target '{word}'" for word in words.split() if word not in targets)
        for file in re.findall(r"(?:^|\s)((?:\.\./\.\./)?scripts/[\w./-]+)", line):
            if not (ROOT / file.removeprefix("../../")).exists():
                yield f"there is no {file}"
        for name in re.findall(r"cargo .*?--(?:test|bin|example) (\S+)", line):
            if name not in names and not name.isupper():
                yield f"there is no test, program or example '{name}'"


def main() -> int:
    parsers = {"python": ast.parse, "toml": tomllib.loads, "json": json.loads}
    of_make, of_cargo = targets(), names()
    wrong, count = [], 0
    for where, language, text in snippets():
        if language in parsers:
            try:
                parsers[language](text)
            except (SyntaxError, ValueError) as error:
                wrong.append(f"{where}: {error}")
        elif language in ("sh", "console", "bash"):
            wrong += [f"{where}: {what}" for what in shell(text, of_make, of_cargo)]
        else:
            continue
        count += 1
    for line in wrong:
        print(f"check-snippets: {line}", file=sys.stderr)
    if not count:
        print("check-snippets: there are no snippets", file=sys.stderr)
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
