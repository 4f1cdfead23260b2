"""Stores in the training loops of transformers and Lightning: the real packages, on tiny models, interrupted and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ztensor
from ztensor import Store


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sixteen short texts of numbers."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = (torch.arange(8) * (index + 1)) % 32
        return {"input_ids": ids, "labels": ids}


def gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    model: torch.nn.Module = GPT2LMHeadModel(config)
    return model


def trainer(output: Path, callbacks: list[Any], steps: int) -> Any:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(output),
        max_steps=steps,
        save_steps=2,
        save_total_limit=1,
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
        # The schedule does not depend on the steps, so that two shorter runs are one long run.
        lr_scheduler_type="constant",
    )
    return Trainer(model=gpt2(), args=arguments, train_dataset=Rows(), callbacks=callbacks)


def test_transformers(tmp_path: Path) -> None:
    from ztensor.integrations.transformers import StoreCallback, resume

    whole = trainer(tmp_path / "whole", [], 8)
    whole.train()

    location = tmp_path / "store"
    assert resume(location, "run", tmp_path / "first") is None
    first = trainer(tmp_path / "first", [StoreCallback(location, "run", metadata={"seed": 1})], 4)
    first.train(resume_from_checkpoint=resume(location, "run", tmp_path / "first"))
    store = Store(location)
    assert store.keys() == ["run/checkpoint-2", "run/checkpoint-4"]
    about = store.info("run/checkpoint-4")
    assert about["metadata"]["step"] == 4
    assert about["metadata"]["seed"] == 1
    assert about["metadata"]["loss"] > 0
    # Its own limit has deleted the first checkpoint; the store has it, byte for byte, and the links are gone.
    assert [path.name for path in (tmp_path / "first").iterdir()] == ["checkpoint-4"]
    files = {file["path"] for file in about["files"]}
    assert {"model.safetensors", "optimizer.pt", "trainer_state.json"} <= files
    store.get("run/checkpoint-4", tmp_path / "restored")
    for path in (tmp_path / "first" / "checkpoint-4").rglob("*"):
        assert (
            path.read_bytes()
            == (tmp_path / "restored" / path.relative_to(tmp_path / "first" / "checkpoint-4")).read_bytes()
        )

    # On another machine, say: nothing but the store is left.
    second = trainer(tmp_path / "second", [StoreCallback(store, "run", keep=2)], 8)
    folder = resume(store, "run", tmp_path / "second")
    assert folder == str(tmp_path / "second" / "checkpoint-4")
    second.train(resume_from_checkpoint=folder)
    assert store.keys() == ["run/checkpoint-6", "run/checkpoint-8"]
    expected = whole.model.state_dict()
    for name, tensor in second.model.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0, msg=name)
    assert store.verify(decode=True) == []


def test_transformers_hears_of_errors(tmp_path: Path) -> None:
    from ztensor.integrations.transformers import StoreCallback

    store = Store(tmp_path / "store", create=True)
    callback = StoreCallback(store, "run")
    (tmp_path / "store" / "packs").write_text("not a folder")
    with pytest.raises(ztensor.ZTensorError):
        trainer(tmp_path / "out", [callback], 4).train()


def test_lightning(tmp_path: Path) -> None:
    import lightning.pytorch as lightning

    from ztensor.integrations.lightning import StoreCheckpoint, resume

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(8, 2)

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            loss: torch.Tensor = self.layer(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    rows = torch.utils.data.DataLoader(torch.randn(12, 8, generator=torch.Generator().manual_seed(3)), batch_size=4)

    def fit(model: Any, callbacks: list[Any], steps: int, path: str | None = None) -> Any:
        options: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        made = lightning.Trainer(
            max_steps=steps,
            accelerator="cpu",
            devices=1,
            default_root_dir=tmp_path / "root",
            callbacks=callbacks,
            enable_model_summary=False,
            **options,
        )
        made.fit(model, rows, ckpt_path=path)
        return model

    whole = fit(Model(), [], 9)
    store = Store(tmp_path / "store", create=True)
    fit(Model(), [StoreCheckpoint(store, "run", every=2, metadata={"a": 1})], 6)
    assert store.keys() == ["run/checkpoint-2", "run/checkpoint-4", "run/checkpoint-6"]
    assert store.info("run/checkpoint-6")["metadata"]["loss"] > 0
    path = resume(store, "run", tmp_path / "second")
    assert path is not None
    second = fit(Model(), [StoreCheckpoint(store, "run", every=3, keep=1)], 9, path)
    assert store.keys() == ["run/checkpoint-9"]
    for name, tensor in second.state_dict().items():
        torch.testing.assert_close(tensor, whole.state_dict()[name], rtol=0, atol=0, msg=name)
    assert not list((tmp_path / "root").glob(".ztensor-*"))
    assert resume(store, "other", tmp_path) is None
