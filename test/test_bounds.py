# SPDX-License-Identifier: MIT
"""What holds when things run long, run over or run short: the watchdog for
CUPTI's faults, the bounds of memory and disk, narrow places."""
import pytest
from tracing import (BUILD, SANITIZED, Run, Trace, judge, run, start, traced)

MB = 1024       # in kB


def lines(text):
    return [l for l in text.splitlines() if l.startswith("gputrace: ")]


def together(tmp_path, runs, timeout=120):
    """Runs beside one another, as most of them wait most of the time:
    {name: (the program's end, its trace)}"""
    def path(name):
        return tmp_path / (name + ".json")
    started = {name: start(program, *args, GPUTRACE_OUT=path(name),
                           **{"GPUTRACE_FLUSH": "200ms", **settings})
               for name, ((program, *args), settings) in runs.items()}
    ends = {name: Run(process, timeout) for name, process in started.items()}
    return {name: (done, Trace(path(name))) for name, done in ends.items()}


# ---- The watchdog ----

BY_PROGRAM = {"GPUTRACE_START": "profiler-api"}
TIMES, FEW_TIMES = "kernels without times", "some kernels without times"
SICK = {
    "zero": (("bounds", "rate", 3), {"SIM_TIMES": "zero@2"}, TIMES),
    "reversed": (("bounds", "rate", 3), {"SIM_TIMES": "reversed@1"}, TIMES),
    "few": (("bounds", "rate", 2), {"SIM_TIMES": "zero@20"}, FEW_TIMES),
    "none": (("bounds", "rate", 9), {"SIM_NO_KERNELS": 1},
             "launches without kernels"),
    "no more": (("bounds", "rate", 9), {"SIM_NO_KERNELS": 500},
                "launches without kernels"),
    "silent": (("bounds", "again", 9), {"SIM_SILENT_AFTER": 1, **BY_PROGRAM},
               "silent after a start"),
    "few buffers": (("bounds", "rate", 13), {"SIM_KEEP_BUFFERS": 9},
                    "some buffers never returned"),
    # The smallest pool, and flushed often: soon more than half is gone.
    "buffers": (("bounds", "rate", 14), {
        "SIM_KEEP_BUFFERS": 2, "GPUTRACE_BUFFER": "16M",
        "GPUTRACE_FLUSH": "20ms"}, "buffers never returned"),
}
STOPS = {TIMES, "buffers never returned"}


def test_a_sick_cupti_is_found(tmp_path):
    ends = together(tmp_path, {name: row[:2] for name, row in SICK.items()})
    for name, (done, trace) in ends.items():
        fault = SICK[name][2]
        assert done.status == 0, name
        marks = trace.own["watchdog"]
        assert marks and marks[-1]["fault"] == fault, (name, done.err)
        assert marks[-1]["stopped"] == (fault in STOPS)
        said = lines(done.err)
        assert len(said) == len(marks) + 1, (name, said)
        assert len(marks) == 1 or name == "buffers"
        assert ("tracing stops" in said[-2]) == (fault in STOPS)
        assert not judge(trace.path), name
    # After the stop the program's calls are not recorded any more.
    done, trace = ends["zero"]
    assert len(trace.api("cuLaunchKernel")) < \
        done.did["api"]["cuLaunchKernel"] * 0.9
    assert trace.losses()["without time"] == len(trace.slices("kernel"))
    assert ends["buffers"][1].losses()["buffers never returned"] > 50


HEALTHY = {
    "copies": (("bounds", "copies", 9), {}),
    "capture": (("bounds", "capture", 9), {}),
    "idle": (("bounds", "idle", 9), {}),
    "again": (("bounds", "again", 9), BY_PROGRAM),
    "again, then idle": (("bounds", "again-idle", 9), BY_PROGRAM),
    "no calls": (("bounds", "rate", 9), {"GPUTRACE_API": "none"}),
    "graphs": (("decode", "--seconds", 9, "--graph", "--sync-ms", 20), {}),
    "whole graphs": (("decode", "--seconds", 9, "--graph", "--sync-ms", 20),
                     {"GPUTRACE_GRAPH": "graph"}),
    "late buffers": (("bounds", "rate", 9), {"SIM_LATE_MS": 300}),
    "one long kernel": (("longkernel", "--seconds", 14), {}),
    "one before the rest": (("bounds", "queued", 14), {}),
}


def test_a_healthy_cupti_is_not_suspected(tmp_path):
    for name, (done, trace) in together(tmp_path, HEALTHY).items():
        assert done.status == 0, name
        assert trace.own["watchdog"] == [], name
        assert len(lines(done.err)) == 1, (name, done.err)
