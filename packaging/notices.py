#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes NOTICES: what the binary is made of apart from tardy's own code, each part with its
licence and the licence's text.

The crates are those that `cargo metadata` has for the program on x86-64 Linux, the texts the
files of their packages, as the registry has them. What is not a crate is in PARTS: the C
libraries that the program is linked with, the Rust standard library, what the page is drawn
with. Run it when Cargo.lock has changed; a golden test says when. It needs the sources that a
build fetches, and Debian 12."""

import hashlib
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
# Crates of the Rust standard library that are only built for other machines than x86-64 Linux.
OTHERS = re.compile(r"(fortanix-sgx-abi|hermit-abi|moto-rt|r-efi.*|vex-sdk|wasi.*|windows.*|wit-bindgen|dlmalloc|cc|rand.*|rustc-std-workspace.*)")
# Crates that the toolchain's own list leaves out, and that the program has through the library's
# backtraces.
LEFT_OUT = {"addr2line": "0.25.1", "adler2": "2", "memchr": "2", "miniz_oxide": "0.8.9", "object": "0.37"}
NAMES = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)

HEAD = """\
tardy is under MIT OR Apache-2.0, at your choice. The program also holds software of others, which is listed here with its licences. If
you give the program to others, give them this text too: `tardy notices` prints it.

The program is linked statically with the GNU C Library, which is under the GNU Lesser General Public License, version 2.1 or later, and with
libelf of elfutils, which is under version 3 or later of it. You may change these libraries and link the program with them again: install
yours on a machine with tardy's source, and run `make build`. Their sources are Debian's packages `glibc` and `elfutils` (`apt-get source
glibc elfutils`), of the versions that the machine had on which the program was built. If you give a program to others, offer all of these
sources, the libraries' and tardy's, or say where they are.

The program holds tardy's own XDP program too, which is under GPL-2.0-only OR BSD-2-Clause and is loaded into the kernel as it is.
"""


def sysroot():
    return pathlib.Path(subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip())


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").strip("\n").rstrip() + "\n"


def packages_of(names):
    """Fetches packages by name and version, and says where their sources are."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "lib.rs").touch()
        wanted = "".join(f'{name} = "={version}"\n' if version.count(".") == 2 else f'{name} = "{version}"\n' for name, version in names.items())
        manifest = '[package]\nname = "wanted"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[dependencies]\n'
        (pathlib.Path(folder) / "Cargo.toml").write_text(manifest + wanted)
        found = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1"], cwd=folder))["packages"]
        return [package for package in found if package["name"] in names]


