#!/usr/bin/env python3
"""Writes the components of the programs as a CycloneDX 1.5 document: sbom.py OUTPUT [--target
TRIPLE ...] [--built-using LIST ...].

Crates come from `cargo metadata` and Cargo.lock (with checksums), if they are linked; build and
test dependencies are excluded. npm packages embedded in the page come from package-lock.json.
--built-using names the Debian source packages of linked libraries, in the syntax of Debian's
field ("zlib (= 1:1.2.13), glibc (= 2.36-9)"). The same commit gives the same document.
"""

import argparse
import base64
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

TREE = pathlib.Path(__file__).resolve().parent.parent
UI = TREE / "crates/yuzuri-web/ui"
PROGRAMS = ("yuzuri", "yuzuri-identify")


def fail(text):
    sys.exit(f"sbom: {text}")


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    finished = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    if finished.returncode != 0:
        fail(f"cargo metadata:\n{finished.stderr.strip()}")
    return json.loads(finished.stdout)


def linked(described):
    """Returns a map from package id to the ids that it links, starting at the programs."""
    nodes = {node["id"]: node for node in described["resolve"]["nodes"]}
    roots = [p["id"] for p in described["packages"] if p["name"] in PROGRAMS and p["id"] in nodes]
    if len(roots) != len(PROGRAMS):
        fail(f"the workspace has no package {' or '.join(PROGRAMS)}")
    graph, waiting = {}, roots
    # A procedural macro runs in the compiler; its dependencies are not linked.
    macros = {p["id"] for p in described["packages"] if any("proc-macro" in t["kind"] for t in p["targets"])}
    while waiting:
        package = waiting.pop()
        if package in graph or package in macros:
            continue
        wanted = [d["pkg"] for d in nodes[package]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
        graph[package] = sorted(set(wanted) - macros)
        waiting += graph[package]
    return graph


def checksums():
    lock = tomllib.loads((TREE / "Cargo.lock").read_text())
    return {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}


def crates(targets):
    """Returns the components by reference, and the dependencies of each."""
    sums, components, depends = checksums(), {}, {}
    for target in targets:
        described = metadata(target)
        packages = {p["id"]: p for p in described["packages"]}
        graph = linked(described)
        # The workspace's crates are in no registry.
        kind = {id: "pkg:cargo" if packages[id]["source"] else "workspace" for id in graph}
        reference = {id: f"{kind[id]}/{packages[id]['name']}@{packages[id]['version']}" for id in graph}
        for id, wanted in graph.items():
            package = packages[id]
            component = {
                "type": "application" if package["name"] in PROGRAMS else "library",
                "bom-ref": reference[id],
                "name": package["name"],
                "version": package["version"],
            }
            licence = package["license"] or fail(f"the crate {package['name']} has no licence")
            # "MIT/Apache-2.0" is an obsolete syntax.
            component["licenses"] = [{"expression": licence.replace("/", " OR ")}]
            if package["source"]:
                component["purl"] = reference[id]
                checksum = sums[(package["name"], package["version"])]
                if not checksum:
                    fail(f"Cargo.lock has no checksum of {package['name']} {package['version']}")
                component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
            if package["repository"]:
                component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
            components[reference[id]] = component
            depends.setdefault(reference[id], set()).update(reference[w] for w in wanted)
    return components, depends


def npm():
    lock = json.loads((UI / "package-lock.json").read_text())
    for path, package in sorted(lock["packages"].items()):
        # Skip the package itself and build dependencies.
        if not path or package.get("dev"):
            continue
        name = path.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        algorithm, _, digest = package["integrity"].partition("-")
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": package["version"],
            "purl": purl,
            "licenses": [{"expression": package["license"]}],
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
        }


def debian(lists):
    for name, version in sorted({pair for text in lists for pair in re.findall(r"(\S+) \(= ([^)]+)\)", text)}):
        purl = f"pkg:deb/debian/{name}@{version}?arch=source"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("output", type=pathlib.Path)
    words.add_argument("--target", action="append", help="a Rust target that is built (x86_64-unknown-linux-gnu)")
    words.add_argument("--built-using", action="append", default=[], help="linked packages of Debian")
    words = words.parse_args()

    components, depends = crates(words.target or ["x86_64-unknown-linux-gnu"])
    page, libraries = list(npm()), list(debian(words.built_using))
    for component in [*page, *libraries]:
        components[component["bom-ref"]] = component
    # The server embeds the page; C libraries are linked into both programs.
    server = next(r for r in depends if r.startswith("workspace/yuzuri-web@"))
    depends[server].update(c["bom-ref"] for c in page)
    programs = [r for r in depends if r.split("@")[0].removeprefix("workspace/") in PROGRAMS]
    for program in programs:
        depends[program].update(c["bom-ref"] for c in libraries)

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TREE, capture_output=True, text=True).stdout.strip()
    version = components[programs[0]]["version"]
    made = int(os.environ.get("SOURCE_DATE_EPOCH", 0)) or fail("SOURCE_DATE_EPOCH is not set: the date is that of the commit")
    whole = f"pkg:generic/yuzuri@{version}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, whole + commit)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(made, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": whole, "name": "yuzuri", "version": version, "purl": whole},
            "properties": [{"name": "yuzuri:commit", "value": commit}],
        },
        "components": [components[r] for r in sorted(components)],
        "dependencies": [{"ref": whole, "dependsOn": sorted(programs)}]
        + [{"ref": r, "dependsOn": sorted(depends.get(r, ()))} for r in sorted(components)],
    }
    for entry in document["dependencies"]:
        for needed in entry["dependsOn"]:
            if needed not in components:
                fail(f"{entry['ref']} depends on {needed}, which is not in the document")
    words.output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    crates_count = sum(r.startswith(("pkg:cargo/", "workspace/")) for r in components)
    print(f"sbom: {crates_count} crates, {len(page)} npm packages, {len(libraries)} of Debian's", file=sys.stderr)


main()
