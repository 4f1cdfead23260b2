"""The child process of one peer: reads requests as JSON lines, runs the worker's half of a workload, answers in JSON
lines.

It is started with the interpreter of the peer's environment and stays alive for the whole benchmark, so that
imports are paid once and the runs of several peers can take turns.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from importlib import import_module

from harness.memory import peak_bytes, reset_peak
from harness.peer import peer_class


def main(peer_name: str) -> None:
    # Libraries print to standard output; the answers travel on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message: dict) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        peer = peer_class(peer_name)()
        answer({"result": {"version": peer.version()}})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        request = json.loads(line)
        workload = import_module(f"workloads.{request['workload']}")
        try:
            gc.collect()
            reset_peak()
            before = peak_bytes()
            result = getattr(workload, request["call"])(peer, **request["arguments"])
            if "seconds" in result:
                result.setdefault("memory_bytes", peak_bytes() - before)
            answer({"result": result})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})


if __name__ == "__main__":
    main(sys.argv[1])