def crates():
    """Name, version, licence and folder of every crate that is linked into the program, tardy's own
    left out."""
    call = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.check_output(call, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_, seen = [next(i for i, package in packages.items() if package["name"] == "tardy-cli")], set()
    while open_:
        this = open_.pop()
        if this not in seen:
            seen.add(this)
            open_ += [d["pkg"] for d in nodes[this]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
    theirs = [packages[i] for i in seen if packages[i]["source"]]
    for package in sorted(theirs, key=lambda package: (package["name"], package["version"])):
        yield package["name"], package["version"], package["license"], pathlib.Path(package["manifest_path"]).parent


def files(folder):
    """The licence files of a package, also those of C sources that it brings."""
    own = [path for path in folder.iterdir() if path.is_file() and NAMES.search(path.name)]
    brought = [path for path in (folder / "zstd").glob("*") if path.is_file() and path.name == "LICENSE"]
    brought += [path for path in (folder / "libbpf").glob("LICENSE*") if path.is_file()]
    return sorted(own) + sorted(brought)


def plain(markup):
    """The text of a piece of a page."""
    text = html.unescape(re.sub(r"<[^>]*>", "", markup))
    return re.sub(r"\n\s*\n+", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip() + "\n"


def standard_library():
    """What the toolchain says of the Rust standard library, and of each crate in it: name, licence,
    texts."""
    rust = sysroot() / "share/doc/rust"
    page = (rust / "COPYRIGHT-library.html").read_text(encoding="utf-8")
    own, *of_crates = page[page.index("<body") :].split("📦")
    licences = [text_of(rust / "licenses" / f"{name}.txt") for name in ("MIT", "Apache-2.0", "BSD-2-Clause", "Unicode-3.0")]
    yield "Rust standard library", "MIT OR Apache-2.0", [plain(own), *licences]
    for of_crate in of_crates:
        name = plain(of_crate).split()[0]
        name, version = re.fullmatch(r"(.+?)-(\d+\..*)", name).groups()
        if OTHERS.fullmatch(name):
            continue
        licence = re.search(r"License:</b>(.*)</p>", of_crate)
        licence = plain(licence.group(1)).strip()
        yield f"{name} {version}, in the Rust standard library", licence, [plain(t) for t in re.findall(r"<pre[^>]*>(.*?)</pre>", of_crate, re.DOTALL)]


    for package in sorted(packages_of(LEFT_OUT), key=lambda package: package["name"]):
        folder = pathlib.Path(package["manifest_path"]).parent
        name = f"{package['name']} {package['version']}, in the Rust standard library"
        yield name, package["license"], [text_of(path) for path in files(folder)]


def parts():
    """What is no crate: name, licence, texts."""
    debian = pathlib.Path("/usr/share")
    rust = sysroot() / "share/doc/rust/licenses"
    yield (
        "GNU C Library (glibc), linked statically",
        "LGPL-2.1-or-later",
        [text_of(debian / "doc/libc6/copyright"), text_of(debian / "common-licenses/LGPL-2.1")],
    )
    yield (
        "GCC's runtime library (libgcc, libgcc_eh), linked statically",
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        [text_of(rust / "GCC-exception-3.1.txt"), text_of(debian / "common-licenses/GPL-3")],
    )
    yield (
        "libelf of elfutils, linked statically",
        "GPL-2.0-or-later OR LGPL-3.0-or-later",
        [text_of(debian / "doc/libelf-dev/copyright"), *(text_of(debian / f"common-licenses/{name}") for name in ("LGPL-3", "GPL-3", "GPL-2"))],
    )
    yield "zlib, linked statically", "Zlib", [text_of(debian / "doc/zlib1g-dev/copyright")]
    yield from standard_library()
    page = ROOT / "crates/report/page/node_modules"
    lock = json.loads((ROOT / "crates/report/page/package-lock.json").read_text())
    for place, package in sorted(lock["packages"].items()):
        if place and not package.get("dev"):
            folder = page / place.removeprefix("node_modules/")
            texts = [text_of(path) for path in sorted(folder.iterdir()) if path.is_file() and NAMES.search(path.name)]
            yield f"{place.rsplit('/', 1)[-1]} {package['version']}, in the page", package["license"], texts


def main():
    rows, texts = [], {}

    def number(text):
        key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
        return texts.setdefault(key, (len(texts) + 1, text))[0]

    for name, version, licence, folder in crates():
        found = sorted({number(text_of(path)) for path in files(folder)})
        if not found:
            sys.exit(f"notices: crate {name} {version} brings no text of its licence ({licence}): add one by hand")
        rows.append((f"{name} {version}", licence, found))
    for name, licence, those in parts():
        if not those:
            sys.exit(f"notices: no text of the licence of {name} ({licence})")
        rows.append((name, licence, sorted({number(text) for text in those})))
    out = [HEAD, "\nWhat it holds, its licence, and the numbers of the texts below:\n\n"]
    for name, licence, found in rows:
        out.append(f"{name} | {licence} | {', '.join(map(str, found))}\n")
    for at, text in texts.values():
        out.append(f"\n{'=' * 40} text {at}\n\n{text}")
    (ROOT / "NOTICES").write_text("".join(out), encoding="utf-8")
    print(f"notices: {len(rows)} parts, {len(texts)} texts, in {ROOT / 'NOTICES'}", file=sys.stderr)


main()
