"""A proxy before a server on loopback: it counts requests and bytes, makes them slow, and breaks answers on demand."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
from collections.abc import Iterator

# Forwarded at once; the rate is kept between two of them.
PIECE = 256 << 10

# A status to answer with instead of asking the server; "drop" closes the connection; "truncate" sends half a body and closes;
# "stall" sends half a body and then nothing, for two minutes; "etag" passes an answer on under another ETag.
Fault = int | str


class Proxy(http.server.ThreadingHTTPServer):
    """Forwards requests to the server on a port of this machine."""

    daemon_threads = True
    # Eight connections and more may come at once.
    request_queue_size = 64

    def __init__(self, port: int, delay: float = 0, rate: float | None = None) -> None:
        """:param delay: seconds before each answer
        :param rate: bytes per second of all answers together
        """
        super().__init__(("127.0.0.1", 0), _Forward)
        self.port, self.delay, self.rate = port, delay, rate
        # One for each of the next requests; None lets it pass.
        self.faults: list[Fault | None] = []
        # Whether what `faults` holds last is for all further requests as well.
        self.lasting = False
        # Answers that have stalled.
        self.waiting = 0
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._requests: list[str] = []
        self._sent = 0
        self._free_at = 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def counted(self) -> tuple[int, int]:
        """Requests and bytes of bodies since the last call."""
        with self._lock:
            counted = (len(self._requests), self._sent)
            self._requests, self._sent = [], 0
        return counted

    def close(self) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()

    def next_fault(self, request: str) -> Fault | None:
        with self._lock:
            self._requests.append(request)
            if not self.faults:
                return None
            return self.faults[0] if self.lasting and len(self.faults) == 1 else self.faults.pop(0)

    def pace(self, count: int) -> None:
        """Waits until so many bytes more may pass."""
        with self._lock:
            self._sent += count
            if self.rate is None:
                return
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self.rate
            wait = self._free_at - now
        time.sleep(wait)


class _Forward(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy
    wbufsize = 0
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)

    def finish(self) -> None:
        self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def forward(self) -> None:
        fault = self.server.next_fault(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(self.server.delay)
        if fault == "drop":
            self.close_connection = True
        elif isinstance(fault, int):
            self.send_response(fault)
            self.send_header("retry-after", "0")
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            # A client that gives up while it is answered is no trouble of the proxy's.
            with contextlib.suppress(ConnectionError):
                self.answer(body, fault)

    def answer(self, body: bytes, fault: Fault | None) -> None:
        self.upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
        response = self.upstream.getresponse()
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "etag"):
                self.send_header(name, value)
            elif name.lower() == "etag":
                self.send_header(name, '"another"' if fault == "etag" else value)
        length = response.getheader("content-length")
        whole = b""
        if length is None and self.command != "HEAD" and response.status not in (204, 304):
            whole = response.read()
            length = str(len(whole))
            self.send_header("content-length", length)
        self.end_headers()
        if self.command == "HEAD":
            response.read()
            return
        left = int(length or 0)
        if fault in ("truncate", "stall"):
            left //= 2
        pieces: Iterator[bytes] = iter([whole[:left]]) if whole else iter(lambda: response.read(min(PIECE, left)), b"")
        for piece in pieces:
            self.server.pace(len(piece))
            self.wfile.write(piece)
            left -= len(piece)
        if fault in ("truncate", "stall"):
            self.close_connection = True
            # The rest of the server's answer is not read, so its connection cannot serve again.
            self.upstream.close()
        if fault == "stall":
            self.server.waiting += 1
            self.server.ended.wait(120)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815
