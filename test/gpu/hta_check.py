#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads traces with Holistic Trace Analysis and computes its breakdowns.

    hta_check.py TRACE...

Temporal, kernel, idle-time and launch breakdowns of each trace by itself; one
line each.  HTA rounds times to whole us in a way that gives kernels below 1 us
a negative length, and then stops on an assertion, with PyTorch's own files
too; such a trace is tried again with HTA_DISABLE_NS_ROUNDING=1, and the line
says so.  Exit status: 0 all computed, 1 one was not, 77 HTA is not there.
"""
import gzip
import os
import sys
import traceback

try:
    from hta.trace_analysis import TraceAnalysis
except ImportError:
    sys.exit(77)


def rows(result):
    """The frames of a result: one, or a tuple or dictionary of them."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if not isinstance(result, tuple):
        result = (result,)
    return [len(frame) for frame in result if frame is not None]


def has_runtime_launches(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as stream:
        return b'"cudaLaunchKernel' in stream.read()


def check(path):
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir="")
    found = {
        "temporal": analysis.get_temporal_breakdown(visualize=False),
        "kernels": analysis.get_gpu_kernel_breakdown(visualize=False),
        "idle": analysis.get_idle_time_breakdown(
            ranks=[0], visualize=False),
        "launches": analysis.get_cuda_kernel_launch_stats(
            ranks=[0], visualize=False),
    }
    counts = {name: rows(result) for name, result in found.items()}
    empty = [name for name, n in counts.items() if not sum(n)]
    # HTA's launch table knows the runtime's launch calls alone.
    if empty == ["launches"] and not has_runtime_launches(path):
        empty = []
    return counts, not empty


def try_both(path):
    """(counts, good, how)"""
    for rounding, how in (("0", ""), ("1", ", without its rounding")):
        os.environ["HTA_DISABLE_NS_ROUNDING"] = rounding
        try:
            return *check(path), how
        except Exception:  # whatever HTA stumbles over is the finding
            if rounding == "1":
                traceback.print_exc()
    return "failed", False, ""


def main():
    status = 0
    for path in sys.argv[1:]:
        counts, good, how = try_both(path)
        status |= not good
        print("%s hta %s: %s%s" % ("ok  " if good else "FAIL", path, counts,
                                   how))
    return status


if __name__ == "__main__":
    sys.exit(main())
