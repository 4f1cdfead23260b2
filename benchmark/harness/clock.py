"""The clock that workers measure with: time that passes, or the CPU time of the worker with all its threads.

CPU time says nothing about waiting for a disk or about how well work is spread over cores, but on a machine that others
use too it is the only one that can be believed. The harness passes the choice on in an environment variable.
"""

from __future__ import annotations

import os
import time

VARIABLE = "BENCHMARK_CLOCK"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

now = CLOCKS[os.environ.get(VARIABLE, "wall")]
