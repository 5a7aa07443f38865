# SPDX-License-Identifier: MIT
"""What starts and stops a window: marks of the program, steps, times and
signals; and that nothing happens while nothing has."""
import collections
import pathlib
import re
import signal
import time

import pytest
from control import of_tasks
from tracing import SANITIZED, Run, Trace, judge, own_lines, run, start, traced

SILU, COPY = "act_and_mul", "unrolled"


def kernels(trace):
    """{what is launched inside and outside: how often}"""
    found = collections.Counter()
    for kernel in trace.slices("kernel"):
        for word in (SILU, COPY):
            found[word] += word in kernel["name"]
    return +found


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def switches(pid):
    """{thread of ours: how often it has gone to sleep}"""
    found = {}
    for _, text in of_tasks(pid, "status"):
        lines = dict(l.split(":\t") for l in text.splitlines())
        if lines["Name"].startswith("gputrace"):
            found[lines["Name"]] = int(lines["voluntary_ctxt_switches"])
    return found


# ---- nvtx:NAME@DOMAIN ----

RANGES = {"pushed": 9, "started": 6, "registered": 3, "wide": 3, "across": 1,
          "threads": 3, "abandoned": 3}


@pytest.mark.parametrize("mode", RANGES)
def test_a_range_is_the_window(tmp_path, mode):
    """All that is launched inside, and nothing else."""
    done, trace = traced(tmp_path, "marks", mode, 3,
                         GPUTRACE_START="nvtx:work")
    assert kernels(trace) == {SILU: RANGES[mode]}
    assert done.did["inside"].get("kernels", 3) == RANGES[mode]
    assert trace.ranges("work") and trace.losses() == {}


@pytest.mark.parametrize("mode", ["pushed", "started"])
def test_the_range_itself_is_there(tmp_path, mode):
    """Its inner one of the same name does not close the window."""
    _, trace = traced(tmp_path, "marks", mode, 3, GPUTRACE_START="nvtx:work")
    assert len(trace.ranges("work")) == 6
    first = min(trace.ranges("work"), key=lambda e: e["start"])
    work = trace.slices("kernel") + trace.api("cuLaunchKernel")
    assert work and all(e["start"] >= first["start"] for e in work)


def test_calls_across_windows(tmp_path):
    """Of one thread's windows another's calls end in the next: they are cut
    with the ranges around them (traced() asks the judge)."""
    _, trace = traced(tmp_path, "decode", "--steps", 20, "--kernels", 3,
                      "--sync-ms", 8, "--threads", 3,
                      GPUTRACE_START="nvtx:step")
    assert any(call["args"].get("open") for call in
               trace.slices("cuda_driver"))


DOMAINS = {"nvtx:work@library": 3, "nvtx:work@default": 0, "nvtx:wor": 0,
           "nvtx:work@librar": 0}


@pytest.mark.parametrize("mark", DOMAINS)
def test_the_domain(tmp_path, mark):
    run("marks", "registered", 3, GPUTRACE_START=mark,
        GPUTRACE_OUT=tmp_path / "t.json")
    found = [kernels(Trace(f))[SILU] for f in tmp_path.iterdir()]
    assert sum(found) == DOMAINS[mark]


def test_a_mark_opens_nothing(tmp_path):
    done = run("marks", "mark", GPUTRACE_START="nvtx:work",
               GPUTRACE_OUT=tmp_path / "t.json")
    assert (done.status, own_lines(done.err)) == (0, [
        "gputrace: nothing was recorded: no window opened "
        "(GPUTRACE_START=nvtx:work)"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name, value", [("GPUTRACE_TRACE", "cuda"),
                                         ("GPUTRACE_NVTX_DOMAINS", "other")])
def test_a_range_that_is_not_recorded(tmp_path, name, value):
    _, trace = traced(tmp_path, "marks", "pushed", 3, **{name: value},
                      GPUTRACE_START="nvtx:work")
    assert kernels(trace) == {SILU: 9} and not trace.ranges()


# ---- GPUTRACE_SCHEDULE ----

