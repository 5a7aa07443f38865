# SPDX-License-Identifier: MIT
"""What holds when things run long, run over or run short: the watchdog for
CUPTI's faults, the bounds of memory and disk, narrow places."""
import os
import stat

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


# ---- The file's bound: events in files + losses = what the program did ----

def last_line(done):
    """(kernels in files, kernels in no file) as the last line says."""
    words = lines(done.err)[-1].replace(",", "").split(": ")[-1].split()
    return int(words[0]), int(words[2]) if "file" in words else 0


@pytest.mark.parametrize("size", ["300K", "1"])
def test_rotation_adds_up(tmp_path, size):
    done = run("bounds", "launch", 20000, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_MAX_SIZE=size, GPUTRACE_KEEP=3, GPUTRACE_FLUSH="20ms")
    assert done.status == 0
    traces = [Trace(p) for p in tmp_path.iterdir()]
    assert len(traces) in (3, 4)
    assert max(t.path.stat().st_size for t in traces) < 310 << 10
    newest = max(traces, key=lambda t: t.own["part"])
    kept = sum(len(t.slices("kernel")) for t in traces)
    gone = newest.own["kernels_gone"]
    assert newest.own["kernels"] == kept > 0
    assert kept + gone == done.did["gpu"]["kernels"]
    assert newest.losses()["events in files rotated away"] >= 2 * gone > 0
    assert last_line(done) == (kept, gone)
    said = [l for l in lines(done.err) if "GPUTRACE_MAX_SIZE" in l]
    assert len(said) == (size == "1"), done.err
    assert not judge(*[t.path for t in traces], profile="perfetto")


@pytest.mark.parametrize("out", ["t.json", "t.json.gz"])
def test_a_stop_adds_up(tmp_path, out):
    """All is recorded before the first write: then nothing is unknown."""
    path = tmp_path / out
    done = run("bounds", "launch", 20000, GPUTRACE_OUT=path,
               GPUTRACE_MAX_SIZE="500K", GPUTRACE_ON_FULL="stop",
               GPUTRACE_FLUSH="60s")
    trace = Trace(path)
    kept, gone = len(trace.slices("kernel")), trace.own["kernels_gone"]
    assert 0 < kept < kept + gone == done.did["gpu"]["kernels"]
    assert trace.own["kernels"] == kept
    assert trace.own["stopped"] == "GPUTRACE_MAX_SIZE"
    assert trace.losses()["not written"] >= 2 * gone
    assert last_line(done) == (kept, gone)
    assert path.stat().st_size < 520 << 10
    assert not judge(path)
    said = run(BUILD / "gputrace", "check", path, traced=False).out
    assert "%d x not written" % trace.losses()["not written"] in said


def test_after_a_stop_the_program_is_left_alone(tmp_path):
    path = tmp_path / "t.json"
    done = run("bounds", "rate", 4, GPUTRACE_OUT=path, GPUTRACE_FLUSH="100ms",
               GPUTRACE_MAX_SIZE="300K", GPUTRACE_ON_FULL="stop")
    trace = Trace(path)
    kept, gone = len(trace.slices("kernel")), trace.own["kernels_gone"]
    assert 0 < kept + gone < done.did["gpu"]["kernels"] * 0.8
    assert last_line(done) == (kept, gone)
    assert not judge(path)


def test_nothing_is_kept_in_dev_null(tmp_path):
    """All is encoded; no file appears beside the device."""
    before = sorted(os.listdir("/dev"))
    done = run("bounds", "launch", 20000, GPUTRACE_OUT="/dev/null",
               GPUTRACE_MAX_SIZE="100K", GPUTRACE_FLUSH="20ms", cwd=tmp_path)
    assert done.status == 0
    assert lines(done.err) == ["gputrace: /dev/null: %d kernels, 0 lost" %
                               done.did["gpu"]["kernels"]]
    assert sorted(os.listdir("/dev")) == before
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not list(tmp_path.iterdir())


def test_a_thread_for_each_request(tmp_path):
    """Nothing of 6,000 threads, one after another, is lost; from the 4096th
    on they stand on the lanes of those that have ended."""
    done, trace = traced(tmp_path, "bounds", "churn", 6000)
    assert trace.losses() == {}
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert len(trace.ranges("moment")) == done.did["ranges"]["moment"]
    lanes = {(e["pid"], e["tid"]) for e in trace.ranges("moment")}
    names = trace.labels("thread_name")
    shared = [l for l in lanes if names[l].endswith("and later threads")]
    assert 4000 < len(lanes) <= 4096 and 1000 < len(shared) < len(lanes)
