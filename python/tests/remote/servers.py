"""Servers for tests, on loopback: each is a subprocess or a thread that ends with the test session."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

# Puts the files of a folder somewhere; returns the prefix by which they are opened there.
Publish = Callable[[Path], str]

KEY, SECRET = "test-key", "test-secret"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def free_ports_with_companions(count: int) -> list[int]:
    """Ports for servers each of which takes the one 10,000 above it as well."""
    found: list[int] = []
    while len(found) < count:
        # Below those that the kernel gives to outgoing connections.
        port = random.randrange(12_000, 22_000)
        with contextlib.suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 10_000))
            if port not in found:
                found.append(port)
    return found


@contextlib.contextmanager
def running(
    command: list[str], port: int, seconds: float = 120, ready: Callable[[int], bool] = lambda port: True
) -> Iterator[None]:
    """Runs a server until the block ends; returns when it listens and is ready."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def failed(what: str) -> RuntimeError:
            log.seek(0)
            said = log.read().decode(errors="replace")
            return RuntimeError(f"{command[0]} {what}; it said:\n{said[-2000:]}")

        try:
            end = time.monotonic() + seconds
            while True:
                if process.poll() is not None:
                    raise failed(f"ended with {process.returncode}")
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    if ready(port):
                        break
                if time.monotonic() > end:
                    raise failed(f"does not serve on port {port}")
                time.sleep(0.1)
            yield
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def started(start: Callable[[], tuple[list[str], int]], ready: Callable[[int], bool], tries: int = 4) -> Iterator[int]:
    """Runs a server on ports that were free a moment ago; where somebody else was quicker to take one, on others."""
    with contextlib.ExitStack() as stack:
        for left in reversed(range(tries)):
            command, port = start()
            try:
                stack.enter_context(running(command, port, ready=ready))
            except RuntimeError:
                if not left:
                    raise
                continue
            yield port
            return


