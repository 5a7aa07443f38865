# SPDX-License-Identifier: MIT
"""gputrace attach: into programs that were started without the library, on the
simulated GPU, and what it refuses."""
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from control import threads
from tracing import (BUILD, LIBRARY, SANITIZED, Trace, environment, judge,
                     own_lines)

pytestmark = pytest.mark.skipif(
    bool(SANITIZED), reason="a sanitizer is not brought into a process late")

ROOT_USER = os.geteuid() == 0
WAITS = BUILD / "host" / "waits"
KERNELS = 20                    # of test/host/waits.c
# {place: what the system call there must give}
PLACES = {"read": 1, "poll": 1, "epoll": 1, "recv": 1, "nanosleep": 1,
          "futex": 0, "timed-futex": 0, "malloc": 0, "code": 0,
          "handler": 1, "coroutine": 1}


@contextlib.contextmanager
def started(*command, ready=True, **options):
    """A program on the simulated GPU, without the library; it is not left
    behind."""
    process = subprocess.Popen(
        [str(c) for c in command], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        **{"env": environment(traced=False), **options})
    try:
        if ready:
            assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def settle(pid, deadline=10):
    """Until the main thread of `waits` stands in its system call."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        word = pathlib.Path("/proc/%d/syscall" % pid).read_text().split()[0]
        if word not in ("running", "1"):
            return
        time.sleep(0.01)


def settle_decode(pid, deadline=20):
    """Until it uses CUDA, and then some steps."""
    end = time.monotonic() + deadline
    maps = pathlib.Path("/proc/%d/maps" % pid)
    while "libcuda.so" not in maps.read_text() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.3)


def finish(process, text=b"x"):
    out, err = process.communicate(text, timeout=60)
    words = [l for l in out.decode().splitlines() if l.startswith("{")]
    assert process.returncode == 0, err
    return json.loads(words[-1]) if words else out.decode(), err.decode()


def attached(done, pid):
    said = [l for l in own_lines(done.err) if "next:" not in l]
    assert (done.status, said) == (0, []), done.err
    assert done.out.startswith("pid %d " % pid) and "attached" in done.out


def refused(done, *words):
    assert (done.status, done.out) == (3, ""), done.out
    assert len(done.err.splitlines()) == 1 and \
        all(w in done.err for w in words), done.err


def settle_library(pid, *gone, deadline=10):
    """Until it is attached, and threads of these names are gone.  The one that
    loads stays for 3 s where nobody has read how it went."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        names = set(threads(pid))
        if "gputrace-writer" in names and not names & {"gputrace-attach",
                                                       *gone}:
            return
        time.sleep(0.01)


def kernels_of(path):
    trace = Trace(path)
    assert not judge(path), judge(path)
    return len(trace.slices("kernel"))


# ---- Wherever the program is ----

@pytest.mark.parametrize("place", PLACES)
def test_the_program_does_not_notice(gputrace, tmp_path, place):
    """The system call gives what it would have given, in its own time; memory
    and registers are what they were; what comes after it is traced."""
    path = tmp_path / "t.json"
    with started(WAITS, place) as process:
        if place not in ("malloc", "code"):
            settle(process.pid)
        attached(gputrace("attach", process.pid, "-o", path), process.pid)
        word, err = finish(process)
    assert word["place"]["result"] == PLACES[place]
    assert len(own_lines(err)) == 1, err
    assert kernels_of(path) == KERNELS
    if "took" in word:
        assert word["took"]["ms"] in range(1000, 4000)
    if place in ("handler", "coroutine"):
        assert word["alone"]["traced"] == 0


def test_no_signal_is_lost(gputrace, tmp_path):
    path, sent = tmp_path / "t.json", 300
    with started(WAITS, "signals") as process:
        settle(process.pid)
        command = subprocess.Popen(
            [BUILD / "gputrace", "attach", str(process.pid), "-o", path],
            stdout=subprocess.PIPE)
        for _ in range(sent):
            os.kill(process.pid, signal.SIGRTMIN)
            time.sleep(0.0002)
        assert b"attached" in command.communicate(timeout=60)[0]
        word, _ = finish(process)
    assert word["place"]["result"] == 0
    assert word["signals"]["handled"] == sent


