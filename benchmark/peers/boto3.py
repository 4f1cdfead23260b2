"""The package `boto3`, as people read large objects with it: ranges side by side, into memory that is there already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np

from harness.peer import Peer

PART = 8 << 20
CONCURRENT = 8


class Boto3(Peer):
    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        self.boto3, self.config = boto3, Config(s3={"addressing_style": "path"}, max_pool_connections=CONCURRENT)

    def version(self) -> str:
        return version("boto3")

    def load_object(self, bucket: str, key: str, options: dict[str, str]) -> dict[str, np.ndarray]:
        client = self.boto3.client(
            "s3",
            endpoint_url=options["endpoint_url"],
            aws_access_key_id=options["key"],
            aws_secret_access_key=options["secret"],
            region_name=options["region"],
            config=self.config,
        )
        length = client.head_object(Bucket=bucket, Key=key)["ContentLength"]
        whole = np.empty(length, np.uint8)
        view = memoryview(whole)

        def fetch(start: int) -> None:
            end = min(start + PART, length)
            body = client.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{end - 1}")["Body"]
            done = start
            while done < end:
                count = body.readinto(view[done:end])
                if not count:
                    raise OSError("the answer ended early")
                done += count

        with ThreadPoolExecutor(CONCURRENT) as pool:
            list(pool.map(fetch, range(0, length, PART)))
        return {"file": whole}
