"""The clock that workers measure with: time that passes, or the CPU time of the worker with all its threads and the programs
that it ran.

CPU time says nothing about waiting for a disk or about how well work is spread over cores, but on a machine that others
use too it is the only one that can be believed. The harness passes the choice on in an environment variable.

A stage that is over within milliseconds is repeated. Threads that have just been woken may share a core until the kernel
spreads them, for longer than such a stage takes, so that a single short call is a lottery between one core and all.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import TypeVar

VARIABLE = "BENCHMARK_CLOCK"


def _cpu() -> float:
    own, programs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + programs.ru_utime + programs.ru_stime


CLOCKS = {"wall": time.perf_counter, "cpu": _cpu}

now = CLOCKS[os.environ.get(VARIABLE, "wall")]

#: A stage is repeated until this many seconds have passed; what takes longer runs once.
LONG_ENOUGH = 0.05

Input = TypeVar("Input")
Result = TypeVar("Result")


def fastest(action: Callable[[Input], Result], prepare: Callable[[], Input] = lambda: None) -> tuple[Result, float]:
    """The last result of an action and the seconds of its fastest repetition.

    `prepare` makes the argument of each repetition, outside the measured time. A result is let go before the next
    repetition, so a tool's allocator may use its memory again.
    """
    begin = time.perf_counter()
    best = float("inf")
    while True:
        argument = prepare()
        result = None
        start = now()
        result = action(argument)
        best = min(best, now() - start)
        if time.perf_counter() - begin >= LONG_ENOUGH:
            return result, best
