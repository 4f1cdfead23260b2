"""A training run that is interrupted and goes on: its states are stored in the background, and take little more than one of them.

Run it twice: ``python examples/training.py``, the second time with more steps. ``--store`` may be a bucket.
"""

from __future__ import annotations

import argparse

import torch

from ztensor import Store


def main() -> None:
    """Trains a small network, from where it was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="runs")
    parser.add_argument("--run", default="digits")
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    store = Store(arguments.store, create=True)
    with store.saver(arguments.run, every=20, keep=5, keep_every=100) as saver:
        if saver.latest() is not None:
            state = saver.load()
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            print(f"goes on after step {saver.latest()}")
        for step in range(saver.next_step(), arguments.steps):
            inputs = torch.randn(32, 64)
            loss = torch.nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(dim=1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            saver.save(
                step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, metadata={"loss": loss.item()}
            )
    for listing in store.log(arguments.run):
        print(f"{listing['name']:24} loss {listing['metadata']['loss']:.4f}")
    stats = store.stats()
    print(f"{stats['logical_bytes']:,} bytes of states, {stats['stored_bytes']:,} stored")


if __name__ == "__main__":
    main()
