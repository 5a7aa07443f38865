# SPDX-License-Identifier: MIT
"""What an operator of a real PyTorch costs (CPU time of the thread): alone,
recorded by the source `torch`, and under torch.profiler, CPU only, without and
with shapes; in turns in one process.

    LD_LIBRARY_PATH=build/sim LD_PRELOAD=build/libgputrace.so \\
    GPUTRACE_TRACE=cuda,torch GPUTRACE_START=profiler-api python torch_ops.py
"""
import ctypes
import json
import statistics
import time

OPERATORS, ROUNDS = 5000, 15

assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0

import torch    # noqa: E402: as in a program that has CUDA first

library = ctypes.CDLL(None)
torch.set_num_threads(1)
a, b = torch.ones(4), torch.ones(4)


def alone():
    start = time.thread_time_ns()
    for _ in range(OPERATORS):
        a.add_(b)
    return (time.thread_time_ns() - start) / OPERATORS


def recorded():
    library.cuProfilerStart()
    time.sleep(0.05)
    took = alone()
    library.cuProfilerStop()
    return took


def profiled(**options):
    with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], **options):
        return alone()


WAYS = {"alone": alone, "recorded": recorded, "torch.profiler": profiled,
        "torch.profiler, shapes": lambda: profiled(record_shapes=True)}
taken = {name: [] for name in WAYS}
for i in range(ROUNDS + 1):
    for name, way in WAYS.items():
        taken[name].append(way())
ns = {name: statistics.median(t[1:]) for name, t in taken.items()}
for name, value in ns.items():
    print(json.dumps({"name": "PyTorch %s add_, %s" % (torch.__version__, name),
                      "value": round(value, 1), "unit": "ns",
                      "baseline": round(ns["alone"], 1)}))
