"""The package `obstore`: Python over the Rust crate object_store. Ranges side by side, copied into memory that is there already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np

from harness.environments import Environment
from harness.peer import Peer

PART = 8 << 20
CONCURRENT = 8


class Obstore(Peer):
    environment = Environment("obstore", ("obstore==0.12.1", "numpy"))

    def __init__(self) -> None:
        import obstore
        from obstore.store import S3Store

        self.obstore, self.store = obstore, S3Store

    def version(self) -> str:
        return version("obstore")

    def load_object(self, bucket: str, key: str, options: dict[str, str]) -> dict[str, np.ndarray]:
        store = self.store(
            bucket,
            endpoint=options["endpoint_url"],
            access_key_id=options["key"],
            secret_access_key=options["secret"],
            region=options["region"],
            client_options={"allow_http": True},
        )
        length = self.obstore.head(store, key)["size"]
        whole = np.empty(length, np.uint8)

        def fetch(start: int) -> None:
            end = min(start + PART, length)
            whole[start:end] = np.frombuffer(self.obstore.get_range(store, key, start=start, end=end), np.uint8)

        with ThreadPoolExecutor(CONCURRENT) as pool:
            list(pool.map(fetch, range(0, length, PART)))
        return {"file": whole}
