#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Library calls of PyTorch in a window, and what report makes of them.

    torch_libraries.py --trace FILE GPUTRACE

Matrix products of one shape, timed by CUDA events too; convolutions; and with
two GPUs or more all-reduces of all of them from this process.  Fails unless
report's TFLOP/s is within 10 % of that of the events, each product is counted
once with its kernels, cuDNN's plans are there, and NCCL's collectives have a
bandwidth and an algorithm.  Run it with the library preloaded,
GPUTRACE_TRACE=cuda,cublas,cudnn,nccl, GPUTRACE_START=profiler-api and
GPUTRACE_OUT set so that the first window is FILE.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import torch

SIZE, ROUNDS = 4096, 20
REDUCED = 64 << 20


def products():
    """TFLOP/s by CUDA events."""
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(ROUNDS):
        torch.mm(a, a)
    end.record()
    torch.cuda.synchronize()
    return 2 * SIZE ** 3 * ROUNDS / (start.elapsed_time(end) * 1e9)


def convolutions():
    x = torch.randn(8, 64, 56, 56, device="cuda", dtype=torch.float16)
    w = torch.randn(128, 64, 3, 3, device="cuda", dtype=torch.float16)
    for _ in range(ROUNDS):
        torch.nn.functional.conv2d(x, w)
    torch.cuda.synchronize()


def collectives():
    parts = [torch.ones(REDUCED // 4, device="cuda:%d" % i)
             for i in range(torch.cuda.device_count())]
    if len(parts) < 2:
        return
    for _ in range(ROUNDS):
        torch.cuda.nccl.all_reduce(parts)
    for i in range(len(parts)):
        torch.cuda.synchronize(i)


def reported(gputrace, path):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([gputrace, "report", "-f", "json", path],
                          capture_output=True, text=True, check=True, env=env)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", required=True)
    parser.add_argument("gputrace")
    options = parser.parse_args()
    with torch.inference_mode():
        for work in (products, convolutions, collectives):
            work()              # warms up
        torch.cuda.cudart().cudaProfilerStart()
        by_events = products()
        convolutions()
        collectives()
        torch.cuda.cudart().cudaProfilerStop()
    time.sleep(3)               # until the window's file is complete
    report = reported(options.gputrace, options.trace)
    shape = "x".join([str(SIZE)] * 3)
    rows = [r for r in report["library_calls"]
            if r["shape"].startswith(shape + " ")]
    with open(options.trace, encoding="utf-8") as stream:
        plans = stream.read().count('"cudnnBackendExecute"')
    facts = {"by events": round(by_events, 1), "products": rows,
             "plans": plans, "nccl": report["nccl"]}
    good = len(rows) == 1 and rows[0]["count"] == ROUNDS and \
        rows[0]["kernel_count"] >= ROUNDS and plans >= ROUNDS and \
        abs(rows[0]["tflops"] / by_events - 1) < 0.1
    if torch.cuda.device_count() > 1:
        # Of NCCL 2.23 and later, its own word.
        good = good and any(r["busbw"] > 0 and r["channels"] > 0 and
                            not r["algorithm"].startswith("kernel")
                            for r in report["nccl"])
    facts["good"] = good
    print(json.dumps(facts))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
