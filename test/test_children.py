# SPDX-License-Identifier: MIT
"""Children of every kind: each process that uses CUDA has a file of its own,
and the others leave nothing behind."""
import collections
import os
import re
import subprocess
import sys
import time

import pytest
from tracing import BUILD, SANITIZED, Trace, environment, judge, run

# The child of a fork waits for ever where another thread was in the allocator
# of gcc 12's AddressSanitizer (glibc's own looks after that).
forks_plain = pytest.mark.skipif(
    bool(SANITIZED), reason="forks beside threads, by design")
plain_only = pytest.mark.skipif(
    bool(SANITIZED), reason="a shell, Python or shared memory")


def said(out, word):
    """{pid: [numbers]} of the lines that begin with the word."""
    rows = collections.defaultdict(list)
    for line in out.splitlines():
        if line.startswith(word + " "):
            pid, *numbers = map(int, line.split()[1:])
            rows[pid].append(numbers)
    return rows


def kernels(out):
    return {pid: sum(n for n, in rows)
            for pid, rows in said(out, "gpu").items()}


def in_files(folder, what="kernel"):
    """{pid: operations} as the files say, each of another process."""
    traces = [Trace(p) for p in folder.glob("*.json")]
    assert not traces or not judge(*[t.path for t in traces])
    found = {t.own["pid"]: len(t.slices(what)) for t in traces}
    assert len(found) == len(traces)
    return found


def made(tmp_path, mode, *args, out="%p.json", **settings):
    folder = tmp_path / "out"
    folder.mkdir()
    done = run("children", mode, *args, cwd=tmp_path, GPUTRACE_FLUSH="20ms",
               GPUTRACE_OUT=folder / out, **settings)
    assert done.status == 0, done.out + done.err
    left = [p.name for p in folder.iterdir() if p.suffix != ".json"]
    assert not left
    return done, folder


MODES = ["prefork", "fork-before", "vfork", "spawn",
         pytest.param("fork-after", marks=forks_plain),
         pytest.param("clone", marks=plain_only),
         pytest.param("shells", marks=plain_only)]


@pytest.mark.parametrize("out", ["%p.json", "t.json"])
@pytest.mark.parametrize("mode", MODES)
def test_a_file_for_each(tmp_path, mode, out):
    plain = run("children", mode, traced=False)
    done, folder = made(tmp_path, mode, out=out)
    if out == "%p.json":
        assert in_files(folder) == kernels(done.out)
        assert {p.name for p in folder.iterdir()} == \
            {"%d.json" % pid for pid in kernels(done.out)}
    else:       # it goes to whoever comes when nobody lives who has it
        assert in_files(folder).items() <= kernels(done.out).items()
        assert (folder / "t.json").exists()
    assert re.sub(r"\d+", "N", done.out) == re.sub(r"\d+", "N", plain.out)
    if "thread" in SANITIZED:   # it has a thread of its own, but not always
        return
    open_and_running = {tuple(row) for out in (plain.out, done.out)
                        for rows in said(out, "inert").values()
                        for row in rows}
    assert len(open_and_running) <= 1, plain.out + done.out


def test_the_exact_name_is_the_living_parents(tmp_path):
    done, folder = made(tmp_path, "spawn", tmp_path / "out" / "t.json",
                        out="t.json")
    names = {p.name: Trace(p).own["pid"] for p in folder.iterdir()}
    parent = names.pop("t.json")
    child, = set(kernels(done.out)) - {parent}
    assert names == {"t-%d.json" % child: child}
    assert in_files(folder) == kernels(done.out)


def test_a_daemon(tmp_path):
    """Its descriptors are gone and taken before it uses CUDA."""
    mine = tmp_path / "mine"
    _, folder = made(tmp_path, "daemon", mine)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        traces = [Trace(p) for p in folder.glob("*.json")]
        if traces and traces[0].own["finished"]:
            break
        time.sleep(0.05)
    assert in_files(folder) == kernels(mine.read_text())
    assert re.fullmatch(r"gpu \d+ 100\n", mine.read_text())


@forks_plain
def test_many_forks_beside_a_busy_writer(tmp_path):
    """Locks of ours, or of malloc in our thread, must not be held in one."""
    done, folder = made(tmp_path, "many", 200, GPUTRACE_BUFFER="16M")
    slowest, = re.findall(r"slowest (\d+) ms", done.out)
    assert int(slowest) < 20000
    assert len(list(folder.iterdir())) == 1


# ---- Python ----

WORKER = """
import ctypes, multiprocessing, os, subprocess, sys
def use(n):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    assert not cuda.cuInit(0)
    assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not cuda.cuCtxSetCurrent(context)
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), 4096)
    for i in range(n):
        assert not cuda.cuMemsetD8_v2(pointer, 0, 4096)
    os.write(1, b"gpu %d %d\\n" % (os.getpid(), n))
def main(how):
    context = multiprocessing.get_context(how)
    if how == "spawn":
        use(10)
    workers = [context.Process(target=use, args=(20 + i,)) for i in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        assert w.exitcode == 0
    assert subprocess.run("echo | cat", shell=True).returncode == 0
    subprocess.run([sys.executable, "-c", "import multiprocessing"])
    if how == "fork":
        use(10)
if __name__ == "__main__":
    main(sys.argv[1])
"""


@plain_only
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_multiprocessing(tmp_path, how):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    folder = tmp_path / "out"
    folder.mkdir()
    done = run(sys.executable, script, how, cwd=tmp_path, GPUTRACE_FLUSH="10s",
               GPUTRACE_OUT=folder / "%p.json", PYTHONDONTWRITEBYTECODE=1)
    assert done.status == 0, done.err
    assert len(kernels(done.out)) == 3
    assert in_files(folder, "gpu_memset") == kernels(done.out)
    assert len(list(folder.iterdir())) == 3


# ---- Programs with more rights than their user ----

@plain_only
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes others")
@pytest.mark.parametrize("real_user, is_traced", [("0", True),
                                                  ("65534", False)])
def test_set_user_id(tmp_path, real_user, is_traced):
    """Such a program sees no preload, but the driver sees the variable."""
    use = "cuda = __import__('ctypes').CDLL('%s/sim/libcuda.so.1')\n" \
          "assert not cuda.cuInit(0)\nprint('did')" % BUILD
    done = subprocess.run(
        ["setpriv", "--ruid", real_user, "--euid", "0", sys.executable, "-I",
         "-c", use], capture_output=True, check=False, timeout=60,
        env=environment(False, CUDA_INJECTION64_PATH=BUILD / "libgputrace.so",
                        GPUTRACE_CUPTI=BUILD / "sim" / "libcupti.so.13",
                        GPUTRACE_OUT=tmp_path / "t.json",
                        GPUTRACE_LOG="info"))
    assert (done.returncode, done.stdout) == (0, b"did\n"), done.stderr
    assert (b"attached" in done.stderr) == is_traced, done.stderr
    assert bool(done.stderr) == is_traced
