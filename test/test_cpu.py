# SPDX-License-Identifier: MIT
"""GPUTRACE_TRACE=cpu: host/busy, whose threads read at both ends of their work
what the kernel has counted of them; the trace must say the same."""
import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from tracing import BUILD, JUDGE, SANITIZED, Trace, own_lines, run, start

SOURCES = "cuda,nvtx,cpu"
# Of the time between both ends; the kernel's and ours are read one after the
# other, and so far apart on a machine that is busy.
POINTS = 0.02
STATES = {"Running", "Preempted", "Runnable", "Off CPU", "Sleeping",
          "Uninterruptible", "Stopped", "Switching"}
INSIDE = {"Running": "running ns", "Preempted": "preempted ns",
          "Off CPU": "off CPU ns"}


def can_perf():
    """Whether the system gives this user context switches."""
    probe = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")
    with contextlib.suppress(OSError, ValueError):
        if "Seccomp:\t0" in pathlib.Path("/proc/self/status").read_text():
            return os.geteuid() == 0 or int(probe.read_text()) <= 2
    return False


needs_perf = pytest.mark.skipif(not can_perf(), reason="no perf_event_open")


def findings(path):
    """The judge's, but for the category that Kineto does not have."""
    if not JUDGE.exists():
        return []
    done = subprocess.run(
        [sys.executable, str(JUDGE), "--strict", str(path)],
        capture_output=True, text=True, check=False)
    return [l for l in done.stdout.splitlines() if ": K002 warning" not in l
            and (" error" in l or " warning" in l)]


def busy(tmp_path, *args, status=0, sources=SOURCES, **settings):
    path = tmp_path / "trace.json"
    done = run("busy", *args, GPUTRACE_TRACE=sources, GPUTRACE_OUT=path,
               **settings)
    assert done.status == status, done.err
    assert not findings(path)
    return done, Trace(path)


def shares(trace, thread):
    """{state: share of the time between the thread's two readings}"""
    base = trace.header["baseTimeNanoseconds"]
    begin, end = thread["start_ns"] - base, thread["end_ns"] - base
    found = collections.Counter()
    for e in states(trace, thread):
        part = min(e["end"], end) - max(e["start"], begin)
        if part <= 0:
            continue
        if e["name"] != "Switching":
            found[e["name"]] += part
            continue
        for name, key in INSIDE.items():
            found[name] += (e["args"].get(key, 0) * part /
                            (e["end"] - e["start"]))
    return {name: part / (end - begin) for name, part in found.items()}


def states(trace, thread):
    return sorted((e for e in trace.slices("thread_state")
                   if e["args"]["thread"] == thread["tid"]),
                  key=lambda e: e["start"])


def check_rows(trace):
    """Each thread's states follow one another, and overlap nowhere."""
    rows = collections.defaultdict(list)
    for e in trace.slices("thread_state"):
        assert e["name"] in STATES
        rows[e["pid"], e["tid"]].append((e["start"], e["end"]))
    names = trace.labels("thread_name")
    for lane, slices in rows.items():
        assert names[lane].endswith(" state"), names[lane]
        slices.sort()
        for (_, before), (after, _) in zip(slices, slices[1:]):
            assert after >= before
    own = [n for n in names.values()
           if n.startswith("gputrace-") and n.endswith(" state")]
    assert not own
    return rows


def check_counts(trace, done):
    """What ran and what waited for a CPU, as the kernel counted."""
    for name, thread in done.did["threads"].items():
        wall = thread["end_ns"] - thread["start_ns"]
        share = shares(trace, thread)
        assert abs(sum(share.values()) - 1) < 0.005, (name, share)
        assert abs(share.get("Running", 0) -
                   thread["cpu_ns"] / wall) < POINTS, (name, share)
        waited = share.get("Preempted", 0) + share.get("Runnable", 0)
        assert waited < thread["delay_ns"] / wall + POINTS, (name, share)
        yield name, share, thread["delay_ns"] / wall


@needs_perf
def test_exact_shares(tmp_path):
    done, trace = busy(tmp_path, "--seconds", 2)
    assert check_rows(trace)
    for name, share, delay in check_counts(trace, done):
        if name == "computes":  # it waits for nothing but a CPU
            assert abs(share.get("Preempted", 0) - delay) < POINTS
        if name == "waits":
            assert share["Sleeping"] > 0.99
    assert not any(e["args"].get("interval ms")
                   for e in trace.slices("thread_state"))
    names = set(trace.labels("thread_name").values())
    assert {"computes state", "sleeps state", "fights 1 state",
            "waits state"} <= names
    assert trace.losses() == {}


