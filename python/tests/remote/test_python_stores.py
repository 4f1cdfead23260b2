"""``ztensor.Store`` in a bucket: added, read, saved to and opened by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import ztensor
from ztensor import Store


def test_a_store_in_a_bucket(moto: tuple[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    weight = np.arange(5000, dtype=np.float32)
    save_file({"weight": weight}, folder / "model.safetensors")
    url = f"s3://models/{tmp_path.name}"
    store = Store(url, create=True, storage_options={"endpoint_url": moto[0], "allow_http": "true"})
    store.add(folder, "run/step-1")
    np.testing.assert_array_equal(store["run/step-1"].read_numpy("weight"), weight)
    with store.saver("run-2") as saver:
        saver.save(7, {"weight": weight, "step": 7})
    assert saver.load()["step"] == 7
    store.get("run/step-1", tmp_path / "restored")
    assert (tmp_path / "restored" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert store.verify(decode=True) == []

    monkeypatch.setenv("AWS_ENDPOINT_URL", moto[0])
    assert Store(url).keys() == ["run-2/step-7", "run/step-1"]
    np.testing.assert_array_equal(ztensor.open(f"{url}//run/step-1").read_numpy("weight"), weight)
    assert ztensor.open(f"{url}//run/step-1/model.safetensors").keys() == ["weight"]
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        ztensor.open(f"{url}//run/step-2")
