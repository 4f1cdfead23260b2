"""Files by URL: what an index, a slice and a whole model cost in requests, bytes, time and memory.

The server is SeaweedFS, on loopback. Requests and bytes are counted by a proxy before it (the one of the tests), which
adds 20 ms to each request, and where it is said limits the rate. Against boto3 and obstore everybody asks the server
itself.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.clock import now
from harness.environments import ROOT
from harness.formats import DATA
from harness.memory import touch
from harness.peer import Peer
from harness.report import Report, Table, Target, find, number, ratio
from harness.schedule import Contestant, Outcome, interleave
from harness.session import PeerError, Sessions

DELAY = 0.02
RATE = 200e6
TENSORS, COLUMNS = 300, 2048
DIRECTORY = DATA / "remote"
BUCKET = "models"
#: file → what it is called in the tables
FILES = {
    "model.safetensors": ".safetensors",
    "model.zt": ".zt",
    "small.zt": ".zt, compressed",
    "next.zt": "delta against the .safetensors",
}
#: file → most requests and bytes for its index
INDEX_GOALS = {"model.safetensors": (2, 256 << 10), "model.zt": (2, 256 << 10)}
#: file → most requests and bytes for its index and a slice
SLICE_GOALS = {
    "model.safetensors": (4, 1 << 20),
    "model.zt": (4, 1 << 20),
    "small.zt": (4, 2 << 20),
    "next.zt": (8, 4 << 20),
}
SPARE_MEMORY = 128 << 20


# The worker's half.


def index(peer: Peer, url: str, options: dict, base: str | None = None) -> dict:
    start = now()
    with peer.ztensor.open(url, base=base, storage_options=options) as reader:
        count = len(reader.keys())
    return {"seconds": {"total": now() - start}, "tensors": count}


def slice_one(peer: Peer, url: str, options: dict, name: str, base: str | None = None) -> dict:
    start = now()
    with peer.ztensor.open(url, base=base, storage_options=options) as reader:
        # One row and a piece of it: 4 KB.
        size = reader.read_slice(name, np.s_[7, 0:2048]).nbytes
    return {"seconds": {"total": now() - start}, "bytes": size}


def load(peer: Peer, url: str, options: dict) -> dict:
    start = now()
    size = touch(peer.ztensor.numpy.load_file(url, storage_options=options))
    return {"seconds": {"total": now() - start}, "bytes": size}


def load_object(peer: Peer, bucket: str, key: str, options: dict) -> dict:
    start = now()
    size = touch(peer.load_object(bucket, key, options))
    return {"seconds": {"total": now() - start}, "bytes": size}


def write_model(peer: Peer, source: str, target: str, compression: str | bool) -> dict:
    peer.ztensor.numpy.save_file(peer.ztensor.numpy.load_file(source), target, compression=compression)
    return {"bytes": Path(target).stat().st_size}


def write_delta(peer: Peer, source: str, base: str, target: str) -> dict:
    peer.archive_delta(Path(source), Path(base), Path(target))
    return {"bytes": Path(target).stat().st_size}


# The harness's half.


def _write_plain(path: Path, megabytes: int, step: float) -> None:
    """A bf16 model of normally distributed weights, or the same a training step later."""
    # Peers' environments need not have what this needs.
    from codec.structured import bf16

    rows = megabytes * 10**6 // (TENSORS * COLUMNS * 2)
    weights, noise = np.random.default_rng(3), np.random.default_rng(4)
    length = rows * COLUMNS * 2
    header = {
        f"layers.{number}.weight": {
            "dtype": "BF16",
            "shape": [rows, COLUMNS],
            "data_offsets": [number * length, (number + 1) * length],
        }
        for number in range(TENSORS)
    }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for _ in range(TENSORS):
            values = weights.standard_normal((rows, COLUMNS), dtype=np.float32) * 0.02
            if step:
                values += step * noise.standard_normal((rows, COLUMNS), dtype=np.float32)
            file.write(bf16(values).tobytes())


def prepare(sessions: Sessions, megabytes: int) -> Path:
    """The files, made once for each size."""
    folder = DIRECTORY / str(megabytes)
    folder.mkdir(parents=True, exist_ok=True)
    plain, after = folder / "model.safetensors", folder / "next.safetensors"
    if not plain.exists():
        _write_plain(plain, megabytes, 0)
    ours, packer = sessions.get("ztensor_here"), sessions.get("z4ai_here")
    if ours is None or packer is None:
        raise PeerError(f"our own packages do not start: {sessions.unavailable}")
    for name, compression in (("model.zt", False), ("small.zt", "z4ai")):
        if not (folder / name).exists():
            ours.call("remote", "write_model", source=plain, target=folder / name, compression=compression)
    if not (folder / "next.zt").exists():
        _write_plain(after, megabytes, 1e-4)
        packer.call("remote", "write_delta", source=after, base=plain, target=folder / "next.zt")
        after.unlink()
    return folder


@contextlib.contextmanager
def server(folder: Path | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """A SeaweedFS with a bucket, and in it the files of a folder; its port, and the options that reach it."""
    sys.path.insert(0, str(ROOT / "python" / "tests" / "remote"))
    import boto3
    import servers
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    with tempfile.TemporaryDirectory(dir=DATA) as place:
        seaweed = servers.Seaweed(Path(place))
        with seaweed.running():
            options = {
                "endpoint_url": seaweed.endpoint,
                "key": servers.KEY,
                "secret": servers.SECRET,
                "region": "us-east-1",
            }
            client = boto3.client(
                "s3",
                endpoint_url=seaweed.endpoint,
                aws_access_key_id=servers.KEY,
                aws_secret_access_key=servers.SECRET,
                region_name="us-east-1",
                config=Config(s3={"addressing_style": "path"}),
            )
            # It listens before all of it is up.
            end = time.monotonic() + 120
            while True:
                try:
                    client.create_bucket(Bucket=BUCKET)
                    break
                except (BotoCoreError, ClientError):
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
            for name in FILES if folder else ():
                client.upload_file(str(folder / name), BUCKET, name)
            yield seaweed.ports[0], options


def run(sessions: Sessions, options) -> Report:
    report = Report(f"remote-{options.size}", vars(options))
    folder = prepare(sessions, options.size)
    with server(folder) as (port, reached):
        counts = _counts(sessions, port, reached, report)
        slow = _limited(sessions, port, reached, options)
        direct = _direct(sessions, reached, options)
    report.outcomes = {"limited": slow, "direct": direct}
    report.tables = [_count_table(counts, options.size), _limited_table(slow), _direct_table(direct)]
    report.targets = [*_count_targets(counts), *_load_targets(slow, direct)]
    return report


def _counts(sessions: Sessions, port: int, reached: dict, report: Report) -> list[tuple[str, str, int, int, float]]:
    """What, of which file, requests, bytes, seconds."""
    from proxy import Proxy

    proxy = Proxy(port, DELAY)
    options = {**reached, "endpoint_url": proxy.address}
    session = sessions.get("ztensor_here")
    found = []
    # The first request of a process sets up its client; that is not a file's cost.
    session.call("remote", "index", url=f"s3://{BUCKET}/model.zt", options=options)
    for name in FILES:
        base = f"s3://{BUCKET}/model.safetensors" if name == "next.zt" else None
        shared = {"url": f"s3://{BUCKET}/{name}", "options": options, "base": base}
        for what, call, more in (("index", "index", {}), ("slice", "slice_one", {"name": "layers.150.weight"})):
            proxy.counted()
            try:
                seconds = session.call("remote", call, **shared, **more)["seconds"]["total"]
            except PeerError as error:
                report.notes.append(f"{what} of {name}: {error}")
                continue
            found.append((what, name, *proxy.counted(), seconds))
    proxy.close()
    return found


def _limited(sessions: Sessions, port: int, reached: dict, options) -> list[Outcome]:
    from proxy import Proxy

    proxy = Proxy(port, DELAY, RATE)
    slow = {**reached, "endpoint_url": proxy.address}
    contestants = [
        Contestant(FILES[name], "ztensor_here", "remote", {"url": f"s3://{BUCKET}/{name}", "options": slow}, "load")
        for name in ("model.safetensors", "model.zt", "small.zt")
    ]
    outcomes = interleave(sessions, contestants, options.runs, options.warmup, patience=options.patience)
    proxy.close()
    return outcomes


def _direct(sessions: Sessions, reached: dict, options) -> list[Outcome]:
    url = {"url": f"s3://{BUCKET}/model.safetensors", "options": reached}
    whole = {"bucket": BUCKET, "key": "model.safetensors", "options": reached}
    contestants = [Contestant("load_file", "ztensor_here", "remote", url, "load")]
    contestants += [
        Contestant("ranges into memory", peer, "remote", whole, "load_object")
        for peer in ("boto3", "obstore")
        if peer in options.peers
    ]
    return interleave(sessions, contestants, options.runs, options.warmup, patience=options.patience)


def _count_table(counts: list, megabytes: int) -> Table:
    title = f"What is fetched of a file of {megabytes} MB with {TENSORS} tensors, 20 ms per request"
    table = Table(title, ["what", "file", "requests", "KB", "seconds"])
    words = {"index": "open, list the names", "slice": "open, 4 KB of one tensor"}
    for what, name, requests, sent, seconds in counts:
        table.rows.append([words[what], FILES[name], str(requests), number(sent / 1e3, 1), number(seconds, 3)])
    return table


def _limited_table(outcomes: list[Outcome]) -> Table:
    table = Table(f"load_file from a source of {RATE / 1e6:.0f} MB/s", ["file", "tensors MB/s", "seconds"])
    for outcome in outcomes:
        speed = outcome.throughput() if outcome.seconds else None
        table.rows.append([outcome.contestant.label, number(speed and speed / 1e6, 0), number(outcome.best())])
    return table


def _direct_table(outcomes: list[Outcome]) -> Table:
    columns = ["who", "what", "MB/s", "seconds", "memory beyond the bytes, MB"]
    table = Table("A plain file from S3 on loopback, as fast as it comes", columns)
    for outcome in outcomes:
        speed = outcome.throughput() if outcome.seconds else None
        beyond = outcome.facts["memory_bytes"] - outcome.facts["bytes"] if outcome.seconds else None
        table.rows.append(
            [
                outcome.contestant.peer,
                outcome.contestant.label,
                number(speed and speed / 1e6, 0),
                number(outcome.best()),
                number(beyond and max(beyond, 0) / 1e6, 1),
            ]
        )
    return table


def _count_targets(counts: list) -> list[Target]:
    targets = []
    for what, name, requests, sent, _ in counts:
        goals = (INDEX_GOALS if what == "index" else SLICE_GOALS).get(name)
        if goals is None:
            continue
        targets.append(Target(f"{what}, {FILES[name]}: {goals[0]} requests ÷ requests", 1.0, goals[0] / requests))
        targets.append(Target(f"{what}, {FILES[name]}: {goals[1] >> 10} KiB ÷ bytes", 1.0, goals[1] / max(sent, 1)))
    return targets


def _load_targets(slow: list[Outcome], direct: list[Outcome]) -> list[Target]:
    plain = [find(slow, "ztensor_here", FILES[name]) for name in ("model.safetensors", "model.zt")]
    quickest = min((outcome.best() for outcome in plain if outcome), default=None)
    small = find(slow, "ztensor_here", FILES["small.zt"])
    targets = [
        Target("load_file at 200 MB/s: compressed ÷ plain", 1.4, ratio(quickest, small.best()) if small else None)
    ]
    ours = find(direct, "ztensor_here", "load_file")
    for peer in ("boto3", "obstore"):
        theirs = find(direct, peer, "ranges into memory")
        reached = ratio(ours.throughput(), theirs.throughput()) if ours and theirs else None
        targets.append(Target(f"load_file from S3 ÷ {peer} with parallel ranges", 0.8, reached))
    beyond = ours.facts["memory_bytes"] - ours.facts["bytes"] if ours else None
    spare = SPARE_MEMORY / max(beyond, 1e6) if beyond is not None else None
    targets.append(Target("128 MiB ÷ memory beyond the tensors", 1.0, spare))
    return targets
