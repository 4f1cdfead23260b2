"""The harness's end of a worker process: starts it in the peer's environment, asks it questions, ends it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from harness.environments import PROJECT
from harness.peer import peer_class

BENCHMARK = Path(__file__).resolve().parents[1]


class PeerError(Exception):
    """The peer's library failed, or its environment could not be made."""


class Session:
    def __init__(self, peer: str, variables: dict[str, str] | None = None) -> None:
        try:
            environment = peer_class(peer).environment
            python = environment.python()
        except RuntimeError as error:
            raise PeerError(str(error)) from error
        self.peer = peer
        inherited = dict(os.environ)
        if environment != PROJECT:
            # A search path that is meant for the project would put our packages in front of the peer's.
            inherited.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [str(python), "-m", "harness.worker", peer],
            cwd=BENCHMARK,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**inherited, "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})},
        )
        self.version: str = self._answer()["version"]

    def call(self, workload: str, call: str, **arguments: object) -> dict:
        request = {"workload": workload, "call": call, "arguments": arguments}
        self._process.stdin.write(json.dumps(request, default=str) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.peer}: the worker ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer["result"]


class Sessions:
    """Workers by peer, started when first asked for. Peers that cannot start are remembered with the reason."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}
        self.unavailable: dict[str, str] = {}

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._open.values():
            session.close()

    def get(self, peer: str) -> Session | None:
        if peer in self.unavailable:
            return None
        if peer not in self._open:
            try:
                self._open[peer] = self._start(peer)
            except PeerError as error:
                self.unavailable[peer] = str(error)
                return None
        return self._open[peer]

    def _start(self, peer: str) -> Session:
        return Session(peer)

    def fresh(self, peer: str) -> Session:
        """A worker of its own, for one run; the caller closes it."""
        return self._start(peer)

    def versions(self) -> dict[str, str]:
        return {peer: session.version for peer, session in self._open.items()}