def test_decode(gputrace, tmp_path):
    """The everyday program: recorded from the attach on, to its end."""
    path = tmp_path / "t.json"
    with started(BUILD / "host" / "decode", "--seconds", 2, "--kernels", 20,
                 "--sync-ms", 10, ready=False) as process:
        settle_decode(process.pid)
        attached(gputrace("attach", process.pid, "--set",
                          "GPUTRACE_START=now", "--set",
                          "GPUTRACE_OUT=%s" % path), process.pid)
        out, err = finish(process, b"")
    steps = int(re.fullmatch(r"steps (\d+)\n", out).group(1))
    said = re.search(r"(\d+) kernels, 0 lost", err)
    kernels = kernels_of(path)
    assert kernels == int(said.group(1)) and 20 < kernels < steps * 20


def test_it_sleeps(gputrace, tmp_path):
    """By default nothing is recorded, and a second attach says so."""
    with started(WAITS, "read", cwd=tmp_path) as process:
        settle(process.pid)
        done = gputrace("attach", process.pid)
        assert done.status == 0 and "sleeps" in done.out, done.err
        again = gputrace("attach", process.pid)
        assert again.status == 0 and "there already" in again.out
        assert str(LIBRARY) in again.out and not again.err
        late = gputrace("attach", process.pid, "-o", tmp_path / "t.json")
        assert late.status == 0 and "capture %d" % process.pid in late.err
        settle_library(process.pid, "gputrace-load")
        maps = pathlib.Path("/proc/%d/maps" % process.pid).read_text()
        assert not re.search(r"x[ps] \S+ \S+ 0 *$", maps, re.M)
        word, _ = finish(process)
    assert word["place"]["result"] == 1
    assert not list(tmp_path.iterdir())


def test_out_without_a_folder(gputrace, tmp_path):
    """Refused before anything is touched."""
    with started(WAITS, "read", cwd=tmp_path) as process:
        settle(process.pid)
        path = tmp_path / "none" / "t.json"
        done = gputrace("attach", process.pid, "-o", path)
        assert done.status == 3 and str(path) in done.err
        assert gputrace("ps", process.pid).out.count("untraced") == 1
        finish(process)


def test_then_capture(gputrace, tmp_path):
    """As in a program that was started with the library."""
    path = tmp_path / "t.json"
    with started(BUILD / "host" / "decode", "--seconds", 30, "--kernels", 20,
                 "--sync-ms", 10, ready=False) as process:
        settle_decode(process.pid)
        attached(gputrace("attach", process.pid), process.pid)
        done = gputrace("capture", process.pid, "-d", "0.3s", "-o", path)
        assert done.status == 0, done.err
        assert process.poll() is None
    assert kernels_of(path) > 20


PYTHON = """
import ctypes, threading, time, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, buffer = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(buffer), 4096) == 0
lock, go = threading.Lock(), threading.Event()
sums = []
def wait_for_lock():
    with lock:
        sums.append(1)
def count():
    n = 0
    while not go.is_set():
        n += len([str(i) for i in range(1000)])
    sums.append(n % 1000)
lock.acquire()
threads = [threading.Thread(target=t) for t in
           (wait_for_lock, wait_for_lock, count, go.wait)]
for t in threads:
    t.start()
print("ready", flush=True)
sys.stdin.readline()
go.set()
lock.release()
for t in threads:
    t.join()
for _ in range(10):
    assert cuda.cuMemsetD8_v2(buffer, 0, 4096) == 0
print(sorted(sums))
"""


def test_python(gputrace, tmp_path):
    path = tmp_path / "t.json"
    with started(sys.executable, "-c", PYTHON) as process:
        attached(gputrace("attach", process.pid, "-o", path), process.pid)
        out, _ = finish(process, b"\n")
    assert out == "[0, 1, 1]\n"
    assert len(Trace(path).slices("gpu_memset")) == 10


