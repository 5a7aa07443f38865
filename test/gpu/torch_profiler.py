#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch.profiler inside a traced program.

    torch_profiler.py [--sessions N] [--steps N] [--busy] [--json FILE]

Steps outside of torch.profiler's sessions, then a session, and so on.  With
--busy a kernel of 2 s is in flight on another stream when each begins.  Says,
session by session, what torch.profiler has: kernels, and those which it puts
before their launch, or a second behind it (its CPU and GPU rows are not
aligned then); how long the start took; and how many steps lay outside.
"""
import argparse
import json
import os
import tempfile
import time

import torch
from decoder import MODES, make_model, one_step

Activity = torch.profiler.ProfilerActivity
SECOND_US = 1000000


def read(profile):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        with open(path, encoding="utf-8") as stream:
            events = json.load(stream)["traceEvents"]
    calls = {e["args"]["correlation"]: e["ts"] for e in events
             if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    kernels = [e for e in events if e.get("cat") == "kernel"]
    late = [e["ts"] - calls.get(e["args"]["correlation"], e["ts"] + 1)
            for e in kernels]
    return {"kernels": len(kernels), "calls": len(calls),
            "misplaced": sum(not -5 <= d < SECOND_US for d in late),
            "worst_us": max(late, key=abs, default=0)}


def steps(mode, count):
    for _ in range(count):
        one_step(mode)
    torch.cuda.synchronize()


def session(mode, options, side):
    if options.busy:
        with torch.cuda.stream(side):
            torch.cuda._sleep(2 * 1980000000)
    profile = torch.profiler.profile(
        activities=[Activity.CPU, Activity.CUDA])
    start = time.perf_counter()
    profile.start()
    start_ms = (time.perf_counter() - start) * 1000
    for _ in range(options.steps):
        one_step(mode)
    torch.cuda.current_stream().synchronize()
    profile.stop()
    return dict(read(profile), start_ms=round(start_ms, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    found = []
    with torch.inference_mode():
        mode = MODES["eager"](make_model(12))
        mode.prefill()
        side = torch.cuda.Stream()
        steps(mode, options.steps)
        for _ in range(options.sessions):
            found.append(session(mode, options, side))
            torch.cuda.synchronize()
            steps(mode, options.steps)
    word = {"sessions": found,
            "outside": options.steps * (options.sessions + 1)}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump(word, stream)
    print(json.dumps(word))


if __name__ == "__main__":
    main()
