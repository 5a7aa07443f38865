#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A planted .item(): what `gputrace diagnose` says of it, and the truth.

    torch_item.py --trace 'FILE%w.json' [--mode MODE] [--steps N] GPUTRACE

One loop decodes and reads the token of each step with .item(); its twin
leaves the token on the GPU and reads once behind the last step.  Rounds of
both alternate untraced: the difference is what the .item() costs.  Then a
window (cudaProfilerStart) of each is traced, and GPUTRACE diagnose reads
them.  Fails unless the first names the wait in `sample` where it costs 5 % of
a step or more, and only there, by the line and the operator, and the second
names none.  Run it with the library preloaded, GPUTRACE_OUT set to FILE and
GPUTRACE_TRACE=cuda,nvtx,stacks,torch.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from decoder import MODES, make_model

nvtx = torch.cuda.nvtx
ROUNDS = 15


def loop(mode, steps, planted):
    """ms a step."""
    start = time.perf_counter()
    for _ in range(steps):
        with nvtx.range("step"):
            with nvtx.range("forward"):
                mode.step()
            with nvtx.range("sample"):
                if planted:
                    mode.sample()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps * 1000


def window(mode, steps, planted):
    cudart = torch.cuda.cudart()
    cudart.cudaProfilerStart()
    step_ms = loop(mode, steps, planted)
    cudart.cudaProfilerStop()
    time.sleep(3)       # until the window's file is complete
    return step_ms


def diagnosed(gputrace, path):
    """{id: finding} of one trace."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([gputrace, "diagnose", "--format", "json", path],
                          capture_output=True, text=True, check=True, env=env)
    text = subprocess.run([gputrace, "diagnose", path], env=env,
                          capture_output=True, text=True, check=True).stdout
    print(text)
    return {f["id"]: f for f in json.loads(done.stdout)["findings"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", required=True)
    parser.add_argument("--mode", choices=MODES, default="graph")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("gputrace")
    options = parser.parse_args()
    with torch.inference_mode():
        mode = MODES[options.mode](make_model(options.layers))
        mode.prefill()
        for planted in (True, False):
            loop(mode, 20, planted)
        rounds = [[loop(mode, options.steps, planted)
                   for planted in (True, False)] for _ in range(ROUNDS)]
        traced = [window(mode, options.steps, planted)
                  for planted in (True, False)]
    facts = {"mode": options.mode,
             "step_ms": [round(statistics.median(r[i] for r in rounds), 4)
                         for i in (0, 1)],
             "traced_ms": [round(ms, 4) for ms in traced],
             "costs_ms": round(statistics.median(a - b for a, b in rounds),
                               4)}
    found = [diagnosed(options.gputrace,
                       options.trace.replace("%w", str(number)))
             for number in (1, 2)]
    sync = found[0].get("sync")
    facts["found"] = [list(f) for f in found]
    if sync:
        facts["saves_ms"] = round(sync["saving_ns"] / 1e6 / options.steps, 4)
        facts["where"] = json.dumps(sync)[:600]
    costs = facts["costs_ms"] > 0.05 * facts["step_ms"][0]
    good = bool(sync) == costs and "sync" not in found[1] and \
        (not sync or "sample" in sync["evidence"]["path"])
    if sync:
        # Where it was asked for: decoder.py is the innermost frame's file.
        good = good and sync["evidence"]["line"].startswith("decoder.py:") \
            and sync["evidence"]["operator"] == "aten::item"
    facts["good"] = good
    print(json.dumps(facts))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