# ---- The command is killed ----

@pytest.mark.parametrize("place,step", [("read", 3), ("timed-futex", 7)])
def test_killed_at_any_moment(tmp_path, place, step):
    """Before and after each system call by which it changes the process; the
    process goes on, and a later attach succeeds."""
    path = tmp_path / "t.json"
    with started(WAITS, place) as process:
        settle(process.pid)
        for n in range(1, 400, step):
            done = subprocess.run(
                [BUILD / "host" / "killer", str(n), BUILD / "gputrace",
                 "attach", str(process.pid), "-o", path], check=False,
                env=environment(traced=False), capture_output=True,
                timeout=60)
            if done.returncode != 9:
                break
        assert done.returncode == 0, done.stderr
        assert n > 20    # else it was not killed where it matters
        settle_library(process.pid)
        word, _ = finish(process)
    assert word["place"]["result"] == PLACES[place]
    assert kernels_of(path) == KERNELS


def test_the_copied_code_refers_to_itself():
    """What runs in the other process calls nothing by its address here."""
    done = subprocess.run(
        ["readelf", "-rW", BUILD / "obj/tool/tools/attach_stub.o"],
        capture_output=True, text=True, check=True)
    part = re.search(r"'\.rela\.?stub_body'.*?(?=\nRelocation|\Z)", done.stdout,
                     re.S)
    names = [l.split()[4] for l in part.group().splitlines()[2:] if l.strip()]
    assert names and all(n.startswith("stub_") for n in names), names


# ---- Containers ----

@pytest.fixture
def nobody():
    """A folder with all that a user who is nobody needs."""
    if not ROOT_USER:
        pytest.skip("not root")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        for file in (BUILD / "gputrace", LIBRARY, WAITS,
                     *(BUILD / "sim").glob("lib*.so*")):
            shutil.copy(file, folder)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder


def as_nobody(folder, **env):
    return dict(user=65534, group=65534, extra_groups=[], cwd="/",
                env={"LD_LIBRARY_PATH": str(folder), "PATH": os.environ["PATH"],
                     "TMPDIR": str(folder / "tmp"), **env})


def test_a_process_of_nobodys(gputrace, nobody):
    """By nobody, with a library that is there; by root, whose library nobody
    can read: it is copied, as nobody's file, and taken again."""
    hidden = nobody / "hidden"
    hidden.mkdir(0o700)
    shutil.copy(LIBRARY, hidden)
    path = nobody / "tmp" / "t.json"
    with started(nobody / "waits", "read", **as_nobody(nobody)) as process:
        settle(process.pid)
        done = subprocess.run(
            [nobody / "gputrace", "attach", str(process.pid), "-o", path],
            capture_output=True, check=False, **as_nobody(nobody))
        assert done.returncode == 0, done.stderr
        assert str(nobody / "libgputrace.so") in done.stdout.decode()
        finish(process)
    assert kernels_of(path) == KERNELS
    copies = set()
    for _ in range(2):
        with started(nobody / "waits", "read", **as_nobody(nobody)) as process:
            settle(process.pid)
            done = gputrace("attach", process.pid, "-o", path, "--library",
                            hidden / "libgputrace.so")
            attached(done, process.pid)
            copies.add(re.search(r"attached (\S+);", done.out).group(1))
            finish(process)
    copy = pathlib.Path(copies.pop())
    assert not copies and copy.is_relative_to(nobody / "tmp")
    assert copy.read_bytes() == LIBRARY.read_bytes()
    assert (copy.stat().st_uid, copy.parents[1].stat().st_mode & 0o777) == \
        (65534, 0o700)


def test_nobody_may_not_write_to_its_tmp(gputrace, nobody):
    """Then there is no socket, and ps says why."""
    with started(nobody / "waits", "read",
                 **as_nobody(nobody, TMPDIR=str(nobody))) as process:
        settle(process.pid)
        assert gputrace("attach", process.pid).status == 0
        assert "no: no socket: %s is not for its user to write" % nobody in \
            gputrace("ps", process.pid).out
        finish(process)


