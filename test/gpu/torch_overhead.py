#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What recording costs a PyTorch decode step, by alternated windows.

    torch_overhead.py [--mode eager|graph] [--triples N] [--steps N]
                      [--profiler-triples N] [--json FILE]

To be run with LD_PRELOAD=libgputrace.so, GPUTRACE_START=profiler-api and
GPUTRACE_FLOOR=alternate: cudaProfilerStart opens in turn a window that is
recorded and one whose CUPTI buffers are thrown away (the floor).  A triple is
a recorded window, a floor window and one without any (off), which takes each
place in turn.  The first step after a start is not timed.  Then come windows
of torch.profiler in the same way: off, CUDA only, CPU and CUDA.

Prints a line for each figure: the median over the triples, in % of the step
without any tool, and its 95 % interval (bootstrap).
"""
import argparse
import gc
import json
import random
import statistics
import time

import torch
from decoder import MODES, make_model, one_step

Activity = torch.profiler.ProfilerActivity
PAUSE_S = 0.05          # lets the writer finish the window before


def timed_steps(mode, steps):
    """ms a step, after one that is not timed."""
    one_step(mode)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        one_step(mode)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps * 1000


def off_window(mode, steps):
    return timed_steps(mode, steps)


def our_window(mode, steps):
    torch.cuda.cudart().cudaProfilerStart()
    value = timed_steps(mode, steps)
    torch.cuda.cudart().cudaProfilerStop()
    return value


def profiler_window(activities):
    def window(mode, steps):
        profile = torch.profiler.profile(activities=activities)
        profile.start()
        value = timed_steps(mode, steps)
        profile.stop()
        return value
    return window


OURS = {"recording": our_window, "floor": our_window}
THEIRS = {"profiler CUDA": profiler_window([Activity.CUDA]),
          "profiler CPU+CUDA": profiler_window([Activity.CPU,
                                                Activity.CUDA])}


def triples(mode, windows, count, steps):
    """[{name: ms}]; the order of `windows` stays, `off` moves."""
    found = []
    for number in range(count):
        order = list(windows.items())
        order.insert(number % 3, ("off", off_window))
        entry = {}
        for name, window in order:
            entry[name] = window(mode, steps)
            gc.collect()
            time.sleep(PAUSE_S)
        found.append(entry)
    return found


def interval(values):
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values)))
                     for _ in range(2000))
    return medians[50], medians[1949]


def figure(label, entries, more, less, results):
    values = [(e[more] - e[less]) / e["off"] * 100 for e in entries]
    low, high = interval(values)
    results[label] = {"median": statistics.median(values), "low": low,
                      "high": high, "windows": len(values)}
    print("%-34s %6.2f %%  [%6.2f, %6.2f]  n=%d" % (
        label, results[label]["median"], low, high, len(values)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("eager", "graph"),
                        default="eager")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--triples", type=int, default=45)
    parser.add_argument("--profiler-triples", type=int, default=20)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json")
    options = parser.parse_args()
    results = {}
    with torch.inference_mode():
        mode = MODES[options.mode](make_model(options.layers))
        mode.prefill()
        timed_steps(mode, 50)
        gc.disable()
        ours = triples(mode, OURS, options.triples, options.steps)
        print("%s step, off: %.3f ms" % (options.mode, statistics.median(
            e["off"] for e in ours)), flush=True)
        figure("recording - floor", ours, "recording", "floor", results)
        figure("floor - off", ours, "floor", "off", results)
        figure("recording - off", ours, "recording", "off", results)
        theirs = triples(mode, THEIRS, options.profiler_triples,
                         options.steps)
        for name in THEIRS if theirs else ():
            figure(name + " - off", theirs, name, "off", results)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump({"mode": options.mode, "results": results,
                       "ours": ours, "theirs": theirs}, stream)


if __name__ == "__main__":
    main()