SCHEDULES = {
    "wait=1,warmup=1,active=3": [2, 3, 4, 7, 8, 9],
    "wait=1,warmup=1,active=3,repeat=1": [2, 3, 4],
    "active=2,repeat=2": [0, 1, 2, 3],
    "warmup=2,active=1": [2, 5, 8],
    "wait=3,active=1,repeat=2": [3, 7],
    "wait=20,active=1": [],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_steps(tmp_path, schedule):
    """As torch.profiler counts them: wait, warm up, record; again."""
    path = tmp_path / "t.json"
    done = run("marks", "steps", 10, GPUTRACE_SCHEDULE=schedule,
               GPUTRACE_OUT=path)
    assert done.status == 0, done.err
    wanted = SCHEDULES[schedule]
    assert path.exists() == bool(wanted)
    if wanted:
        trace = Trace(path)
        assert sorted(trace.count("user_annotation")) == \
            ["step %d" % n for n in wanted]
        assert kernels(trace) == {SILU: len(wanted)}
        assert trace.losses() == {} and not judge(path)


def test_each_stretch_has_a_file(tmp_path):
    done = run("marks", "steps", 10, 200, GPUTRACE_OUT=tmp_path / "t.%w.json",
               GPUTRACE_SCHEDULE="wait=1,warmup=1,active=3")
    assert done.status == 0, done.err
    files = sorted(tmp_path.iterdir())
    assert [sorted(Trace(f).count("user_annotation")) for f in files] == \
        [["step 2", "step 3", "step 4"], ["step 7", "step 8", "step 9"]]
    assert not judge(*files)


def test_the_steps_of_the_profiler_come_first(tmp_path):
    _, trace = traced(tmp_path, "marks", "both", 6,
                      GPUTRACE_SCHEDULE="wait=1,warmup=1,active=3")
    assert {n for n in trace.count("user_annotation") if "#" in n} == \
        {"ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"}
    assert kernels(trace) == {SILU: 6}


def test_steps_by_their_name(tmp_path):
    """Each window ends with its step: the next one's ranges are not there."""
    _, trace = traced(tmp_path, "decode", "--steps", 9, "--kernels", 10,
                      GPUTRACE_SCHEDULE="wait=2,active=1",
                      GPUTRACE_STEP="forward")
    assert len(trace.ranges("forward")) == 3
    assert not trace.ranges("sample") and not trace.ranges("prefill")


# ---- Times ----

def test_a_delay(tmp_path):
    before = time.time_ns()
    done, trace = traced(tmp_path, "decode", "--seconds", 0.8, "--sync-ms", 2,
                         "--kernels", 5, GPUTRACE_START="delay:300ms")
    base = int(trace.header["baseTimeNanoseconds"])
    assert base + min(k["start"] for k in trace.slices("kernel")) > \
        before + 300000000
    assert not trace.ranges("prefill")
    assert 0 < len(trace.ranges("step")) < int(done.out.split()[1])


def is_still(path):
    """Half a second, five flushes, without a change."""
    before = path.stat().st_mtime_ns
    time.sleep(0.5)
    return path.stat().st_mtime_ns == before


def test_a_duration(tmp_path):
    """The file is complete when it is over, and nothing more comes."""
    path = tmp_path / "t.json"
    process = start("decode", "--seconds", 20, "--sync-ms", 2, "--kernels", 5,
                    GPUTRACE_DURATION="300ms", GPUTRACE_FLUSH="100ms",
                    GPUTRACE_OUT=path)
    try:
        wait_for(path.exists)
        wait_for(lambda: is_still(path))
        trace = Trace(path)
        assert not judge(path)
        first = min(e["start"] for e in trace.api())
        last = max(e["start"] for e in trace.api())
        # Calls after the stop are not recorded; it may come late on a busy
        # machine, but not as late as the program's end.
        assert 200000000 < last - first < 5000000000
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


# ---- Signals ----

def catches(pid, number):
    """A thread of ours is there before that; until then it would end it."""
    text = pathlib.Path("/proc/%d/status" % pid).read_text()
    mask = re.search(r"^SigCgt:\s*(\w+)$", text, re.M).group(1)
    return int(mask, 16) >> (number - 1) & 1


def send(process, number):
    process.send_signal(number)
    time.sleep(0.3)


def test_a_signal_opens_and_closes(tmp_path):
    path = tmp_path / "t.json"
    process = start("decode", "--seconds", 2, "--sync-ms", 2, "--kernels", 5,
                    GPUTRACE_START="off", GPUTRACE_SIGNAL="USR2",
                    GPUTRACE_OUT=path)
    wait_for(lambda: catches(process.pid, signal.SIGUSR2))
    time.sleep(0.2)
    assert not path.exists()
    send(process, signal.SIGUSR2)
    send(process, signal.SIGUSR2)
    wait_for(path.exists)
    done = Run(process, 30)
    trace = Trace(path)
    assert (done.status, judge(path) or "") == (0, ""), done.err
    assert not trace.ranges("prefill")
    assert 0 < len(trace.ranges("step")) < int(done.out.split()[1])


def test_a_signal_that_the_program_uses(tmp_path):
    """It keeps it, and a line says so."""
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        done = run("decode", GPUTRACE_START="off", GPUTRACE_SIGNAL="USR2",
                   GPUTRACE_OUT=tmp_path / "t.json")
    finally:
        signal.signal(signal.SIGUSR2, before)
    line, = own_lines(done.err)
    assert "GPUTRACE_SIGNAL" in line and done.status == 0


# ---- Dumps of the flight recorder ----

def dumps(tmp_path, process, nr):
    """Waits for that many, and ends the program."""
    try:
        wait_for(lambda: len(list(tmp_path.glob("*.d*.json"))) >= nr)
        time.sleep(0.2)
    finally:
        process.kill()
        process.communicate()
    return sorted(tmp_path.iterdir())


def test_a_signal_dumps(tmp_path):
    process = start("decode", "--seconds", 20, "--sync-ms", 2, "--kernels", 5,
                    GPUTRACE_RECORDER="10", GPUTRACE_DUMP_SIGNAL="SIGUSR1",
                    GPUTRACE_OUT=tmp_path / "t.json")
    wait_for(lambda: catches(process.pid, signal.SIGUSR1))
    time.sleep(0.5)
    assert not list(tmp_path.iterdir())
    process.send_signal(signal.SIGUSR1)
    file, = dumps(tmp_path, process, 1)
    trace = Trace(file)
    assert len(trace.ranges("step")) > 10 and not judge(file)


def test_a_mark_dumps(tmp_path):
    """At its first; what comes often is not a file each time."""
    process = start("decode", "--seconds", 20, "--sync-ms", 2, "--kernels", 5,
                    GPUTRACE_RECORDER="1", GPUTRACE_DUMP_ON="nvtx:sample",
                    GPUTRACE_OUT=tmp_path / "t.json")
    first, second = dumps(tmp_path, process, 2)
    assert Trace(second).ranges("sample") and not judge(first, second)


# ---- What excludes what ----

CONFLICTS = {
    "GPUTRACE_SCHEDULE": dict(GPUTRACE_SCHEDULE="active=1",
                              GPUTRACE_START="off"),
    "GPUTRACE_RECORDER": dict(GPUTRACE_RECORDER="30",
                              GPUTRACE_START="profiler-api"),
    "GPUTRACE_DURATION": dict(GPUTRACE_RECORDER="30s",
                              GPUTRACE_DURATION="1s"),
    "GPUTRACE_DUMP_SIGNAL": dict(GPUTRACE_SIGNAL="USR2",
                                 GPUTRACE_DUMP_SIGNAL="SIGUSR2"),
    "GPUTRACE_CONTROL": dict(GPUTRACE_START="off", GPUTRACE_CONTROL="off"),
    "GPUTRACE_GRAPH": dict(GPUTRACE_GRAPH="graph", GPUTRACE_START="off"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_settings_that_exclude_each_other(tmp_path, name):
    done = run("decode", "--steps", 1, GPUTRACE_OUT=tmp_path / "t.json",
               **CONFLICTS[name])
    lines = [l for l in own_lines(done.err) if name in l]
    assert len(lines) == 1, done.err


# ---- Sleeping ----

def is_asleep(pid):
    before = switches(pid)
    time.sleep(1)
    return switches(pid) == before


def test_asleep(tmp_path):
    """No file, no kinds, and soon our threads do not even wake up."""
    process = start("decode", "--seconds", 20, "--sync-ms", 2, "--kernels", 5,
                    GPUTRACE_START="off", GPUTRACE_FLUSH="100ms",
                    GPUTRACE_OUT=tmp_path / "t.json")
    try:
        wait_for(lambda: len(switches(process.pid)) >= 2)
        wait_for(lambda: is_asleep(process.pid))
        assert not list(tmp_path.iterdir())
    finally:
        process.kill()
        process.communicate()


def test_a_hundred_cycles_under_load(tmp_path):
    """All that is launched between a start's and a stop's return is there, and
    nothing stays behind."""
    done, trace = traced(tmp_path, "marks", "cycles", 100,
                         GPUTRACE_START="profiler-api")
    lost = sum(trace.losses().values())
    assert done.did["inside"]["kernels"] == 2200
    assert 2200 - lost <= kernels(trace)[SILU] <= 2200
    before, after = done.did["before"], done.did["after"]
    assert after["threads"] == before["threads"]
    # Where ours are in the program's table, the twin comes and goes.
    assert abs(after["files"] - before["files"]) < 4
    # What the buffers and tables touch for the first time.
    assert SANITIZED or after["kb"] - before["kb"] < 4096
