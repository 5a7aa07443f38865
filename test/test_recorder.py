# SPDX-License-Identifier: MIT
"""The flight recorder's end, and launches that never finished.

What the recorder keeps and a dump holds is in test/unit/recorder_test.c.
"""
import json
import time

from tracing import (BUILD, Trace, judge, own_lines, run, start,
                     traced)


def test_nothing_is_left_without_a_dump(tmp_path):
    done = run("decode", "--verbose", GPUTRACE_RECORDER="30",
               GPUTRACE_OUT=tmp_path / "t.json")
    assert done.status == 0
    assert not list(tmp_path.iterdir())
    (line,) = own_lines(done.err)
    assert "flight recorder: %d kernels, 0 lost" % done.did["gpu"]["kernels"] \
        in line
    assert "nothing is on disk" in line


def test_a_dump_from_outside(tmp_path):
    """What came since the start, while it goes on; twice."""
    process = start("decode", "--seconds", 60, "--kernels", 10, "--sync-ms",
                    5, GPUTRACE_RECORDER="100",
                    GPUTRACE_OUT=tmp_path / "t.json")
    try:
        for name in ("t.d1.json", "t.d2.json"):
            dump(process.pid, tmp_path / name)
    finally:
        process.terminate()
        process.communicate()
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == ["t.d1.json", "t.d2.json"]
    assert not judge(*files), judge(*files)
    first, second = map(Trace, files)
    for number, trace in ((1, first), (2, second)):
        assert trace.own["recorder"]["dump"] == number
        assert trace.own["kernels"] == len(trace.slices("kernel")) > 0
    kernels = [k["args"]["correlation"] for k in first.slices("kernel")]
    assert set(kernels) < {k["args"]["correlation"]
                           for k in second.slices("kernel")}
    assert second.own["recorder"]["span_ns"] > \
        first.own["recorder"]["span_ns"] > 0


def holds_kernels(pid):
    done = run(BUILD / "gputrace", "status", "--format", "json", pid,
               traced=False)
    return done.status == 0 and any(
        row["kernels"] for row in json.loads(done.out)["processes"])


def dump(pid, path, seconds=20):
    """Asks until the process has a recorder that holds something."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not holds_kernels(pid):
            time.sleep(0.05)
            continue
        done = run(BUILD / "gputrace", "dump", pid, traced=False)
        if path.exists() and done.status == 0:
            assert done.out.strip() == str(path)
            return
        time.sleep(0.1)
    raise TimeoutError("no recorder that holds something")


def test_a_launch_that_never_finished(tmp_path):
    """Who launched it, when, in which range: against the call's own slice."""
    _, trace = traced(tmp_path, "hostile", "hung")
    (launch,) = trace.own["unfinished_launches"]
    assert "paged_attention" in launch["name"]
    call = trace.launches()[launch["correlation"]]
    assert call["name"] == "cuLaunchKernel"
    assert launch["launched_ns"] == call["start"]
    assert launch["tid"] == call["tid"]
    assert launch["thread"] in \
        trace.labels("thread_name")[call["pid"], call["tid"]]
    assert launch["range"] == "request 7"
    (request,) = trace.ranges("request 7")
    assert request["start"] < call["start"] < call["end"] < request["end"]
    assert launch["launched_ns"] < launch["seen_ns"]
    assert launch["correlation"] not in \
        [k["args"]["correlation"] for k in trace.slices("kernel")]
