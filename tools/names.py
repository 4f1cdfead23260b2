"""Checks that the codec gives every type and every constant of a module a name of its own, that comments wrap at 110 columns, and that
the files exist which ARCHITECTURE.md goes through on its walk.

Kernels may share names with each other: what is called the same in AVX2, AVX-512 and NEON is the same thing for another
instruction set. Every transform and entropy coder calls the trait with its hot loops `Steps`.

    python tools/names.py            checks the codec
    python tools/names.py --test     checks that violations are found
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "crates" / "z4ai"
COLUMNS = 110
SHARED = {"Steps"}
VISIBILITY = r"(?:pub(?:\([^)]*\))? )?"
# Types wherever they are, but for associated ones (`type Error = …;` inside of an impl); constants of modules.
TYPE = re.compile(rf"^(?: *{VISIBILITY}(?:struct|enum|trait|union)|{VISIBILITY}type) (\w+)", re.MULTILINE)
CONSTANT = re.compile(rf"^{VISIBILITY}(?:const|static) ([A-Z]\w*):", re.MULTILINE)
KERNEL = re.compile(r"/arch/\w+/(avx2|avx512|neon)\b")


def repeated(root: Path) -> list[str]:
    """Names that are defined in several places."""
    places = defaultdict(lambda: defaultdict(list))
    for path in sorted((root / "src").rglob("*.rs")):
        kernel = KERNEL.search(path.as_posix())
        text = path.read_text()
        for name in TYPE.findall(text) + CONSTANT.findall(text):
            places[name][kernel[1] if kernel else ""].append(path.relative_to(root).as_posix())
    problems = []
    for name, by_kernel in sorted(places.items()):
        several = any(len(paths) > 1 for paths in by_kernel.values()) or ("" in by_kernel and len(by_kernel) > 1)
        if several and name not in SHARED:
            problems.append(f"{name} is defined in {', '.join(path for paths in by_kernel.values() for path in paths)}")
    return problems


def wide(root: Path) -> list[str]:
    """Comments that do not wrap; blocks of code in them may be wider."""
    problems = []
    for path in sorted(path for folder in ("src", "tests", "examples") for path in (root / folder).rglob("*.rs")):
        fenced = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            comment = re.match(r" *//[/!]?(.*)", line)
            fenced = bool(comment) and fenced ^ ("```" in line)
            if comment and not fenced and len(line) > COLUMNS and not comment[1].startswith("     "):
                problems.append(f"{path.relative_to(root).as_posix()}:{number} has {len(line)} columns")
    return problems


def lost(root: Path, page: str) -> list[str]:
    """Files on the walk that do not exist. A name without a folder is in that of the file before it."""
    walk = re.split(r"^#+ ", page.partition("### A walk")[2], flags=re.MULTILINE)[0]
    problems, folder = [], root / "src"
    for name in re.findall(r"`([\w/]+\.rs)`", walk):
        path = next((path for path in (root / "src" / name, folder / name) if path.is_file()), None)
        if path is None:
            problems.append(f"ARCHITECTURE.md walks to {name}, which does not exist")
        elif "/" in name:
            folder = path.parent
    return problems if walk else ["ARCHITECTURE.md has no walk"]


def test() -> None:
    """Repeated names, wide comments and lost files are found, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, text in {
            "src/a.rs": "struct Once;\nstruct Twice;\ntrait Steps {}\nconst CHUNK: u8 = 1;\nimpl X {\n    const CHUNK: u8 = 1;\n}\n",
            "src/b.rs": "pub(crate) enum Twice {}\ntrait Steps {}\nfn f() {\n    struct Inner;\n}\n// "
            + 108 * "x"
            + "\n",
            "src/arch/x86_64/avx2/a.rs": "struct Registers;\nstruct Once;\n",
            "src/arch/x86_64/avx512/a.rs": "struct Registers;\n/// ```\n/// " + 200 * "x" + "\n/// ```\n",
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        assert [problem.split()[0] for problem in repeated(root)] == ["Once", "Twice"], repeated(root)
        assert wide(root) == ["src/b.rs:6 has 111 columns"], wide(root)
        page = "`z.rs`\n### A walk\n\n`b.rs`, `arch/x86_64/avx2/a.rs`, then `a.rs`, `%s.rs` and `b.rs`.\n\n## End\n\n`z.rs`\n"
        assert lost(root, page % "a") == [], lost(root, page % "a")
        assert [problem.split()[3] for problem in lost(root, page % "c")] == ["c.rs,"], lost(root, page % "c")


if __name__ == "__main__":
    if "--test" in sys.argv:
        test()
    elif problems := repeated(ROOT) + wide(ROOT) + lost(ROOT, (ROOT.parents[1] / "ARCHITECTURE.md").read_text()):
        raise SystemExit("names: " + "\nnames: ".join(problems))
