#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's caching allocator in a trace, against torch.cuda.memory_stats().

    torch_memory.py --trace FILE GPUTRACE

In one window tensors of random sizes come and go, some on a second stream, a
training step runs, a CUDA graph is captured and launched, and one tensor does
not fit.  Fails unless the trace's totals are memory_allocated() and
memory_reserved() at the end, its peaks those of the window, its allocations,
frees and bytes those that the allocator counted, and the one that does not fit
is there.  Run it with the library preloaded, GPUTRACE_TRACE=cuda,torch,
GPUTRACE_START=profiler-api and GPUTRACE_OUT set so that the first window is
FILE; with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True too.
"""
import argparse
import gc
import json
import os
import random
import subprocess
import sys
import time

import torch


def churn(rounds=3000):
    chance, held = random.Random(5), []
    side = torch.cuda.Stream()
    for _ in range(rounds):
        if chance.random() < 0.6 or not held:
            stream = side if chance.random() < 0.1 else \
                torch.cuda.current_stream()
            with torch.cuda.stream(stream):
                held.append(torch.empty(chance.randrange(1, 1 << 22),
                                        dtype=torch.uint8, device="cuda"))
        else:
            held.pop(chance.randrange(len(held)))
    return held[:10]


def train():
    model = torch.nn.Linear(1024, 1024, device="cuda")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def graphed():
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return graph, y


def too_much():
    try:
        torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return 1
    return 0


def counts():
    stats = torch.cuda.memory_stats()
    return {"alloc_count": stats["allocation.all.allocated"],
            "free_count": stats["allocation.all.freed"],
            "alloc_bytes": stats["allocated_bytes.all.allocated"],
            "free_bytes": stats["allocated_bytes.all.freed"],
            "oom_count": stats["num_ooms"]}


def told(gputrace, path):
    """The row of report, and the last totals."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([gputrace, "report", "-f", "json", "-t", "memory",
                           path], capture_output=True, text=True, check=True,
                          env=env)
    [row] = json.loads(done.stdout)["memory"]
    with open(path, encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    last = max((e for e in events if e["name"] == "[memory]"),
               key=lambda e: e["ts"])["args"]
    return {**row, "allocated": last["Total Allocated"],
            "reserved": last["Total Reserved"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", required=True)
    parser.add_argument("gputrace")
    options = parser.parse_args()
    train()                     # warms up
    gc.disable()
    torch.cuda.synchronize()
    before = counts()
    torch.cuda.cudart().cudaProfilerStart()
    time.sleep(0.2)
    torch.cuda.reset_peak_memory_stats()
    kept = [churn(), train(), graphed()]
    failed = too_much()
    kept.append(torch.ones(1, device="cuda"))   # after what OOM gave back
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    after = counts()
    want = {k: after[k] - before[k] for k in after}
    want.update(allocated=torch.cuda.memory_allocated(),
                reserved=torch.cuda.memory_reserved(),
                peak_bytes=torch.cuda.max_memory_allocated(),
                reserved_peak_bytes=torch.cuda.max_memory_reserved())
    time.sleep(3)               # until the window's file is complete
    have = told(options.gputrace, options.trace)
    wrong = {k: [v, have[k]] for k, v in want.items() if have[k] != v}
    good = not wrong and failed == want["oom_count"] == 1
    print(json.dumps({"allocator": want, "differs": wrong, "good": good}))
    return 0 if good and kept else 1


if __name__ == "__main__":
    sys.exit(main())
