# SPDX-License-Identifier: MIT
"""Every way that a program can end: as without us, at most 2 s later, and with
a file that holds what it must."""
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
from tracing import (BUILD, ROOT, SANITIZED, Trace, environment, judge, run)

ENDINGS = BUILD / "host" / "endings"
KERNELS = 200

# Threads run on while the process ends, and handlers interrupt anything.
not_under_tsan = pytest.mark.skipif(
    "thread" in SANITIZED, reason="races by design, or measures time")
plain_only = pytest.mark.skipif(
    bool(SANITIZED), reason="a shell, Python or small stacks")

# With exit handlers or without: nothing may be missing.
COMPLETE = ["return", "exit", "_exit", "_Exit", "quick_exit", "double-exit",
            "both", "callback", "callback-_exit"]
# The same, while something goes on that a sanitizer would rather not see.
ROUGH = ["in-nvtx", "thread-exit", "thread-_exit", "cancel"] + [
    pytest.param(mode, marks=plain_only)
    for mode in ("crash-handler", "overflow-handler", "in-malloc",
                 "in-launch", "in-profiler-api")]
# No moment for us: what the last flush has written.
KILLED = ["abort", "kill", "crash", "overflow", "exec", "exec-self",
          "thread-exec"]


def took_ms(err):
    return int(re.search(r"the end took (\d+) ms", err).group(1))


def settings(path, **more):
    return dict(GPUTRACE_OUT=path, GPUTRACE_LOG="info", **more)


def end(tmp_path, mode, **more):
    """(run, trace) of a program that must end as it does without us."""
    plain = run("endings", mode, traced=False)
    path = tmp_path / "t.json"
    done = run("endings", mode, **settings(path, GPUTRACE_FLUSH="10s"), **more)
    assert (done.status, done.out) == (plain.status, plain.out), done.err
    assert took_ms(done.err) <= 2000
    trace = Trace(path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    return done, trace


@pytest.mark.parametrize("mode", COMPLETE)
def test_complete(tmp_path, mode):
    done, trace = end(tmp_path, mode)
    assert trace.own["finished"]
    assert len(trace.slices("kernel")) == KERNELS
    assert len(trace.ranges("work")) == 1
    # Where the call that brought the callback still runs, it may be lost.
    assert ("%s: %d kernels, " % (trace.path, KERNELS) if "callback" in mode
            else "%s: %d kernels, 0 lost\n" % (trace.path, KERNELS)) in done.err
    assert mode not in ("_exit", "quick_exit") or not judge(trace.path)


@not_under_tsan
@pytest.mark.parametrize("mode", ROUGH)
def test_complete_in_the_middle_of_something(tmp_path, mode):
    done, trace = end(tmp_path, mode)
    assert trace.own["finished"]
    # A handler in the middle of a call can hold the driver's lock.
    assert len(trace.slices("kernel")) >= KERNELS or (
        mode.startswith("in-") and "CUPTI did not answer" in done.err and
        trace.losses()["buffers never returned"])
    assert done.err.count(" kernels, ") == 1, done.err
    assert mode not in ("cancel", "thread-_exit") or not judge(trace.path)


@not_under_tsan
@pytest.mark.parametrize("mode", ["exit", "_exit", "quick_exit"])
@pytest.mark.parametrize("fault, said", [
    ("SIM_FLUSH_MS", "CUPTI did not answer in time"),
    ("SIM_DISK_MS", "was not written in time")])
def test_an_end_that_cannot_be_completed(tmp_path, mode, fault, said):
    """The driver or the disk stands still for a minute: 2 s, and said."""
    began = time.monotonic()
    done = run("endings", mode, **{fault: 60000}, **settings(
        tmp_path / "t.json", GPUTRACE_FLUSH="10s"))
    assert time.monotonic() - began < 10
    assert done.status == (0 if mode == "return" else 42)
    assert said in done.err
    assert took_ms(done.err) <= 2000
    assert fault != "SIM_FLUSH_MS" or "(buffers never returned " in done.err
    for path in tmp_path.glob("*.json"):
        Trace(path)


# ---- Where nothing of ours can run ----

def core_allowed():
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def holds(path, kernels):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and len(Trace(path).slices("kernel")) >= kernels:
            return True
        time.sleep(0.02)
    return False


def killed(tmp_path, mode, number=None, traced=True, out="t.json",
           pattern=None):
    """The raw status of a program that ends once its file is up to date."""
    path = tmp_path / out
    process = subprocess.Popen(
        [ENDINGS, mode, "--wait"], stdin=subprocess.PIPE, cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        preexec_fn=core_allowed, env=environment(traced, **settings(
            tmp_path / (pattern or out), GPUTRACE_FLUSH="50ms")))
    process.stdout.readline()
    ready = not traced or holds(path, KERNELS)
    process.stdin.close()
    if number:
        time.sleep(0.2)         # into pause()
        process.send_signal(number)
    out = process.stdout.read()
    status = os.waitpid(process.pid, 0)[1]
    process.returncode = 0
    process.stdout.close()
    assert ready
    return status, out


@plain_only
@pytest.mark.parametrize("mode", KILLED)
def test_up_to_the_last_flush(tmp_path, mode):
    """The status, the core dump's bit in it, and stdout are the program's."""
    (tmp_path / "plain").mkdir()
    plain = killed(tmp_path / "plain", mode, traced=False)
    outs = [tmp_path / "t.json", tmp_path / "t.json.gz"]
    for out in outs:
        assert killed(tmp_path, mode, out=out) == plain
        assert len(Trace(out).slices("kernel")) == KERNELS
    assert not judge(*outs), judge(*outs)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT,
                                    signal.SIGKILL, signal.SIGHUP])
