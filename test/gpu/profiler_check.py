#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_profiler.py with and without the library, and the library's trace.

    profiler_check.py PLAIN.json TRACED.json TRACE.json

torch.profiler must have the same kernels, and none misplaced; the trace must
have, for each step outside of the sessions, as many as one step has.
"""
import json
import sys


def load(path):
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def main():
    plain, traced, trace = map(load, sys.argv[1:4])
    events = trace["traceEvents"]
    slices = [e for e in events if e.get("ph") == "X"]
    kernels = [e for e in slices if e["cat"] == "kernel"]
    pauses = [(e["ts"], e["ts"] + e["dur"]) for e in slices
              if e["name"] == "another profiler has CUPTI"]
    calls = {e["args"]["correlation"]: e["ts"] for e in slices
             if e["cat"] in ("cuda_runtime", "cuda_driver")}
    ranges = [e for e in slices if e["cat"] == "user_annotation" and
              e["name"] == "step"]
    outside = [r for r in ranges if not any(
        a < r["ts"] + r["dur"] and r["ts"] < b for a, b in pauses)]
    by_step = sorted(sum(r["ts"] <= calls.get(k["args"]["correlation"], 0)
                         < r["ts"] + r["dur"] for k in kernels)
                     for r in outside)
    early = sum(k["ts"] < calls.get(k["args"]["correlation"], k["ts"]) - 1
                for k in kernels)
    print({"theirs": [[s[key] for s in run["sessions"]]
                      for run in (plain, traced)
                      for key in ("kernels", "misplaced", "start_ms")],
           "kernels": len(kernels), "pauses": len(pauses),
           "steps": [len(ranges), len(outside), traced["outside"]],
           "kernels a step": by_step[:1] + by_step[-1:], "early": early,
           "losses": trace["gputrace"]["losses"]})
    good = (
        [s["kernels"] for s in plain["sessions"]] ==
        [s["kernels"] for s in traced["sessions"]] and
        not any(s["misplaced"] for s in traced["sessions"]) and
        len(outside) == traced["outside"] and early == 0 and
        by_step[0] == by_step[-1] > 0)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
