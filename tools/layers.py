"""Checks that every module imports only from the layers below it.

ARCHITECTURE.md has the order, under "Layers": one line per crate, `crate: lowest → … → highest`, with the modules of one layer,
which do not know each other, side by side. `archive/make` names a part of a module.

    python tools/layers.py            checks the crates
    python tools/layers.py --test     checks that violations are found
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def order(page: str) -> dict[str, dict[str, int]]:
    """The layer of every module, by crate."""
    section = page.split("\n## Layers\n", 1)[1].split("\n## ", 1)[0]
    crates = {}
    for crate, line in re.findall(r"^ {4}(ztensor[\w-]*): (.+(?:\n {6,}.+)*)", section, re.MULTILINE):
        steps = re.split(r"→", line)
        crates[crate] = {module: layer for layer, step in enumerate(steps) for module in step.split()}
    if not crates:
        raise SystemExit('layers: ARCHITECTURE.md has no order under "Layers"')
    return crates


def code(text: str) -> str:
    """A source file without comments, and without its tests."""
    text = re.sub(r"//[^\n]*", "", text)
    return re.split(r"#\[cfg\(test\)\]\s*mod tests \{", text)[0]


def names(tree: str) -> list[str]:
    """The paths of a use tree: `a::{b, c::{d}}` gives a::b, a::c::d."""
    tree = re.sub(r"\s+", " ", tree).strip()
    if "{" not in tree:
        return [tree.split(" as ")[0].strip()]
    prefix, inner = tree.split("{", 1)
    inner = inner.rsplit("}", 1)[0]
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(inner + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(inner[start:position])
            start = position + 1
    return [prefix.strip() + name for part in parts if part.strip() for name in names(part)]


class Crate:
    """The sources of a crate, without tests."""

    def __init__(self, source: Path, layers: dict[str, int]) -> None:
        self.source, self.layers = source, layers
        self.files = {path.relative_to(source): code(path.read_text()) for path in sorted(source.rglob("*.rs"))}
        for path, text in list(self.files.items()):
            folder = path.parent if path.name in ("mod.rs", "lib.rs") else path.with_suffix("")
            for module in re.findall(r"#\[cfg\((?:test|all\(test[^\n]*)\)\]\s*(?:pub(?:\(\w+\))? )?mod (\w+);", text):
                for other in list(self.files):
                    if other.with_suffix("") == folder / module or folder / module in other.parents:
                        del self.files[other]

    def unit(self, path: str) -> str:
        """The longest name of the order that a module path such as archive/make/pack begins with."""
        parts = path.split("/")
        candidates = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((name for name in candidates if name in self.layers), parts[0])

    def exported(self, file: Path, name: str) -> str | None:
        """The child module from which a file exports a name."""
        for tree in re.findall(r"pub(?:\(\w+\))? use ([^;]+);", self.files.get(file, "")):
            for path in names(tree):
                parts = path.removeprefix("crate::").split("::")
                if parts[-1] == name and len(parts) > 1:
                    return "/".join(parts[:-1])
        return None

    def target(self, path: str) -> str | None:
        """The unit that a path behind `crate::` leads to."""
        parts = path.split("::")
        if len(parts) == 1 and (self.source / "lib.rs").exists() and parts[0] not in self.layers:
            found = self.exported(Path("lib.rs"), parts[0])
            return self.unit(found) if found else None
        if len(parts) > 1 and f"{parts[0]}/{parts[1]}" not in self.layers:
            found = self.exported(Path(parts[0]) / "mod.rs", parts[1])
            if found and not found.startswith("crate"):
                return self.unit(f"{parts[0]}/{found}")
        return self.unit("/".join(parts))

    def imports(self, path: Path, text: str) -> list[str]:
        """The paths behind `crate::` that a file takes something from."""
        module = path.parent if path.name == "mod.rs" else path.with_suffix("")
        found = []
        uses = re.findall(r"\buse ((?:crate|super)\b[^;]*);", text)
        rest = re.sub(r"\buse (?:crate|super)\b[^;]*;", "", text)
        # Paths in the middle of code; `pub(in crate::…)` is none.
        uses += re.findall(r"(?<!in )\b((?:crate|super)(?:::\w+)+)", rest)
        for tree in uses:
            for name in names(tree):
                parts = name.split("::")
                place = list(module.parts)
                while parts and parts[0] == "super":
                    place, parts = place[:-1], parts[1:]
                if parts and parts[0] == "crate":
                    place, parts = [], parts[1:]
                # What a module takes from its own parent is the parent's business.
                if parts and (name.startswith("crate") or not place):
                    found.append("::".join([*place, *parts]))
        return found

    def violations(self) -> list[str]:
        """What is imported from the same layer or one above it."""
        wrong = []
        for path, text in self.files.items():
            if path.name == "lib.rs":
                continue
            own = self.unit(path.with_suffix("").as_posix().removesuffix("/mod"))
            if own not in self.layers:
                wrong.append(f"{self.source / path}: {own} has no place in the order of layers")
                continue
            for name in self.imports(path, text):
                other = self.target(name)
                if other is None or other == own or other not in self.layers:
                    continue
                if own == other.split("/")[0] and other != own and path.name == "mod.rs":
                    continue
                if self.layers[other] >= self.layers[own]:
                    wrong.append(f"{self.source / path}: {own} may not know {other} (crate::{name})")
        return wrong


def check(root: Path) -> list[str]:
    """The violations in every crate that has an order."""
    crates = order((root / "ARCHITECTURE.md").read_text())
    return [
        line for crate, layers in crates.items() for line in Crate(root / "crates" / crate / "src", layers).violations()
    ]


def self_check() -> None:
    """A tree with one violation of each kind, and one without."""
    page = "# A\n\n## Layers\n\n    ztensor: low → middle other → high → middle/top\n\n## B\n"
    files = {
        "lib.rs": "pub use high::High;\n",
        "low.rs": "// use crate::high;\n#[cfg(test)]\nmod tests { use crate::high::High; }\n",
        "middle/mod.rs": "mod top;\npub use top::Top;\nuse crate::low::{self, Low};\n",
        "middle/top.rs": "use crate::high::High;\nuse crate::open;\n",
        "other.rs": "use crate::low::Low;\n",
        "high.rs": "use crate::{middle, other};\n",
    }
    wrong = {
        "low.rs": "use crate::{\n    error,\n    high::High,\n};\n",
        "other.rs": "use crate::middle::Middle;\n",
        "middle/mod.rs": "fn f() { crate::high::f() }\n",
        "high.rs": "use crate::middle::Top;\n",
        "stray.rs": "use crate::low::Low;\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "ARCHITECTURE.md").write_text(page)

        def write(name: str, text: str) -> None:
            path = root / "crates/ztensor/src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        for name, text in files.items():
            write(name, text)
        assert check(root) == [], check(root)
        for name, text in wrong.items():
            write(name, text)
            found = check(root)
            assert len(found) == 1 and name in found[0], (name, found)
            if name in files:
                write(name, files[name])


def main() -> int:
    """Prints the violations."""
    if "--test" in sys.argv:
        self_check()
        return 0
    violations = check(ROOT)
    for line in violations:
        print(f"layers: {line}", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
