# SPDX-License-Identifier: MIT
"""The source `stacks`: host/stacks, whose call stacks and shares of CPU time are
known by its own account; and a Python program, whose lines are known."""
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from tracing import BUILD, JUDGE, LIBRARY, SANITIZED, Trace, environment, run

STACKS = {"GPUTRACE_TRACE": "cuda,nvtx,stacks"}
PERIOD_NS = 1e9 / 99


def stacks(tmp_path, mode, *args, program="stacks", **settings):
    path = tmp_path / "trace.json"
    settings = {**STACKS, "GPUTRACE_OUT": path, **settings}
    done = run(program, mode, *args, **settings)
    assert done.status == 0, done.err
    if JUDGE.exists():  # not strict: samples are no category of Kineto's
        judged = subprocess.run([sys.executable, JUDGE, path], text=True,
                                capture_output=True, check=False)
        assert judged.returncode == 0, judged.stdout
    return done, Trace(path)


def samples(trace):
    """{function: samples}, without the file it is in."""
    found = collections.Counter()
    for s in trace.slices("sample"):
        found[s["name"].split(" (")[0]] += s["args"]["samples"]
    return found


def frames(event):
    return [line.split(" (")[0] for line in
            event["args"]["stack"].strip().split("\n")]


def test_waiting_calls(tmp_path):
    done, trace = stacks(tmp_path, "sync")
    waits = trace.api("cuStreamSynchronize")
    assert len(waits) == done.did["api"]["cuStreamSynchronize"] == 20
    # On a busy machine a kernel may be over before its wait begins.
    long_ones = [w for w in waits if w["end"] - w["start"] > 100000]
    assert len(long_ones) > 10
    for wait in long_ones:
        assert wait["args"]["line"] == "inner (stacks)"
        # Of CUPTI and of us there is nothing.
        assert "libcupti" not in wait["args"]["stack"]
        assert "libgputrace" not in wait["args"]["stack"]
        at = frames(wait).index("cuStreamSynchronize")
        assert frames(wait)[at:at + 6] == [
            "cuStreamSynchronize", "inner", "middle", "outer", "mode_sync",
            "main"]
    assert trace.losses() == {}


def test_blocking_calls(tmp_path):
    """Those of osrt have theirs, too."""
    _, trace = stacks(tmp_path, "sleep", "--seconds", 0.3,
                      GPUTRACE_TRACE="cuda,nvtx,stacks,osrt")
    (sleep,) = [s for s in trace.slices("osrt", name="usleep")
                if s["end"] - s["start"] > 250000000]
    assert sleep["args"]["line"] == "mode_sleep (stacks)"
    assert frames(sleep)[:2] == ["mode_sleep", "main"]
    for call in trace.slices("osrt"):
        if call["end"] - call["start"] < 80000:
            assert "stack" not in call["args"]


def test_build_ids(tmp_path):
    """Of each file with an address that has no name."""
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    _, trace = stacks(tmp_path, "sync")
    nameless = {line.split("+0x")[0] for call in trace.api()
                for line in call["args"].get("stack", "").split("\n")
                if re.fullmatch(r"\S+\+0x[0-9a-f]+", line)}
    ids = trace.own["build_ids"]
    assert {os.path.basename(path) for path in ids} == nameless
    for path, found in ids.items():
        notes = subprocess.run(["readelf", "-n", path], text=True, check=True,
                               capture_output=True).stdout
        assert "Build ID: " + found in notes


def test_threshold(tmp_path):
    """Only calls that took so long; by the slices' own durations."""
    _, trace = stacks(tmp_path, "sync", GPUTRACE_STACK_MIN="1500us")
    with_stack = [a for a in trace.api() if "stack" in a["args"]]
    assert {a["name"] for a in with_stack} >= {"cuStreamSynchronize"}
    for call in trace.api():
        took = call["end"] - call["start"]
        # The callbacks lie around what the slice measures, by little.
        if took > 1600000 and call in trace.api("cuStreamSynchronize"):
            assert "stack" in call["args"]
        if took < 1000000:
            assert "stack" not in call["args"]


def test_off(tmp_path):
    """Not named, it is not there."""
    _, trace = stacks(tmp_path, "sync", GPUTRACE_TRACE="cuda,nvtx")
    assert not any("stack" in e["args"] for e in trace.events)
    assert not trace.slices("sample")


