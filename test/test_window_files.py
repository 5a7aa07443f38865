# SPDX-License-Identifier: MIT
"""Windows that have a file of their own (GPUTRACE_OUT with %w).

More, by descriptor and by name, is in test/unit/window_file_test.c: there the
test says when a window has settled.
"""
import collections
import re

from tracing import Trace, judge, run

KERNELS = ("nvjet", "act_and_mul")      # launched inside windows only


def windows(tmp_path, out, *options):
    done = run("windows", *options, GPUTRACE_OUT=tmp_path / out,
               GPUTRACE_START="profiler-api")
    assert done.status == 0, done.err
    files = sorted(tmp_path.iterdir())
    assert not judge(*files), judge(*files)
    return done, {int(re.search(r"\d+", f.name)[0]): Trace(f) for f in files}


def inside(trace):
    return [k for k in trace.slices("kernel")
            if any(n in k["name"] for n in KERNELS)]


def test_a_file_for_each_window(tmp_path):
    """One that opens before the one before has settled, which may take a
    second on a busy machine, shares its file: the numbers say so."""
    done, traces = windows(tmp_path, "t-%w.json", "--windows", 3,
                           "--pause-ms", 400)
    first = sorted(traces)
    assert first[0] == 1 and first[-1] <= 3
    for number, after in zip(first, first[1:] + [4]):
        trace, nr = traces[number], after - number
        assert trace.own["window"] == number
        assert trace.own["finished"] is True
        assert trace.own["kernels"] == len(trace.slices("kernel"))
        assert len(inside(trace)) == done.did["inside"]["kernels"] / 3 * nr
        assert collections.Counter(r["name"] for r in trace.ranges()) == \
            dict.fromkeys(["inside", "across the open", "across both",
                           "across the close"], nr)
        assert trace.losses() == {}
    last = "t-%d.json: %d kernels" % (first[-1], sum(
        len(t.slices("kernel")) for t in traces.values()))
    assert last in done.err


def test_short_windows_share_files(tmp_path):
    """They open while the one before is being fetched; nothing is lost."""
    done, traces = windows(tmp_path, "t.%w.json.gz", "--windows", 100,
                           "--kernels", 5, "--pause-ms", 0)
    assert sum(len(inside(t)) for t in traces.values()) == \
        done.did["inside"]["kernels"] == 600
    assert sum(len(t.ranges("inside")) for t in traces.values()) == 100
    assert all(t.own["finished"] for t in traces.values())
