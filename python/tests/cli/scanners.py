"""What the tests of ``ztensor scan`` share: pickles made by hand, the command, and the scanners that it is compared with."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What other people's scanners say, by their own packages in an environment of their own (``make .scanners/.ready``).
SCANNERS = Path(__file__).parents[3] / ".scanners" / "bin" / "python"


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (__import__("os").system, ("echo pwned",))


def literal(value: object) -> bytes:
    """A value without the frame and the stop of its own pickle."""
    return pickle.dumps(value, protocol=3)[2:-1]


def reduced(module: str, name: str, arguments: tuple[object, ...]) -> bytes:
    return b"\x80\x03" + f"c{module}\n{name}\n".encode() + literal(arguments) + b"R."


def zipped(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def scan(*paths: Path, code: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ztensor", "scan", "--json", *map(str, paths)], capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return {Path(entry["path"]).name: entry for entry in json.loads(done.stdout)["result"]}


def others(script: str, *arguments: object) -> Any:
    """What a script says that runs beside the other scanners."""
    assert SCANNERS.exists(), "make .scanners/.ready installs the scanners that this test compares with"
    done = subprocess.run([SCANNERS, "-c", script, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


THEIR_VERDICTS = """
import json, logging, sys
from pathlib import Path
logging.disable(logging.CRITICAL)
from fickling.analysis import Severity, check_safety
from fickling.fickle import Pickled, StackedPickle
from picklescan.scanner import scan_file_path
verdicts = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    found = scan_file_path(str(path))
    flags = ["picklescan"] if found.issues_count else []
    if path.suffix == ".pkl":
        try:
            pickles = list(StackedPickle.load(path.read_bytes()))
            if any(check_safety(one).severity >= Severity.LIKELY_OVERTLY_MALICIOUS for one in pickles):
                flags.append("fickling")
        except Exception:
            pass  # It stumbles over keyword arguments and over what breaks off.
    verdicts[path.name] = flags
print(json.dumps(verdicts))
"""