def program(name: str) -> str:
    """A program of the test environment."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}") or name


class FileServer(http.server.ThreadingHTTPServer):
    """Serves files with ranges, counts requests and bytes, and misbehaves on demand."""

    daemon_threads = True
    # Eight connections and more may come at once.
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.sent = 0
        self.ranges = True
        self.tags = True
        self.faults: list[int | str] = []
        # A content encoding that answers name; how bodies say where they end: "length", "chunks" or "close".
        self.encoding: str | None = None
        self.end = "length"
        # Each connection has a thread of its own.
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def counted(self) -> tuple[int, int]:
        """Requests and bytes since the last call."""
        with self.lock:
            counted = (len(self.requests), self.sent)
            self.requests, self.sent = [], 0
        return counted


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def reply(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.send_body(body)

    def send_body(self, body: bytes) -> None:
        with self.server.lock:
            self.server.sent += len(body)
        self.wfile.write(body)

    def note(self) -> int | str | None:
        """Counts a request; what is to go wrong with it."""
        with self.server.lock:
            self.server.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            return self.server.faults.pop(0) if self.server.faults else None

    def reply_whole(self, headers: dict[str, str], file: bytes, truncated: bool) -> None:
        """All of a file, from a server that does not serve parts."""
        body = file[: len(file) // 2] if truncated else file
        end = self.server.end
        if end == "length":
            self.close_connection = truncated
            self.reply(200, {**headers, "content-length": str(len(file))}, body)
            return
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        if end == "chunks":
            self.send_header("transfer-encoding", "chunked")
            pieces = [body[start : start + 100_000] for start in range(0, len(body), 100_000)]
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
            body += b"" if truncated else b"0\r\n\r\n"
        self.close_connection = truncated or end == "close"
        self.end_headers()
        self.send_body(body)

    def find(self) -> bytes | None:
        return self.server.files.get(urlsplit(self.path).path.lstrip("/"))

    def do_GET(self) -> None:
        fault = self.note()
        if fault == "drop":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.reply(fault, {"retry-after": "0"})
            return
        file = self.find()
        if file is None:
            self.reply(404, {})
            return
        self.serve(file, {"etag": f'"{hash(file)}"'} if self.server.tags else {}, truncated=fault == "truncate")

    do_HEAD = do_GET  # noqa: N815

    def serve(self, file: bytes, headers: dict[str, str], truncated: bool = False) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if self.server.encoding:
            headers = {**headers, "content-encoding": self.server.encoding}
        if not wanted or not self.server.ranges:
            self.reply_whole(headers, file, truncated)
            return
        start, end = int(wanted[1]), min(int(wanted[2]), len(file) - 1)
        if start >= len(file):
            self.reply(416, {"content-range": f"bytes */{len(file)}"})
            return
        body = file[start : end + 1]
        described = {"content-range": f"bytes {start}-{end}/{len(file)}", "content-length": str(len(body))}
        if truncated:
            body, self.close_connection = body[: len(body) // 2], True
        self.reply(206, {**headers, **described}, body)


class HubServer(FileServer):
    """Answers as the Hugging Face Hub does for files: metadata at `resolve`, bytes at a signed address that expires."""

    commit = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _HubHandler
        self.storage = FileServer()
        self.storage.RequestHandlerClass = _StorageHandler
        self.signature = 1
        self.storage.hub = self  # type: ignore[attr-defined]
        self.token: str | None = None
        # Digests stated in place of the true ones, names listed beside the true ones, the offset from which on nothing is served.
        self.stated: dict[str, str] = {}
        self.listed: list[str] = []
        self.served_to: int | None = None

    def add(self, repository: str, file: str, content: bytes) -> None:
        self.files[f"{repository}/{file}"] = content


class _HubHandler(_Handler):
    server: HubServer

    def do_GET(self) -> None:
        self.note()
        hub = self.server
        path = urlsplit(self.path).path
        found = re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = found or re.fullmatch(r"/api/(?:models/)?((?:datasets/)?[^/]+/[^/]+)/revision/([^/]+)()", path)
        if hub.token and self.headers.get("authorization") != f"Bearer {hub.token}":
            self.reply(401, {"x-error-code": "RepoNotFound", "x-error-message": "Repository not found"})
        elif not found or not any(name.startswith(f"{found[1]}/") for name in hub.files):
            self.reply(404, {"x-error-code": "RepoNotFound", "x-error-message": "Repository not found"})
        elif found[2] not in ("main", hub.commit):
            self.reply(404, {"x-error-code": "RevisionNotFound", "x-error-message": "Invalid rev id"})
        elif not found[3]:
            names = [name.removeprefix(f"{found[1]}/") for name in hub.files if name.startswith(f"{found[1]}/")]
            siblings = [{"rfilename": name} for name in names + hub.listed]
            described = {"id": found[1].removeprefix("datasets/"), "sha": hub.commit, "siblings": siblings}
            self.reply(200, {"content-type": "application/json"}, json.dumps(described).encode())
        elif (file := hub.files.get(f"{found[1]}/{found[3]}")) is None:
            self.reply(404, {"x-error-code": "EntryNotFound", "x-error-message": "Entry not found"})
        elif found[3].endswith(".json"):
            # Small files are stated by the name that git has for them.
            tag = hashlib.sha1(b"blob %d\0" % len(file) + file).hexdigest()
            self.serve(file, {"x-repo-commit": hub.commit, "etag": f'"{tag}"'})
        else:
            name = hub.stated.get(found[3]) or hashlib.sha256(file).hexdigest()
            hub.storage.files[name] = file
            headers = {
                "x-repo-commit": hub.commit,
                "x-linked-size": str(len(file)),
                "x-linked-etag": f'"{name}"',
                "location": f"{hub.storage.address}/{name}?signature={hub.signature}",
            }
            self.reply(302, headers)

    do_HEAD = do_GET  # noqa: N815


class _StorageHandler(_Handler):
    def do_GET(self) -> None:
        hub: HubServer = self.server.hub  # type: ignore[attr-defined]
        wanted = re.match(r"bytes=(\d+)", self.headers.get("range", ""))
        ended = hub.served_to is not None and wanted and int(wanted[1]) >= hub.served_to
        if urlsplit(self.path).query != f"signature={hub.signature}" or ended:
            self.note()
            self.reply(403, {})
            return
        super().do_GET()

    do_HEAD = do_GET  # noqa: N815


def seaweed_config(folder: Path) -> Path:
    """The identities of a SeaweedFS server."""
    config = folder / "s3.json"
    identity = {
        "name": "test",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    return config


class Seaweed:
    """A SeaweedFS server that may be killed and started again on its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports_with_companions(4)
        (folder / "data").mkdir()
        self.config = seaweed_config(folder)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Runs the server; it is killed at the end of the block."""
        command = [
            program("weed"),
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={self.folder / 'data'}",
            "-filer",
            "-s3",
            f"-s3.port={self.ports[0]}",
            # Services on ports that every such server would want.
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={self.config}",
            f"-master.port={self.ports[1]}",
            f"-volume.port={self.ports[2]}",
            f"-filer.port={self.ports[3]}",
            "-volume.max=20",
            "-master.telemetry=false",
        ]
        with contextlib.ExitStack() as stack:
            for tries in range(6):
                # After a kill its parts may wait for one another for too long, and give up.
                try:
                    stack.enter_context(running(command, self.ports[0], seconds=120))
                    break
                except RuntimeError:
                    if tries == 5:
                        raise
            yield