@pytest.fixture
def unshared(tmp_path):
    """Runs `waits read` in mount and PID namespaces of its own, in which the
    build cannot be seen; SCRIPT prepares them."""
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*command, "true"], capture_output=True,
                      check=False).returncode:
        pytest.skip("no namespaces")
    inside = tmp_path / "inside"
    inside.mkdir()

    @contextlib.contextmanager
    def run_in(script, **env):
        script = "mount -t tmpfs none %s && cp %s %s/sim/lib*.so* %s && " \
            "mount -t tmpfs none %s && cd %s && %s && " \
            "LD_LIBRARY_PATH=. exec ./waits read" % (
                inside, WAITS, BUILD, inside, BUILD, inside, script)
        with started(*command, "sh", "-c", script, env={
                **environment(traced=False), **env}) as process:
            task = "/proc/%d/task/%d/children" % (process.pid, process.pid)
            pid = int(pathlib.Path(task).read_text().split()[0])
            settle(pid)
            yield process, pid
    return run_in


def test_another_mount_namespace(gputrace, unshared):
    with unshared("mkdir tmp", TMPDIR="/nowhere") as (process, pid):
        done = gputrace("attach", pid, "-o", "/tmp/t.json")
        attached(done, pid)
        root = pathlib.Path("/proc/%d/root" % pid)
        copy = re.search(r"attached (\S+);", done.out).group(1)
        assert re.fullmatch(r"/tmp/gputrace-0/lib-\w{16}/libgputrace.so", copy)
        assert (root / copy[1:]).read_bytes() == LIBRARY.read_bytes()
        word, err = finish(process)
    assert word["place"]["result"] == 1 and "%d kernels" % KERNELS in err
    shutil.rmtree(os.path.dirname(copy))
    os.unlink("/tmp/t.json")


def test_nowhere_to_put_it(gputrace, unshared):
    """Folders that are read-only or noexec, as hardened containers have: it is
    handed over in memory."""
    script = " && ".join("mount -t tmpfs -o %s none %s" % m for m in (
        ("noexec", "/tmp"), ("ro", "/var/tmp"), ("noexec", "/dev/shm")))
    with unshared(script, TMPDIR="/tmp") as (process, pid):
        done = gputrace("attach", pid, "-o", "/tmp/t.json")
        attached(done, pid)
        assert re.search(r"attached /proc/self/fd/\d+;", done.out)
        assert "already" in gputrace("attach", pid).out
        root = pathlib.Path("/proc/%d/root" % pid)
        assert not list(root.glob("tmp/gputrace-*/lib-*"))
        word, err = finish(process)
    assert word["place"]["result"] == 1 and "%d kernels" % KERNELS in err


# ---- Refused ----

def test_no_such_process(gputrace):
    refused(gputrace("attach", 2 ** 22 - 1), "no process")
    for arguments in ([], ["1", "2"], ["x"], ["-o"], ["--set", "A=b", "1"],
                      ["--set", "GPUTRACE_BUFFER=12Q", "1"]):
        assert gputrace("attach", *arguments).status == 2