@pytest.mark.skipif(bool(SANITIZED), reason="shares of the sanitizer's own")
def test_shares(tmp_path):
    """Within 2 points of the program's own account: 600 samples have a
    standard deviation of 1.8, so the period is shorter here."""
    done, trace = stacks(tmp_path, "shares", "--seconds", 3,
                         GPUTRACE_SAMPLE_HZ=250)
    cpu = done.did["cpu"]
    found = samples(trace)
    total = cpu["heavy us"] + cpu["light us"]
    assert found["work"] > 0.8 * total * 250e-6
    assert found["work"] < 1.1 * total * 250e-6
    # Where others have the CPU at most ticks, one signal stands for many.
    slices = trace.slices("sample")
    span = max(s["end"] for s in slices) - min(s["start"] for s in slices)
    assert abs(found["heavy"] / (found["heavy"] + found["light"]) -
               cpu["heavy us"] / total) < (0.02 if span < total * 1200
                                           else 0.1)
    # Nested as they were called; a slice of its own each time.
    outer = {s["name"].split(" (")[0]: s for s in trace.slices("sample")}
    assert outer["heavy"]["tid"] == outer["work"]["tid"] >= 5000000
    names = trace.labels("thread_name")
    assert names[(outer["work"]["pid"], outer["work"]["tid"])] == \
        "stacks stacks"
    assert trace.losses() == {}


def test_sleeping_thread(tmp_path):
    """No CPU time, no samples: at most one of the start."""
    _, trace = stacks(tmp_path, "sleep", "--seconds", 1)
    assert samples(trace)["mode_sleep"] <= 1


@pytest.mark.skipif("thread" in SANITIZED, reason="200 slow threads")
def test_200_threads(tmp_path):
    done, trace = stacks(tmp_path, "threads", "--threads", 200,
                         "--seconds", 0.03)
    found = samples(trace)
    expected = done.did["cpu"]["us"] * 1e-6 * 99
    # On a busy machine most are over before their timer is there.
    assert 0.1 * expected < found["compute"] < 1.05 * expected
    threads = {s["args"]["thread"] for s in trace.slices("sample")}
    assert len(threads) > 20
    assert not any(n.startswith("gputrace") for n in
                   trace.labels("thread_name").values() if "stacks" in n
                   and "gputrace-" in n)


def test_signals(tmp_path):
    """The program's own arrive all the same, and are seen through."""
    done, trace = stacks(tmp_path, "signals", "--seconds", 1)
    assert done.did["signals"]["caught"] >= (500 if SANITIZED else 2000)
    for s in trace.slices("sample", name="on_own_signal (stacks)"):
        around = [o["name"] for o in trace.slices("sample")
                  if o["tid"] == s["tid"] and o["start"] <= s["start"] and
                  o["end"] >= s["end"]]
        assert "main (stacks)" in around


@pytest.mark.skipif(bool(SANITIZED), reason="it keeps handlers to itself")
def test_signal_is_taken(tmp_path):
    """SIGURG is the program's, who takes it later."""
    done, trace = stacks(tmp_path, "taken", "--seconds", 0.5)
    assert done.did["signals"] == {"not ours": 0, "caught": 1}
    said = [l for l in done.err.splitlines() if "no more samples" in l]
    assert len(said) == 1 and "signal %d" % signal.SIGURG in said[0]
    assert 10 < samples(trace)["heavy"] < 50


def test_a_timer_of_the_programs_own(tmp_path):
    """It sends the same signal, which does nothing, and has no slot."""
    done, trace = stacks(tmp_path, "timer", "--seconds", 0.5)
    assert done.did["timer"] == {"made": 1}
    assert samples(trace)["heavy"] > 10


@pytest.mark.skipif(bool(SANITIZED), reason="the sanitizer's own calls")
def test_a_filter_of_system_calls(tmp_path):
    """One that was there: no timer is made.  One that comes inside a window:
    none is made or taken away any more, and no perf event; the rest goes on."""
    sources = dict(STACKS, GPUTRACE_TRACE="cuda,stacks,cpu,osrt")
    if run("bounds", "seccomp", "kill", traced=False).status == 77:
        pytest.skip("no seccomp filters")
    done = run("bounds", "seccomp", "kill", GPUTRACE_OUT=tmp_path / "b.json",
               **sources)
    assert done.status == 0, done.err
    assert "no samples of CPU time: the program's own filter" in done.err
    assert Trace(tmp_path / "b.json").slices("kernel")
    done = run("stacks", "filter", "--seconds", 1,
               GPUTRACE_OUT=tmp_path / "s.json", **sources)
    assert done.status == 0, done.err
    assert done.did["filter"] == {"error": 0}
    assert "no samples of further threads: the program's own" in done.err
    found = samples(Trace(tmp_path / "s.json"))
    assert found["heavy"] > 50 and not found["compute"]


def test_signal_is_waited_for(tmp_path):
    """A thread that blocks it may take it by sigwait(): it gets none."""
    done, trace = stacks(tmp_path, "waits", "--seconds", 0.6)
    assert done.did["signals"] == {"not ours": 0, "caught": 1}
    assert samples(trace)["mode_waits"] == 0