def test_killed_by_a_signal(tmp_path, number):
    assert os.WTERMSIG(killed(tmp_path, "signal", number)[0]) == number
    assert len(Trace(tmp_path / "t.json").slices("kernel")) == KERNELS
    assert not judge(tmp_path / "t.json")


@pytest.mark.parametrize("mode, status, kernels", [
    ("term-exit", 43, KERNELS), ("term-_exit", 43, KERNELS),
    ("term-return", 42, KERNELS + 10)])
def test_the_programs_own_handler(tmp_path, mode, status, kernels):
    assert os.WEXITSTATUS(killed(tmp_path, mode, signal.SIGTERM)[0]) == status
    trace = Trace(tmp_path / "t.json")
    assert trace.own["finished"]
    assert len(trace.slices("kernel")) == kernels
    assert not judge(trace.path)


@plain_only
def test_a_program_that_becomes_itself_again(tmp_path):
    """Its second life has a file of its own."""
    killed(tmp_path, "exec-self", out="endings.json", pattern="%n.json")
    traces = [Trace(tmp_path / n) for n in ("endings.json", "endings-2.json")]
    assert [len(t.slices("kernel")) for t in traces] == [KERNELS] * 2
    assert traces[0].own["pid"] == traces[1].own["pid"]


# ---- Python ----

PYTHON = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not cuda.cuInit(0)
assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context)
pointer = ctypes.c_uint64()
assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), 4096)
for i in range(50):
    assert not cuda.cuMemsetD8_v2(pointer, 0, 4096)
assert not cuda.cuCtxSynchronize()      # a set need not be over
print("did 50", flush=True)
"""
PYTHON_ENDS = {
    "end": ("", 0), "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("os._exit(4)", 4), "raise": ("raise KeyError", 1),
    "torn down first": ("cuda.cuCtxSynchronize(); "
                        "cuda.cuDevicePrimaryCtxRelease_v2(0); sys.exit(5)",
                        5),
}


@plain_only
@pytest.mark.parametrize("name", PYTHON_ENDS)
def test_python(tmp_path, name):
    code, status = PYTHON_ENDS[name]
    done = run(sys.executable, "-c", PYTHON + code, GPUTRACE_FLUSH="10s",
               **settings(tmp_path / "t.json"))
    assert (done.status, done.out) == (status, "did 50\n"), done.err
    assert took_ms(done.err) <= 2000
    trace = Trace(tmp_path / "t.json")
    assert trace.own["finished"]
    assert len(trace.slices("gpu_memset")) == 50


# ---- Our lines ----

@not_under_tsan
def test_a_full_pipe_on_stderr(tmp_path):
    """Nobody reads it, so a blocking write would never end."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    done = subprocess.run(
        [ENDINGS, "exit"], stderr=write, stdout=subprocess.PIPE, timeout=30,
        check=False, env=environment(**settings(tmp_path / "t.json")))
    os.close(read)
    os.close(write)
    assert done.returncode == 42
    assert Trace(tmp_path / "t.json").own["finished"]


# ---- Killed at any moment ----

def test_random_kills():
    done = subprocess.run(
        [sys.executable, ROOT / "test" / "guest" / "kills.py", "10", BUILD],
        capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    word = json.loads(done.stdout)
    assert word["files"] >= 5 and word["bad"] == 0
    # A period of 20 ms, on a machine that has other things to do.
    assert word["oldest_lost_ms"] < 1000