def test_states(gputrace):
    with started(WAITS, "read") as process:
        settle(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        refused(gputrace("attach", process.pid), "kill -CONT")
        process.send_signal(signal.SIGCONT)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        refused(gputrace("attach", process.pid), "ended")


def test_without_cuda(gputrace):
    with started(sys.executable, "-c", "print('ready', flush=True); input()"
                 ) as process:
        refused(gputrace("attach", process.pid), "CUDA", "--force")
        done = gputrace("attach", process.pid, "--force")
        assert done.status == 0 and "waits for CUDA" in done.out
        finish(process, b"\n")


def test_another_tracer(gputrace):
    with started(BUILD / "host" / "killer", 10 ** 6, WAITS, "read") as outer:
        task = "/proc/%d/task/%d/children" % (outer.pid, outer.pid)
        pid = int(pathlib.Path(task).read_text())
        refused(gputrace("attach", pid), "traced by pid %d" % outer.pid)
        finish(outer)


@pytest.mark.parametrize("compiler,options,words", [
    ("cc", ["-static"], ["statically"]), ("musl-gcc", [], ["musl", "glibc"])])
def test_no_glibc(gputrace, tmp_path, compiler, options, words):
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text("#include <stdio.h>\nint main(void) { puts(\"ready\");"
                      " fflush(stdout); return getchar() != 'x'; }\n")
    if not shutil.which(compiler) or subprocess.run(
            [compiler, *options, "-o", program, source], check=False,
            capture_output=True).returncode:
        pytest.skip("no %s" % compiler)
    with started(program) as process:
        refused(gputrace("attach", process.pid, "--force"), *words)
        finish(process)


def test_of_another_user(gputrace, nobody):
    """Nobody may not look at root's; root may look at nobody's."""
    with started(WAITS, "read") as process:
        settle(process.pid)
        done = subprocess.run(
            [nobody / "gputrace", "attach", str(process.pid)],
            capture_output=True, text=True, check=False, **as_nobody(nobody))
        assert (done.returncode, done.stdout) == (3, "")
        for word in ("uid 0", "65534", "CAP_SYS_PTRACE",
                     "--cap-add=SYS_PTRACE", "shareProcessNamespace",
                     "kubectl debug"):
            assert word in done.stderr
        assert len(done.stderr.splitlines()) == 1
        finish(process)


FILTERED = """
import ctypes, sys
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
allow = ctypes.create_string_buffer(
    (6).to_bytes(2, "little") + bytes(2) + (0x7fff0000).to_bytes(4, "little"))
program = Program(1, ctypes.addressof(allow))
libc = ctypes.CDLL(None)
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
assert libc.prctl(38, 1, 0, 0, 0) == 0
for _ in range(2):
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_filter_of_its_own(gputrace):
    with started(sys.executable, "-c", FILTERED) as process:
        refused(gputrace("attach", process.pid), "seccomp", "--force",
                "seccompProfile")
        attached(gputrace("attach", process.pid, "--force"), process.pid)
        finish(process, b"\n")


def test_a_library_that_is_none(gputrace, tmp_path):
    """dlopen() says why; the program goes on."""
    text = tmp_path / "libgputrace.so"
    text.write_text("no library\n" * 100)
    with started(WAITS, "read") as process:
        settle(process.pid)
        refused(gputrace("attach", process.pid, "--library", text),
                "cannot load", str(text), "ELF")
        refused(gputrace("attach", process.pid, "--library",
                         BUILD / "sim" / "libcuda.so.1"), "another version")
        word, err = finish(process)
    assert (word["place"]["result"], err) == (1, "")


def test_no_thread_is_left(nobody):
    """pthread_create() fails in the borrowed thread."""
    def one_thread():
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    with started(nobody / "waits", "read", preexec_fn=one_thread,
                 **as_nobody(nobody)) as process:
        settle(process.pid)
        done = subprocess.run(
            [BUILD / "gputrace", "attach", str(process.pid)],
            capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert "pthread_create" in done.stderr and "as before" in done.stderr
        word, err = finish(process)
    assert (word["place"]["result"], err) == (1, "")


def test_undumpable(nobody):
    """A process that its own user may not trace."""
    script = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); " \
        "print('ready', flush=True); input()"
    python = shutil.which("python3", path="/usr/bin:/bin")
    if not python:
        pytest.skip("no python3 that nobody can run")
    with started(python, "-c", script, **as_nobody(nobody)) as process:
        done = subprocess.run(
            [nobody / "gputrace", "attach", str(process.pid)],
            capture_output=True, text=True, check=False, **as_nobody(nobody))
        assert done.returncode == 3 and "undumpable" in done.stderr
        finish(process, b"\n")
