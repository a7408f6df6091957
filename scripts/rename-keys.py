#!/usr/bin/env python3
"""Converts scenarios and kept runs to the names that the laboratory has now: rename-keys.py [PATH...]. Without a path,
scenarios/ and results/. Only names change: each file is read before and after, and the values must be equal."""

import pathlib
import re
import sys
import tomllib

# Old key: new key. `law` had the constants of a terminal's own CUBIC, `keeps` the multiplicative
# decrease factor (beta of RFC 9438).
RENAMED = {"law": "cubic", "keeps": "beta"}


def renamed(value):
    """The same values under the new names. A dotted key (`"terminal.sender.law"`) names a place in the scenario."""
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
        # A key before `=`, a part of a dotted key in quotes, and the last part of a table name.
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