# Theirs are calls that the filter does not know.
filters = pytest.mark.skipif(bool(SANITIZED), reason="the sanitizers' calls")


@filters
@pytest.mark.parametrize("way", ["--refuse", "--kill"])
def test_sampled_shares(tmp_path, way):
    """Under a filter nothing is tried that it may not know: one that kills for
    it would have.  Sums are the kernel's all the same."""
    done = run("busy", way, "--seconds", 3, GPUTRACE_TRACE=SOURCES,
               GPUTRACE_OUT=tmp_path / "trace.json", GPUTRACE_LOG="info")
    if done.status == 77:
        pytest.skip("no such filter")
    assert done.status == 0, done.err
    trace = Trace(tmp_path / "trace.json")
    assert not findings(trace.path)
    check_rows(trace)
    for name, share, delay in check_counts(trace, done):
        if name == "computes":
            assert abs(share.get("Runnable", 0) - delay) < 2 * POINTS
        if name == "waits":
            assert share["Sleeping"] > 0.95
    slices = trace.slices("thread_state")
    assert all(e["args"]["sampled"] is True and
               20 <= e["args"]["interval ms"] <= 500 for e in slices)
    assert any("are sampled: a filter" in l for l in own_lines(done.err))


@needs_perf
@filters
def test_a_filter_that_comes_late(tmp_path):
    """It kills for a perf event: no ring that has become too small is made
    larger, and no thread that is new has one."""
    for args in (), ("--short", 20):
        done, trace = busy(tmp_path, "--late", "--storm", "--seconds", 1, *args)
        check_rows(trace)
        for name in "storms 1", "computes":
            assert states(trace, done.did["threads"][name])


@needs_perf
def test_a_storm_of_switches(tmp_path):
    """Two threads wake each other as fast as they can: the file stays small,
    and the other threads' shares right.  (Of theirs the kernel counts the
    switches themselves as running, which are between our states.)"""
    done, trace = busy(tmp_path, "--storm", "--seconds", 2)
    check_rows(trace)
    assert set(trace.losses()) <= ({"context switches", "ring full"}
                                   if SANITIZED else {"context switches"})
    storms = [t for n, t in done.did["threads"].items() if "storms" in n]
    assert len(storms) == 2
    for thread in storms:
        share = shares(trace, thread)
        wall = thread["end_ns"] - thread["start_ns"]
        # What the ring had no room for (sanitizers) is counted, and not here.
        assert sum(share.values()) > 0.9 or "ring full" in trace.losses()
        assert share["Running"] < thread["cpu_ns"] / wall + POINTS
        assert share["Running"] > thread["cpu_ns"] / wall * 0.3 * \
            min(1, sum(share.values()))
        # As the kernel counts them; one that was lost is two changes.
        told = sum(e["args"].get("switches", 0) + e["args"].get("lost", 0) / 2
                   + (e["name"] == "Running") for e in states(trace, thread))
        assert abs(told - thread["switches"]) < 10 + \
            thread["switches"] / 100 or "ring full" in trace.losses()
        assert len(states(trace, thread)) < 60000
    for name in "computes", "sleeps", "waits":
        thread = done.did["threads"][name]
        wall = thread["end_ns"] - thread["start_ns"]
        assert abs(shares(trace, thread).get("Running", 0) -
                   thread["cpu_ns"] / wall) < POINTS


@pytest.mark.parametrize("way", [
    (), pytest.param(("--refuse",), marks=filters)])
def test_threads_that_come_and_go(tmp_path, way):
    done, trace = busy(tmp_path, "--short", 200, "--idle", 200,
                       "--seconds", 1, *way)
    rows = check_rows(trace)
    assert len(rows) >= 205
    # Under a filter the writer's file is the program's, too.
    before, after = done.did["descriptors"]
    assert after <= before + 4
    for name in "computes", "waits":
        thread = done.did["threads"][name]
        assert states(trace, thread)
    assert set(trace.losses()) <= {"context switches"}


def test_many_windows_and_a_fork(tmp_path):
    done, trace = busy(tmp_path, "--windows", 100, "--fork", "--seconds", 0,
                       GPUTRACE_START="profiler-api")
    before, after = done.did["descriptors"]
    # Where nothing is parted the writer's files are the program's, too.
    assert after <= before + (4 if SANITIZED else 1)
    check_rows(trace)
    assert trace.slices("thread_state")
    # On a machine that is busy a window may miss its last milliseconds.
    said = [l for l in own_lines(done.err) if "got no CPU in time" not in l]
    assert len(said) == 1, done.err