def test_signal_is_waited_for_most_of_the_time(tmp_path):
    """Where the kernel says that it is not blocked."""
    done, trace = stacks(tmp_path, "loop", "--seconds", 0.4)
    assert done.did["signals"] == {"not ours": 0}
    assert samples(trace)["mode_loop"] == 0


def test_many_short_waits(tmp_path):
    """A busy thread is sampled, though each look finds that it has waited."""
    _, trace = stacks(tmp_path, "naps", "--seconds", 1)
    assert samples(trace)["heavy"] > 30


@pytest.mark.skipif(not shutil.which("taskset"), reason="no taskset")
def test_signal_is_waited_for_on_a_busy_cpu(tmp_path):
    """A thread that was woken from the wait runs late, and has the signal
    open until then."""
    on_one = [shutil.which("taskset"), "-c",
              str(max(os.sched_getaffinity(0)))]
    others = [subprocess.Popen([*on_one, "sh", "-c", "while :; do :; done"])
              for _ in range(4)]
    try:
        done, trace = stacks(tmp_path, *on_one[1:], BUILD / "host/stacks",
                             "loop", "--seconds", 0.6, program=on_one[0])
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert done.did["signals"] == {"not ours": 0}
    assert samples(trace)["mode_loop"] == 0


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                    reason="may not change its groups")
@pytest.mark.skipif("thread" in SANITIZED,
                    reason="another's program under the sanitizer")
def test_signal_is_waited_for_in_many_groups(tmp_path):
    """The kernel's account of a thread has them before its signals."""
    groups = ",".join(map(str, range(1000000000, 1000000250)))
    done, trace = stacks(tmp_path, "--groups", groups, BUILD / "host/stacks",
                         "waits", "--seconds", 0.6,
                         program=shutil.which("setpriv"))
    assert done.did["signals"] == {"not ours": 0, "caught": 1}
    assert samples(trace)["mode_waits"] == 0


@pytest.mark.skipif(bool(SANITIZED), reason="handlers are the sanitizer's")
@pytest.mark.parametrize("mode, number", [("go", signal.SIGRTMAX),
                                          ("sleep", signal.SIGURG)])
def test_signal_by_others(tmp_path, mode, number):
    """It does what it does without us: the real-time one ends the program,
    SIGURG nothing."""
    path = tmp_path / "trace.json"
    ends = set()
    for traced in (False, True):
        process = subprocess.Popen(
            [BUILD / "host" / "stacks", mode, "--seconds", "2"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(traced, GPUTRACE_OUT=path, **STACKS))
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.7)
        process.send_signal(number)
        process.communicate(timeout=20)
        ends.add(process.returncode)
    assert ends == {-number if mode == "go" else 0}


@pytest.mark.skipif(bool(SANITIZED), reason="handlers are the sanitizer's")
def test_signals_are_put_back(tmp_path):
    """To their defaults, by the program: it lives, sampling is over."""
    done, trace = stacks(tmp_path, "reset", "--seconds", 0.5)
    assert "no more samples" in done.err
    assert 10 < samples(trace)["heavy"] < 50


def test_signal_is_another(tmp_path):
    """A program that has SIGURG keeps it, and is sampled all the same."""
    done, trace = stacks(tmp_path, "go", "--seconds", 0.6)
    assert done.did["signals"].get("not ours", 0) == 0
    assert samples(trace)["mode_go"] > 10


def test_dlopen(tmp_path):
    done, trace = stacks(tmp_path, "dlopen", "--seconds", 0.7)
    assert done.did["dlopen"]["times"] > 10
    assert done.did["dlopen"]["errors"] == 0    # none of ours in dlerror()
    assert samples(trace)["compute"] > 0
    assert trace.losses() == {}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its registers")
def test_corrupted_stack(tmp_path):
    """The stack pointer points nowhere: a sample has the place alone."""
    done, trace = stacks(tmp_path, "garbage")
    spins = [s for s in trace.slices("sample") if "spin_on" in s["name"]]
    assert done.did["cpu"]["us"] > 0
    if not SANITIZED:
        assert spins
    for spin in spins:
        assert not [s for s in trace.slices("sample")
                    if s["start"] < spin["end"] and spin["start"] < s["end"]
                    and s["tid"] == spin["tid"] and s is not spin and
                    "spin_on" not in s["name"]]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its code")
@pytest.mark.skipif(bool(SANITIZED), reason="knows no such code")
def test_code_made_at_run_time(tmp_path):
    """By its frame pointer the caller is found; without one, no wrong one."""
    _, trace = stacks(tmp_path, "jit", "--seconds", 1)
    found = samples(trace)
    with_pointer = found["[JIT] made with pointer"]
    assert with_pointer > 10 and found["[JIT] made without"] > 10
    # A few are of before and after.
    assert with_pointer <= found["main"] <= with_pointer + 5


