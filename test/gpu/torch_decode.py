#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A PyTorch decode loop to be traced.

    torch_decode.py [--mode MODE] [--layers N] [--steps N] [--warmup N]
                    [--window] [--profiler FILE.json]

With --window the measured steps lie between cudaProfilerStart and Stop.  With
--profiler torch.profiler records the same steps, and FILE.json holds what it
saw: {"kernels": {name: [count, total_ns]}, ...}.  Prints "steps N".
"""
import argparse
import collections
import json
import os
import tempfile
import time

import torch
from decoder import MODES, make_model, one_step


def totals(profile):
    """{cat: {name: [count, ns]}} of the GPU work in torch.profiler's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        with open(path, encoding="utf-8") as stream:
            events = json.load(stream)["traceEvents"]
    found = {}
    for cat in ("kernel", "gpu_memcpy", "gpu_memset"):
        found[cat] = collections.defaultdict(lambda: [0, 0])
        for event in events:
            if event.get("ph") == "X" and event.get("cat") == cat:
                entry = found[cat][event["name"]]
                entry[0] += 1
                entry[1] += round(event["dur"] * 1000)
    return found


def loop(mode, steps):
    start = time.perf_counter()
    for _ in range(steps):
        one_step(mode)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / max(steps, 1) * 1000


def record(mode, options):
    """The measured steps; returns ms a step."""
    if options.profiler:
        profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CUDA])
        profile.start()
        step_ms = loop(mode, options.steps)
        profile.stop()
        found = totals(profile)
        with open(options.profiler, "w", encoding="utf-8") as stream:
            json.dump({"kernels": found["kernel"],
                       "copies": found["gpu_memcpy"],
                       "sets": found["gpu_memset"], "steps": options.steps,
                       "step_ms": step_ms}, stream)
        return step_ms
    if options.window:
        torch.cuda.cudart().cudaProfilerStart()
    step_ms = loop(mode, options.steps)
    if options.window:
        torch.cuda.cudart().cudaProfilerStop()
    return step_ms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--window", action="store_true")
    parser.add_argument("--profiler", metavar="FILE.json")
    options = parser.parse_args()
    with torch.inference_mode():
        mode = MODES[options.mode](make_model(options.layers))
        mode.prefill()
        loop(mode, options.warmup)
        step_ms = record(mode, options)
    print("steps %d" % options.steps)
    print("step_ms %.3f" % step_ms)


if __name__ == "__main__":
    main()