@needs_perf
def test_windows_end_where_they_end(tmp_path):
    """Three windows of 0.2 s: states fill them, and are nowhere else."""
    path = tmp_path / "trace.json"
    process = start("busy", "--idle", 1, "--seconds", 2, GPUTRACE_OUT=path,
                    GPUTRACE_TRACE=SOURCES, GPUTRACE_START="off",
                    GPUTRACE_SIGNAL="USR2")
    time.sleep(0.6)
    for _ in range(6):
        process.send_signal(12)
        time.sleep(0.2)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    thread = json.loads(out)["threads"]["waits"]
    trace = Trace(path)
    slices = states(trace, thread)
    spans, last = [], None
    for e in slices:
        if last is None or e["start"] > last + 50000000:
            spans.append([e["start"], e["end"]])
        spans[-1][1] = last = e["end"]
    assert len(spans) == 3
    assert all(0.1e9 < end - begin < 0.4e9 for begin, end in spans)


def test_states_are_in_the_file_of_a_killed_program(tmp_path):
    path = tmp_path / "trace.json"
    process = start("busy", "--seconds", 60, GPUTRACE_TRACE=SOURCES,
                    GPUTRACE_OUT=path)
    time.sleep(4)
    process.kill()
    process.communicate(timeout=10)
    trace = Trace(path)
    names = trace.labels("thread_name")
    asleep = [e for e in trace.slices("thread_state") if
              names[e["pid"], e["tid"]] == "waits state"]
    assert sum(e["end"] - e["start"] for e in asleep) > 1e9


def counters(trace, name):
    return [e["args"] for e in trace.events
            if e.get("ph") == "C" and e["name"] == name]


def test_load_counters(tmp_path):
    done, trace = busy(tmp_path, "--seconds", 2)
    threads = done.did["threads"]
    cpu = counters(trace, "process CPU")
    assert len(cpu) >= 10
    mean = sum(c["running %"] for c in cpu) / len(cpu)
    ran = sum(t["cpu_ns"] / (t["end_ns"] - t["start_ns"])
              for t in threads.values())
    # The sampler, the writer and the simulated GPU are in it, too.
    assert 100 * ran * 0.7 < mean < 100 * ran * 1.3 + 30
    assert any(c["waiting for a CPU %"] > 0 for c in cpu)
    assert all(c["resident bytes"] > 1 << 20
               for c in counters(trace, "process memory"))
    assert max(c["threads"] for c in counters(trace, "process threads")) >= 5


# ---- A container's quota ----

def make_group():
    """A control group that may run a fifth of a CPU; (its folder, how to read
    {nr_throttled, throttled ns})."""
    one = pathlib.Path("/sys/fs/cgroup/cpu")
    two = pathlib.Path("/sys/fs/cgroup")
    name = "gputrace-test-%d" % os.getpid()
    try:
        if (one / "cpu.cfs_quota_us").exists():
            folder = one / name
            folder.mkdir()
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("20000")
            return folder, "throttled_time", 1
        folder = two / name
        folder.mkdir()
        (folder / "cpu.max").write_text("20000 100000")
        return folder, "throttled_usec", 1000
    except OSError as error:
        with contextlib.suppress(OSError, UnboundLocalError):
            folder.rmdir()
        pytest.skip("no control group: %s" % error)


def throttled(folder, key, scale):
    stat = dict(l.split() for l in
                (folder / "cpu.stat").read_text().splitlines())
    return int(stat["nr_throttled"]), int(stat[key]) * scale


def test_a_throttled_container(tmp_path):
    folder, key, scale = make_group()
    try:
        process = start(
            "/bin/sh", "-c", "echo $$ > %s/cgroup.procs; exec %s --seconds 2" %
            (folder, BUILD /
             "host" / "busy"), GPUTRACE_TRACE=SOURCES,
            GPUTRACE_OUT=tmp_path / "trace.json")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
        periods, time_ns = throttled(folder, key, scale)
    finally:
        folder.rmdir()
    told = counters(Trace(tmp_path / "trace.json"), "container CPU")
    assert periods > 5
    assert {c["quota %"] for c in told} == {20}
    # Before the first and after the last value it may have been throttled.
    sum_ns = float(sum(c["throttled ms"] for c in told)) * 1e6
    assert time_ns * 0.5 < sum_ns <= time_ns * 1.001
    assert periods / 2 <= sum(c["throttled periods"] for c in told) <= periods


def test_off_unless_named(tmp_path):
    _, trace = busy(tmp_path, "--seconds", 0, sources="cuda,nvtx")
    assert not trace.slices("thread_state")
    assert not [e for e in trace.events if e.get("ph") == "C" and
                e["name"].startswith(("process", "container"))]
