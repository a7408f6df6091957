#!/usr/bin/env python3
"""Writes the licences of everything that is linked into the programs or embedded in their page:
licences.py OUTPUT.

Sources: cargo-about for crates (it fails if a crate has no licence, or one that
packaging/about.toml does not accept); package-lock.json for npm packages; the copyright files of
the Debian packages for C libraries (folders by --documents); the compiler's documentation for
Rust's standard library. The script fails if any text is missing.
"""

import argparse
import html.parser
import json
import pathlib
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parent.parent
UI = TREE / "crates/yuzuri-web/ui"
MANIFESTS = ("crates/yuzuri/Cargo.toml", "crates/yuzuri-identify/Cargo.toml")
# Linked libraries, and the Debian packages with their licence texts.
C_LIBRARIES = {
    "libelf (elfutils)": ("libelf-dev",),
    "zlib": ("zlib1g-dev",),
    "the GNU C library": ("libc6-dev", "libc6-dev-arm64-cross"),
    "libgcc and libgcc_eh": ("libgcc-*-dev", "libgcc-*-dev-arm64-cross"),
}


def fail(text):
    sys.exit(f"licences: {text}")


def crates():
    """Returns a map from (licence, text) to crate names."""
    texts = {}
    count = set()
    for manifest in MANIFESTS:
        command = ["cargo", "about", "generate", "--locked", "--fail", "--format", "json"]
        command += ["--config", "packaging/about.toml", "--manifest-path", manifest]
        finished = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
        if finished.returncode != 0:
            fail(f"cargo about, {manifest}:\n{finished.stderr.strip()}")
        for licence in json.loads(finished.stdout)["licenses"]:
            if not licence["text"].strip():
                fail(f"no text of {licence['id']}")
            users = texts.setdefault((licence["id"], licence["text"].strip()), set())
            for used in licence["used_by"]:
                package = used["crate"]
                users.add(f"{package['name']} {package['version']}")
        count.update(name for users in texts.values() for name in users)
    if not count:
        fail("cargo about listed no crate")
    return texts, len(count)


def npm():
    """Yields (name, licence, text) of the npm packages embedded in the page."""
    lock = json.loads((UI / "package-lock.json").read_text())
    for path, package in sorted(lock["packages"].items()):
        # Skip the package itself and build dependencies.
        if not path or package.get("dev"):
            continue
        name = path.rpartition("node_modules/")[2]
        licence = package.get("license") or fail(f"the npm package {name} has no licence")
        files = sorted(p for p in (UI / path).glob("*") if p.name.lower().startswith(("licen", "copying")))
        if not files:
            fail(f"no text of the licence of the npm package {name} in {UI / path}: is it installed?")
        yield f"{name} {package['version']}", licence, files[0].read_text().strip()


def c_libraries(folders):
    """Yields (name, text) of the linked C libraries."""
    for name, packages in C_LIBRARIES.items():
        found = (f for folder in folders for package in packages for f in sorted(folder.glob(f"{package}/copyright")))
        file = next(found, None) or fail(f"no copyright file of {name} in {', '.join(map(str, folders))}")
        yield name, file.read_text(errors="replace").strip()


class Text(html.parser.HTMLParser):
    """Converts an HTML page of Rust's documentation to text."""

    def __init__(self):
        super().__init__()
        self.lines = [""]

    def handle_starttag(self, tag, _attributes):
        if tag in ("p", "h1", "h2", "h3", "div", "pre", "li"):
            self.lines.append("")

    def handle_data(self, data):
        first, *rest = data.split("\n")
        self.lines[-1] += first
        self.lines += rest

    def text(self):
        # At most one empty line in a row, and none at either end.
        lines = [line.rstrip() for line in self.lines]
        return "\n".join(a for a, b in zip(lines, ["", *lines]) if a or b).strip()


def rust():
    """The licence of Rust's standard library as installed with the compiler: rustup's page or
    Debian's file."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    documents = pathlib.Path(sysroot) / "share/doc"
    page = documents / "rust/COPYRIGHT-library.html"
    if page.exists():
        text = Text()
        text.feed(page.read_text())
        return text.text()
    packaged = sorted(documents.glob("libstd-rust*-dev/copyright"))
    return packaged[-1].read_text().strip() if packaged else fail(f"{documents} does not contain the licences of Rust's standard library")


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("output", type=pathlib.Path)
    words.add_argument("--documents", type=pathlib.Path, action="append", default=[], help="folder like /usr/share/doc")
    words = words.parse_args()

    texts, count = crates()
    page, libraries = list(npm()), list(c_libraries([*words.documents, pathlib.Path("/usr/share/doc")]))
    out = ["Licences of what is in the programs yuzuri and yuzuri-identify", "=" * 62, ""]
    out += ["Yuzuri itself: MIT OR Apache-2.0; its BPF programs also GPL-2.0.", ""]

    def section(title, text, names=()):
        out.extend(["-" * 100, title, *(f"  {n}" for n in sorted(names)), "-" * 100, "", text, ""])

    out.append(f"Crates ({count}) by licence:")
    by_licence = {}
    for (licence, _), users in texts.items():
        by_licence.setdefault(licence, set()).update(users)
    out += [f"  {licence}: {', '.join(sorted(users))}" for licence, users in sorted(by_licence.items())]
    out += ["Embedded in the page:", *(f"  {licence}: {name}" for name, licence, _ in page)]
    out += ["Linked from Debian's packages and Rust's distribution:", *(f"  {name}" for name, _ in libraries), "  Rust's standard library", ""]
    for (licence, text), users in sorted(texts.items(), key=lambda item: (item[0][0], sorted(item[1]))):
        section(licence, text, users)
    for name, licence, text in page:
        section(f"{name} (npm): {licence}", text)
    for name, text in libraries:
        section(name, text)
    section("Rust's standard library", rust())
    words.output.write_text("\n".join(out))
    print(f"licences: {count} crates, {len(page)} npm packages, {len(libraries)} C libraries, {len(texts)} texts of crates", file=sys.stderr)


main()
