"""Servers that speak the protocols of Azure and Google. Azurite is Microsoft's own; for Google there is a small fake of ours, of
the part of the XML API that the crate object_store uses: it shows that our requests and settings go together, not what Google's
servers would answer.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import http.server
import re
import threading
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

AZURITE = Path(__file__).resolve().parents[3] / ".servers" / "node_modules" / ".bin" / "azurite-blob"

# The account that every Azurite has.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def azurite_command(port: int) -> list[str]:
    options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence"]
    return [str(AZURITE), *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)]


def azure_put(port: int, path: str, body: bytes = b"", query: str = "", kind: str = "") -> int:
    """Makes a container or a blob, signed as Azure wants it; the status of the answer."""
    path = f"/{ACCOUNT}/{quote(path)}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    if kind:
        headers["x-ms-blob-type"] = kind
    signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    resource = f"/{ACCOUNT}{path}" + "".join(f"\n{name}:{value[0]}" for name, value in sorted(parse_qs(query).items()))
    words = ["PUT", "", "", str(len(body) or ""), "", "", "", "", "", "", "", ""]
    text = "\n".join(words) + f"\n{signed}{resource}"
    signature = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    headers["authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"{path}?{query}" if query else path, body, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


class GoogleFake(http.server.ThreadingHTTPServer):
    """Buckets of objects with generations: get, ranges, put, create, delete, lists in pages and uploads in parts."""

    daemon_threads = True
    request_queue_size = 64
    token = "a-token"
    page = 50

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _GoogleHandler)
        self.lock = threading.Lock()
        # name with its bucket → bytes, generation, time
        self.objects: dict[str, tuple[bytes, int, float]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.generation = 1000
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, name: str, content: bytes) -> int:
        with self.lock:
            self.generation += 1
            self.objects[name] = (content, self.generation, time.time())
            return self.generation


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


class _GoogleHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GoogleFake

    def log_message(self, format: str, *args: object) -> None:
        pass

    def reply(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "content-length" not in (headers or {}):
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        address = urlsplit(self.path)
        name = unquote(address.path.lstrip("/"))
        query = {key: values[0] for key, values in parse_qs(address.query, keep_blank_values=True).items()}
        if self.headers.get("authorization") != f"Bearer {self.server.token}":
            self.reply(401)
        elif "/" not in name:
            self.list(name, query)
        elif self.command in ("GET", "HEAD"):
            self.get(name)
        elif self.command == "DELETE":
            self.delete(name, query)
        elif "uploads" in query or "uploadId" in query:
            self.upload(name, query, body)
        else:
            self.put(name, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815

    def get(self, name: str) -> None:
        found = self.server.objects.get(name)
        if found is None:
            self.reply(404)
            return
        content, generation, written = found
        headers = {
            "etag": _tag(content),
            "x-goog-generation": str(generation),
            "last-modified": formatdate(written, usegmt=True),
        }
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if self.headers.get("if-match", headers["etag"]) != headers["etag"]:
            self.reply(412)
        elif not wanted:
            self.reply(200, {**headers, "content-length": str(len(content))}, content)
        elif int(wanted[1]) >= len(content):
            self.reply(416)
        else:
            start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(content))
            headers["content-range"] = f"bytes {start}-{end - 1}/{len(content)}"
            self.reply(206, headers, content[start:end])

    def put(self, name: str, body: bytes) -> None:
        wanted = self.headers.get("x-goog-if-generation-match")
        with self.server.lock:
            present = self.server.objects.get(name)
            if wanted is not None and int(wanted) != (present[1] if present else 0):
                status = 412
            else:
                status = 200
                self.server.generation += 1
                self.server.objects[name] = (body, self.server.generation, time.time())
            generation = self.server.generation
        headers = {"etag": _tag(body), "x-goog-generation": str(generation)} if status == 200 else {}
        self.reply(status, headers)

    def delete(self, name: str, query: dict[str, str]) -> None:
        if "uploadId" in query:
            self.server.uploads.pop(query["uploadId"], None)
            self.reply(204)
        else:
            self.reply(204 if self.server.objects.pop(name, None) else 404)

    def upload(self, name: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            upload = f"upload-{time.monotonic_ns()}"
            self.server.uploads[upload] = {}
            said = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            self.reply(200, {}, said.encode())
            return
        parts = self.server.uploads.get(query["uploadId"])
        if parts is None:
            self.reply(404)
        elif self.command == "PUT":
            parts[int(query["partNumber"])] = body
            self.reply(200, {"etag": _tag(body)})
        else:
            named = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
            content = b"".join(parts[number] for number in named)
            generation = self.server.put(name, content)
            del self.server.uploads[query["uploadId"]]
            said = (
                f"<CompleteMultipartUploadResult><ETag>{escape(_tag(content))}</ETag></CompleteMultipartUploadResult>"
            )
            self.reply(200, {"x-goog-generation": str(generation)}, said.encode())

    def list(self, bucket: str, query: dict[str, str]) -> None:
        with self.server.lock:
            objects = dict(self.server.objects)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = max(query.get("continuation-token", ""), query.get("start-after", ""))
        entries: dict[str, str] = {}
        for name in sorted(objects):
            key = name.removeprefix(f"{bucket}/")
            if not name.startswith(f"{bucket}/") or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            content, _, written = objects[name]
            if delimiter and delimiter in rest:
                folder = prefix + rest.split(delimiter)[0] + delimiter
                entries[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            else:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(written)) + f".{int(written % 1 * 1000):03}Z"
                entries[key] = (
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                    f"<LastModified>{stamp}</LastModified><ETag>{escape(_tag(content))}</ETag></Contents>"
                )
        keys = [key for key in sorted(entries) if key > after]
        shown = keys[: self.server.page]
        more = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if len(keys) > len(shown) else ""
        text = "".join(entries[key] for key in shown) + more
        self.reply(200, {"content-type": "application/xml"}, f"<ListBucketResult>{text}</ListBucketResult>".encode())