SERVE = '''
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
p, context = ctypes.c_uint64(), ctypes.c_void_p()
cu.cuInit(0)
cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cu.cuCtxSetCurrent(context)
cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
class Tensor:
    def item(self):
        cu.cuStreamSynchronize(None)
def sample(t):
    return t.item()
def step():
    cu.cuMemsetD8Async(p, ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20), None)
    sample(Tensor())
for _ in range(3):
    step()
'''


@pytest.mark.skipif(not (3, 9) <= sys.version_info[:2] <= (3, 14),
                    reason="a Python that is not known")
@pytest.mark.skipif(bool(SANITIZED), reason="no sanitizer in Python")
def test_python(tmp_path):
    program = tmp_path / "serve.py"
    program.write_text(SERVE, encoding="ascii")
    _, trace = stacks(tmp_path, program, program=sys.executable,
                      GPUTRACE_STACK_MIN="0.0000001")
    waits = [w for w in trace.api("cuStreamSynchronize")
             if "stack" in w["args"]]
    assert len(waits) == 3
    for wait in waits:
        lines = wait["args"]["stack"].split("\n")
        line = wait["args"]["line"]
        assert line.startswith("serve.py:11 ") and line.endswith("item")
        at = lines.index(line)
        assert [l.split(" ")[0] for l in lines[at:at + 4]] == [
            "serve.py:11", "serve.py:13", "serve.py:16", "serve.py:18"]
        assert lines[0].startswith(("cuStreamSynchronize", "sim_leave"))
        assert LIBRARY.name not in wait["args"]["stack"]
        assert not any("EvalFrame" in l for l in lines)


@pytest.mark.skipif(not (3, 9) <= sys.version_info[:2] <= (3, 14),
                    reason="a Python that is not known")
@pytest.mark.skipif(bool(SANITIZED), reason="no sanitizer in Python")
def test_line_of_the_program(tmp_path):
    """The innermost line is a package's; what the program called is told."""
    package = tmp_path / "lib" / "site-packages" / "tensors"
    package.mkdir(parents=True)
    tensor, main = SERVE.split("def sample")
    (package / "cuda.py").write_text(tensor, encoding="ascii")
    program = tmp_path / "serve.py"
    program.write_text(
        "import sys\nsys.path.insert(0, %r)\n"
        "from tensors.cuda import *\n\ndef sample%s" %
        (str(package.parent), main), encoding="ascii")
    _, trace = stacks(tmp_path, program, program=sys.executable,
                      GPUTRACE_STACK_MIN="0.0000001")
    waits = [w for w in trace.api("cuStreamSynchronize")
             if "stack" in w["args"]]
    assert len(waits) == 3
    for wait in waits:
        assert wait["args"]["line"] == "serve.py:6 sample"
        lines = wait["args"]["stack"].split("\n")
        at = lines.index("serve.py:6 sample")
        assert lines[at - 1].startswith("tensors/cuda.py:11 ")


@pytest.mark.parametrize("start", ["now", "profiler-api"])
def test_beside_another_profiler(tmp_path, start):
    """What a profiler in the program finds is the same with ours beside it;
    and the subscriber serves both of our ends."""
    args = ["--sessions", 3, "--windows"]
    plain = run("profiler", *args, traced=False)
    done, trace = stacks(tmp_path, *args, program="profiler",
                         GPUTRACE_START=start, GPUTRACE_STACK_MIN="0.0000001")
    assert done.did["profiler"] == plain.did["profiler"]
    assert len(trace.slices("kernel")) > 0
    assert any("stack" in call["args"] for call in trace.api())


@pytest.mark.skipif(bool(SANITIZED), reason="handlers are the sanitizer's")
def test_windows(tmp_path, gputrace):
    """Each window has samples; between two nothing of ours ticks."""
    process = subprocess.Popen(
        [BUILD / "host" / "stacks", "shares", "--seconds", "60"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment(True, GPUTRACE_START="off", **STACKS,
                        GPUTRACE_OUT=tmp_path / "common.json"))
    try:
        timers = pathlib.Path("/proc/%d/timers" % process.pid)
        for i in range(2):
            out = tmp_path / ("w%d.json" % i)
            deadline = time.monotonic() + 10
            while gputrace("capture", process.pid, "-d", "700ms",
                           "-o", out).status:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert samples(Trace(out))["work"] > 5
            deadline = time.monotonic() + 5
            while timers.exists() and timers.read_text():
                assert time.monotonic() < deadline
                time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
