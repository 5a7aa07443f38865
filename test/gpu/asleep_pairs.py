#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the library costs asleep: pairs of runs, with and without it.

    asleep_pairs.py [--pairs N] [--steps N] LIBRARY PROGRAM ARGUMENTS...

A run is PROGRAM ARGUMENTS --steps N less one with --steps 1: what the start of
a process costs is another figure.  The order within a pair is by chance.  Says the median of (with - without) /
without in percent and its 95 % interval (bootstrap over the pairs), which is
to hold 0 or to lie below 0.5.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import time


def seconds(options, library):
    return took(options.program + ["--steps", str(options.steps)], library) - \
        took(options.program + ["--steps", "1"], library)


def took(command, library):
    env = dict(os.environ, GPUTRACE_START="off")
    if library:
        env["LD_PRELOAD"] = library
    begin = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("library")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    chance = random.Random(1)
    seconds(options, None)
    more = []
    for _ in range(options.pairs):
        order = [None, options.library]
        chance.shuffle(order)
        run = {which: seconds(options, which) for which in order}
        more.append((run[options.library] / run[None] - 1) * 100)
    medians = sorted(statistics.median(chance.choices(more, k=len(more)))
                     for _ in range(2000))
    low, high = medians[50], medians[-51]
    print(json.dumps({"pairs": len(more),
                      "percent": round(statistics.median(more), 3),
                      "interval": [round(low, 3), round(high, 3)],
                      "met": low <= 0 <= high or high < 0.5}))


if __name__ == "__main__":
    main()
