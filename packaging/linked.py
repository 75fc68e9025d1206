"""The packages that are linked into the programs, and their licences, for ./sbom and ./notices.

A release build by Swift's package manager lists the linked files. The checkouts beside it have the
licence and the NOTICE of each package. The comments of the linked modules' sources are searched for
further licences, because a file may have one of its own. A text that is not listed here ends the
program: somebody has to read it first.
"""

import hashlib
import json
import pathlib
import re
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["connd", "connctl", "connd-multipath"]
SWIFT = "Apache-2.0 WITH Swift-exception"

# The licences that were read, by the start of the digest of their words (`digest`). Copyright lines
# do not count.
KNOWN = {
    "0ffddef9e48f8a09": "Apache-2.0",
    "5c7363dc92616abd": SWIFT,
    "5add8adfec09e07a": "BSD-2-Clause",
    "dcdd5bec314a2c06": "MIT",
    "0a6249520e48a59d": "BSD-3-Clause",
}
# The comments that only refer to the licence of the package.
HEADERS = [re.compile(pattern) for pattern in [
    r"This source file is part of the [\w ]+ open source project "
    r"Copyright \(c\) (?P<years>[\d -]+) (?P<holder>Apple Inc\. and the [\w ]+ project authors) "
    r"Licensed under Apache License v2\.0(?: with Runtime Library Exception)? See \S+ for license information"
    # REUSE-IgnoreStart
    r"(?: See \S+ for the list of [\w ]+ project authors)?(?: SPDX-License-Identifier: Apache-2\.0(?: WITH Swift-exception)?)?",
    # REUSE-IgnoreEnd
    r"Copyright (?P<years>[\d -]+), (?P<holder>gRPC Authors) All rights reserved\. Licensed under the Apache License, Version 2\.0 "
    r"\(the \"License\"\); .*? See the License for the specific language governing permissions and limitations under the License\.",
]]
COMMENT = re.compile(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+", re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"copyright|licen[cs]e|redistribut|permission is hereby|all rights reserved", re.IGNORECASE)


@dataclass
class Package:
    """A linked package. `notice` is the text of its NOTICE file, `embedded` the licences in its sources."""
    identity: str
    pin: dict
    licence: str
    notice: str = ""
    holders: dict = field(default_factory=dict)  # the first and last year of each
    embedded: list = field(default_factory=list)  # (path, licence, text)

    @property
    def location(self):
        return re.sub(r"\.git$", "", self.pin["location"])

    @property
    def expression(self):
        return expression(self.licence, self.embedded)


def digest(text):
    words = [line for line in text.split("\n") if not re.match(r"\W*copyright \(c\) \d", line, re.IGNORECASE)]
    return hashlib.sha256(" ".join(" ".join(words).split()).encode()).hexdigest()[:16]


def known(text, place):
    if digest(text) not in KNOWN:
        sys.exit(f"{place} has a licence that packaging/linked.py does not know ({digest(text)}): read it and add it\n\n{text}")
    return KNOWN[digest(text)]


def modules(built):
    """The Swift and C modules that are linked into the programs."""
    names = set()
    for program in PROGRAMS:
        files = (built / f"{program}.product/Objects.LinkFileList").read_text()
        names |= set(re.findall(r"/([^/]+)\.build/", files))
    return names


def folder(module, checkouts):
    """The folder of the module's sources, or None if it is connd's own."""
    if any((ROOT / "Sources" / name).is_dir() for name in (module, module.replace("_", "-"))):
        return None
    folders = list(checkouts.glob(f"*/Sources/{module}")) or list(checkouts.glob(f"*/Sources/*/{module}"))
    if len(folders) != 1:
        sys.exit(f"module {module} is in {len(folders)} packages")
    return folders[0]


def plain(comment):
    """The text of a comment without its marks."""
    text = re.sub(r"^/\*+|\*+/$", "", comment.strip())
    lines = [re.sub(r"^\s*(?:/{2,}|\*+(?= |$))?[-=*/]*", "", line) for line in text.split("\n")]
    return "\n".join(line.removeprefix(" ").rstrip() for line in lines).strip("\n")


def search(source, checkout, package):
    """Adds the copyrights and licences in the comments of a source file to its package."""
    for comment in COMMENT.findall(source.read_text(errors="replace")):
        if not MARKER.search(comment):
            continue
        text = plain(comment)
        words = " ".join(text.split())
        for header in HEADERS:
            for match in header.finditer(words):
                years = [*map(int, re.findall(r"\d{4}", match["years"]))]
                years += package.holders.get(match["holder"], [])
                package.holders[match["holder"]] = [min(years), max(years)]
            words = header.sub("", words)
        if MARKER.search(words):
            path = source.relative_to(checkout)
            package.embedded.append((str(path), known(text, f"{package.identity}/{path}"), text))


def runtime():
    """The licences of parts of Swift's runtime: (path, licence, text). No toolchain has these texts."""
    path, text = (ROOT / "packaging/swift-runtime-notices").read_text().split("\n\n", 1)
    return [(path, known(text, path), text.strip("\n"))]


def expression(licence, embedded):
    return " AND ".join(dict.fromkeys([licence, *(other for _, other, _ in embedded)]))


def packages(built):
    """The linked packages, sorted by name."""
    checkouts = built.resolve().parent.parent / "checkouts"
    pins = {pin["identity"]: pin for pin in json.loads((ROOT / "Package.resolved").read_text())["pins"]}
    found = {}
    for source in filter(None, (folder(module, checkouts) for module in sorted(modules(built)))):
        checkout = checkouts / source.relative_to(checkouts).parts[0]
        identity = checkout.name.lower()
        if identity not in pins:
            sys.exit(f"Package.resolved lacks {identity}")
        if identity not in found:
            licence = known(next(checkout.glob("LICENSE*")).read_text(), f"{identity}/LICENSE")
            notice = "\n".join(file.read_text().strip("\n") for file in sorted(checkout.glob("NOTICE*")))
            for other in re.findall(r"LICENSE \((.*?)\)", notice):
                if other != "Apache License 2.0":
                    sys.exit(f"{identity}/NOTICE names another licence: {other}")
            found[identity] = Package(identity, pins[identity], licence, notice)
        for file in sorted(source.rglob("*")):
            if re.match(r"(?i)(licen[cs]e|notice|copying)", file.name):
                sys.exit(f"{file.relative_to(checkouts)}: a further licence, which packaging/linked.py does not read")
            if file.suffix in (".swift", ".c", ".h", ".S"):
                search(file, checkout, found[identity])
    return [found[identity] for identity in sorted(found)]
