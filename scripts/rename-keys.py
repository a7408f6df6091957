#!/usr/bin/env python3
"""Converts scenarios and kept runs to the laboratory's current names: rename-keys.py [PATH...].
The default paths are scenarios/ and results/. Only names change: the script parses each file
before and after, and the values must be equal."""

import pathlib
import re
import sys
import tomllib

# Old key: new key. `law` held the constants of a terminal's custom CUBIC, `keeps` the
# multiplicative decrease factor (beta of RFC 9438).
RENAMED = {"law": "cubic", "keeps": "beta"}


def renamed(value):
    """The same values with the new names. A dotted key (`"terminal.sender.law"`) is a path in the
    scenario."""
    if isinstance(value, dict):
        return {".".join(RENAMED.get(part, part) for part in key.split(".")): renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each) for each in value]
    return value


def convert(text):
    old = "|".join(RENAMED)
    new = lambda match: RENAMED[match[0]]
    lines = []
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("#"):
            lines.append(line)
            continue
        # A key before `=`, a part of a quoted dotted key, and the last part of a table name.
        line = re.sub(rf'(?<![\w"])({old})(?=\s*=)', new, line)
        line = re.sub(rf'(?<=\.)({old})(?=[.\w]*"\s*=)', new, line)
        line = re.sub(rf"(?<=[.\[])({old})(?=\]\]?\s*$)", new, line)
        lines.append(line)
    return "".join(lines)


def main():
    paths = sys.argv[1:] or ["scenarios", "results"]
    changed = 0
    for root in map(pathlib.Path, paths):
        for file in sorted(root.rglob("*.toml")) if root.is_dir() else [root]:
            before = file.read_text()
            after = convert(before)
            if renamed(tomllib.loads(before)) != tomllib.loads(after):
                sys.exit(f"rename-keys: {file}: other values would come out; it is left as it was")
            if after != before:
                file.write_text(after)
                changed += 1
    print(f"rename-keys: {changed} files have new names and the same values", file=sys.stderr)


if __name__ == "__main__":
    main()
