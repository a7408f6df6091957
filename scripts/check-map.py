#!/usr/bin/env python3
"""Compares the map in ARCHITECTURE.md with the crates: it must list every crate once, with its
actual dependencies, all of them in lower layers. Part of `make lint`. Prints a line for each
difference, and exits with 1 if there is any."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "yuzuri-"


def dependencies(manifest: Path) -> set[str]:
    """The workspace crates that a crate depends on, without dependencies of its tests and build
    script."""
    parsed = tomllib.loads(manifest.read_text())
    tables = [parsed, *parsed.get("target", {}).values()]
    names = {name for table in tables for name in table.get("dependencies", {})}
    return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}


def rows(text: str) -> list[tuple[int, str, set[str]]]:
    """Layer, crate and dependencies of each row between the map's markers."""
    found = re.search(r"<!-- map: begin -->\n(.*)<!-- map: end -->", text, re.DOTALL)
    if not found:
        sys.exit("check-map: ARCHITECTURE.md has no lines between '<!-- map: begin -->' and '<!-- map: end -->'")
    parsed = []
    for line in found[1].splitlines()[2:]:
        layer, crate, _, uses = [cell.strip() for cell in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"\[(.+)\]\(crates/\1\)", crate)
        if not name:
            sys.exit(f"check-map: ARCHITECTURE.md: '{crate}' is not a crate: write [NAME](crates/NAME)")
        parsed.append((int(layer), name[1], {word.strip() for word in uses.split(",") if word.strip()}))
    return parsed


def differences(root: Path) -> list[str]:
    """Describes the differences between a tree and its map, one sentence each."""
    mapped = rows((root / "ARCHITECTURE.md").read_text())
    crates = {manifest.parent.name: dependencies(manifest) for manifest in (root / "crates").glob("*/Cargo.toml")}
    layers = {name.removeprefix(PREFIX): layer for layer, name, _ in mapped}
    found = [f"{name} is in the map {n} times" for name in crates if (n := sum(m == name for _, m, _ in mapped)) > 1]
    found += [f"{name} is not in the map" for name in sorted(crates) if name.removeprefix(PREFIX) not in layers]
    for layer, name, uses in mapped:
        if name not in crates:
            found.append(f"{name} is in the map, but there is no such crate")
            continue
        real = crates[name]
        found += [f"{name} uses {other}, which the map does not list" for other in sorted(real - uses)]
        found += [f"the map lists {other} for {name}, which does not use it" for other in sorted(uses - real)]
        found += [
            f"{name} (layer {layer}) uses {other} (layer {layers[other]}): dependencies must be in lower layers"
            for other in sorted(real & layers.keys())
            if layers[other] >= layer
        ]
    return found


if __name__ == "__main__":
    wrong = differences(ROOT)
    for difference in wrong:
        print(f"check-map: {difference}", file=sys.stderr)
    sys.exit(1 if wrong else 0)
