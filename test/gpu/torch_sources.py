#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each source costs a PyTorch decode step, by alternated windows.

    torch_sources.py [--mode eager|graph] [--rounds N] [--steps N]
                     [--only SOURCE] [--json FILE] GPUTRACE

To be run with LD_PRELOAD=libgputrace.so and GPUTRACE_START=off.  A round is
one window of each: none, CUDA and NVTX alone, these and one source, all
sources, and torch.profiler with CPU, CUDA and with_stack (--only: that source
and the profiler without stacks, no more); the order turns by one each round.
GPUTRACE start and stop open and close our windows.  The first step of each is
not timed.

Prints a line for each: the median over the rounds in % of the step without
any tool, and its 95 % interval (bootstrap).  Fails where all sources together
cost more than torch.profiler.
"""
import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from decoder import MODES, make_model
from torch_overhead import interval, off_window, profiler_window, timed_steps

SOURCES = ("osrt", "cpu", "nvml", "stacks", "cublas", "cudnn", "nccl", "torch")
Activity = torch.profiler.ProfilerActivity
PAUSE_S = 0.3           # lets the writer finish the window before


def command(gputrace, *arguments):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    subprocess.run([gputrace, *arguments], check=True, env=env,
                   stdout=subprocess.DEVNULL)


def traced_window(gputrace, sources):
    def window(mode, steps):
        pid = str(os.getpid())
        command(gputrace, "start", pid, "--trace",
                ",".join(("cuda", "nvtx") + sources))
        value = timed_steps(mode, steps)
        command(gputrace, "stop", pid)
        return value
    return window


def stack_window(mode, steps):
    profile = torch.profiler.profile(
        activities=[Activity.CPU, Activity.CUDA], with_stack=True)
    profile.start()
    value = timed_steps(mode, steps)
    profile.stop()
    return value


def windows_of(gputrace, only):
    windows = {"off": off_window, "cuda,nvtx": traced_window(gputrace, ())}
    for source in only or SOURCES:
        windows["+ " + source] = traced_window(gputrace, (source,))
    windows["profiler CPU+CUDA"] = profiler_window([Activity.CPU,
                                                    Activity.CUDA])
    if not only:
        windows["+ all"] = traced_window(gputrace, SOURCES)
        windows["profiler with_stack"] = stack_window
    return windows


def measured(mode, windows, rounds, steps):
    """[{name: ms a step}]"""
    found = []
    for number in range(rounds):
        names = list(windows)
        turn = number % len(names)
        entry = {}
        for name in names[turn:] + names[:turn]:
            entry[name] = windows[name](mode, steps)
            gc.collect()
            time.sleep(PAUSE_S)
        found.append(entry)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("eager", "graph"), default="eager")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", action="append", choices=SOURCES)
    parser.add_argument("--json")
    parser.add_argument("gputrace")
    options = parser.parse_args()
    with torch.inference_mode():
        mode = MODES[options.mode](make_model(options.layers))
        mode.prefill()
        timed_steps(mode, 50)
        gc.disable()
        windows = windows_of(options.gputrace, options.only)
        measured(mode, windows, 1, options.steps)       # warms all up
        entries = measured(mode, windows, options.rounds, options.steps)
    medians = {}
    print("%s step, off: %.3f ms" % (options.mode, statistics.median(
        e["off"] for e in entries)))
    for name in list(windows)[1:]:
        values = [(e[name] / e["off"] - 1) * 100 for e in entries]
        low, high = interval(values)
        medians[name] = statistics.median(values)
        print("%-24s %7.2f %%  [%7.2f, %7.2f]  n=%d" % (
            name, medians[name], low, high, len(values)), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump(entries, stream)
    if options.only:
        return 0
    return medians["+ all"] > medians["profiler with_stack"]


if __name__ == "__main__":
    sys.exit(main())
