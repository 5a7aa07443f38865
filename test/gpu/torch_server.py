#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server under load: decodes without an end, and says how fast.

    torch_server.py [--mode graph] [--layers N] [--seconds S]

One line each quarter of a second: time since 1970, steps done so far, MB
resident.  Its CUDA graph is there before the first line.
"""
import argparse
import time

import torch
from decoder import MODES, make_model, one_step


def resident_mb():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def serve(mode, seconds):
    end = time.monotonic() + seconds
    due, steps = time.monotonic(), 0
    while time.monotonic() < end:
        one_step(mode)
        steps += 1
        if time.monotonic() >= due:
            print("%.6f %d %.1f" % (time.time(), steps, resident_mb()),
                  flush=True)
            due = time.monotonic() + 0.25


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=MODES, default="graph")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    with torch.inference_mode():
        mode = MODES[options.mode](make_model(options.layers))
        mode.prefill()
        serve(mode, options.seconds)


if __name__ == "__main__":
    main()
