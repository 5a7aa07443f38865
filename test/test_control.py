# SPDX-License-Identifier: MIT
"""The control socket and the commands that use it: start, stop, status,
capture, dump of a running process."""
import contextlib
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest
from control import Client, Server, starttime, threads, until
from tracing import (BUILD, LIBRARY, SANITIZED, Trace, environment, judge,
                     run)


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory):
    """One that sleeps, for all tests that leave it as it was."""
    with Server(tmp_path_factory.mktemp("server")) as server:
        server.client().close()
        yield server
        assert server.process.poll() is None


@pytest.fixture(autouse=True)
def asleep(request):
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        assert until(lambda: server.state() == "sleeping")


def new_file(path):
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)


def check(path):
    trace = Trace(path)
    assert not judge(path), judge(path)
    return trace


def command(*args, **options):
    return subprocess.Popen(
        [str(BUILD / "gputrace"), *map(str, args)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, **options)


# ---- The socket ----

def test_where_it_is(server):
    place, path = server.place.lstat(), server.path.lstat()
    assert stat.S_ISDIR(place.st_mode) and stat.S_IMODE(place.st_mode) == 0o700
    assert stat.S_ISSOCK(path.st_mode) and stat.S_IMODE(path.st_mode) == 0o600
    assert place.st_uid == path.st_uid == os.geteuid()


def test_status(server):
    word = server.ask("status")
    assert word["ok"] and word["pid"] == server.pid
    assert word["state"] == "sleeping" and word["start"] == "off"
    assert word["lost"] == 0 and word["version"]


def test_a_window_with_a_descriptor(server, tmp_path):
    """All that the reply counts is in the file, and nothing from before."""
    path = tmp_path / "own.json"
    fd = new_file(path)
    with server.client() as client:
        begun = client.ask("start fd=1", fd)
        os.close(fd)
        assert begun["ok"] and server.state() == "recording"
        assert until(lambda: server.ask("status")["kernels"] > 3)
        done = server.ask("stop")
        assert done["ok"] and done["window"] == begun["window"]
        assert client.ask("wait window=%d" % begun["window"]) == done
    trace = check(path)
    kernels = trace.slices("kernel")
    assert len(kernels) == done["kernels"] > 0
    assert done["bytes"] == path.stat().st_size
    base = trace.header["baseTimeNanoseconds"]
    assert all(base + k["end"] >= begun["started_ns"] for k in kernels)


def test_a_duration_and_a_path(server):
    name = server.folder / "a b%.json.gz"
    done = server.ask("start duration=100ms path=%s" %
                      str(name).replace("%", "%25").replace(" ", "%20"))
    assert done["ok"]
    done = server.ask("wait window=%d" % done["window"])
    assert done["path"] == str(name)
    trace = check(name)
    assert len(trace.slices("kernel")) == done["kernels"] > 0
    assert server.ask("start path=bare.json")["ok"]
    assert server.ask("stop")["path"] == str(server.folder / "bare.json")


def test_an_agreed_moment(server):
    at = time.time_ns() + 150_000_000
    begun = server.ask("start duration=20ms at=%d" % at)
    assert begun["ok"] and at <= begun["started_ns"] + 1000
    assert begun["started_ns"] < at + 10_000_000_000


def test_only_one_window(server):
    assert server.ask("start")["ok"]
    for line in ("start", "start duration=1s", "start path=other.json"):
        word = server.ask(line)
        assert word["code"] == "busy" and "gputrace stop" in word["error"]
    assert server.ask("stop")["ok"]
    assert server.ask("stop")["code"] == "idle"


def test_two_windows_at_one_moment(server, tmp_path):
    """One is whole, the other is told so; each descriptor is closed."""
    before = quiet(server)
    at = time.time_ns() + 100_000_000
    with server.client() as one, server.client() as two:
        for client, name in ((one, "one.json"), (two, "two.json")):
            fd = new_file(tmp_path / name)
            client.send(b"start fd=1 duration=50ms at=%d\n" % at, fd)
            os.close(fd)
        words = [one.receive(), two.receive()]
        assert sorted(w["ok"] for w in words) == [False, True], words
        won = words[1]["ok"]
        done = (two if won else one).ask("wait window=%d" %
                                         words[won]["window"])
        assert words[not won]["code"] == "busy"
    trace = check(tmp_path / ("two.json" if won else "one.json"))
    assert len(trace.slices("kernel")) == done["kernels"] > 0
    assert (tmp_path / ("one.json" if won else "two.json")).read_text() == ""
    assert until(lambda: fds(server) == before)


def test_who_goes_away(server, tmp_path):
    """Only a window that nobody can end any more is closed."""
    for line, stays in (("start fd=1", False), ("start", True),
                        ("start fd=1 duration=60s", True)):
        fd = new_file(tmp_path / "t.json")
        with server.client() as client:
            assert client.ask(line, *([fd] if "fd" in line else []))["ok"]
        os.close(fd)
        if stays:
            assert server.state() == "recording"
            assert server.ask("stop")["ok"]
        assert until(lambda: server.state() == "sleeping"), line


def test_who_goes_before_the_answer(server, tmp_path):
    for _ in range(5):
        with server.client() as client:
            fd = new_file(tmp_path / "t.json")
            client.send(b"start fd=1 duration=60s\n", fd)
            os.close(fd)
        time.sleep(0.02)
        assert until(lambda: server.state() == "sleeping")


def test_a_start_that_nobody_waits_for(server):
    before = server.ask("status")["windows"]
    with server.client() as client:
        client.send(b"start at=%d\n" % (time.time_ns() + 200_000_000))
    time.sleep(0.3)
    assert server.ask("status")["windows"] == before


# ---- What is refused ----

BAD = [
    ("begin", "unknown"), ("start now=1", "unknown"), ("", "unknown"),
    ("start duration=never", "bad-value"), ("start trace=gpu", "bad-value"),
    ("start at=%d" % (1 << 62), "bad-value"), ("wait", "bad-value"),
    ("wait window=4000", "bad-value"), ("start path=%zz", "bad-value"),
    ("start fd=1", "refused"), ("dump fd=1", "refused"),
    ("start path=/etc/gputrace-x", "refused"),
    ("start path=/", "refused"), ("start path=..", "refused"),
    ("start path=../x.json", "refused"), ("start path=sub/x", "refused"),
]


@pytest.mark.parametrize("line,code", BAD)
def test_refused(server, line, code):
    with server.client() as client:
        word = client.ask(line)
        assert not word["ok"] and word["code"] == code and word["error"]
        assert client.ask("status")["ok"]       # and goes on


SOURCES = ["cuda", "nvtx", "memory", "uvm", "osrt", "cpu", "nvml", "stacks",
           "cublas", "cudnn", "nccl", "torch"]


def test_all_sources_are_told(server):
    """By help and by a refusal, and each is taken."""
    for name in ("start", "capture", "record"):
        text, _ = command(name, "--help").communicate(timeout=20)
        words = text.split("what to record: ")[1].replace(",", "").split()
        assert words[:len(SOURCES)] == SOURCES
    with server.client() as client:
        word = client.ask("start trace=gpu")
        assert all(source in word["error"] for source in SOURCES)
        assert client.ask("start trace=%s" % ",".join(SOURCES))["ok"]
        assert client.ask("stop")["ok"]


def test_no_way_out_of_the_folder(server, tmp_path):
    (server.folder / "link").symlink_to(tmp_path)
    (server.folder / "file").symlink_to(tmp_path / "x.json")
    for name in ("link/x.json", "../%s/x.json" % tmp_path.name, "file",
                 "link"):
        word = server.ask("start path=%s/%s" % (server.folder, name))
        assert word["code"] == "refused", name
    assert not list(tmp_path.iterdir())


def test_descriptors_that_are_no_file(server, tmp_path):
    (tmp_path / "f").write_text("mine")
    opened = [os.open("/dev/null", os.O_RDWR), os.open(tmp_path, os.O_RDONLY),
              os.open(tmp_path / "f", os.O_RDONLY),
              os.open(tmp_path / "f", os.O_RDWR | os.O_APPEND),
              os.open(tmp_path / "f", os.O_PATH), *os.pipe()]
    before = quiet(server)
    for fd in opened:
        word = server.ask("start fd=1", fd)
        assert word["code"] == "refused", os.readlink("/proc/self/fd/%d" % fd)
    word = server.ask("status", opened[0])
    assert word["ok"]
    for fd in opened:
        os.close(fd)
    assert until(lambda: fds(server) == before)
    assert (tmp_path / "f").read_text() == "mine"


def descriptors(server):
    """What those of the socket's thread are; between the list and the look it
    closes some."""
    task, found = threads(server.pid).get("gputrace-socket"), []
    for fd in os.listdir(task / "fd") if task else ():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(task / "fd" / fd))
    return found


def fds(server):
    return len(descriptors(server))


def files(server):
    return " ".join(descriptors(server))


def quiet(server):
    """The same, when those who have just gone are gone."""
    counts = []
    for _ in range(15):
        counts.append(fds(server))
        time.sleep(0.01)
    return min(counts)


def test_more_than_one_descriptor(server):
    before = quiet(server)
    pair = os.pipe()
    for _ in range(5):
        with server.client() as client:
            client.send(b"start fd=1\n", *pair, *pair)
            assert client.receive() is None     # dropped
    for fd in pair:
        os.close(fd)
    assert until(lambda: fds(server) == before)


# ---- Clients that mean no good ----

def test_rubbish(server):
    for hello in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100 + b"\n",
                  b"gputrace 2\n", b"\n"):
        with Client(server.path, hello) as client:
            assert client.receive()["code"] == "unknown"
            assert client.receive() is None
    with server.client() as client:
        client.send(b"x" * 20000)
        assert client.receive()["code"] == "bad-value"


def test_half_a_line_and_a_half_closed_end(server):
    with server.client() as client:
        client.send(b"sta")
        time.sleep(0.05)
        client.send(b"tus\nstat")
        assert client.receive()["ok"]
        client.send(b"us\nstatus\n")
        client.socket.shutdown(1)
        assert client.receive()["ok"] and client.receive()["ok"]
        assert client.receive() is None


def test_a_flood_by_clients_that_do_not_read(server):
    """It is served slowly, then dropped; others are served beside it."""
    flood = [server.client() for _ in range(3)]
    before = memory(server)
    for client in flood:
        client.socket.setblocking(False)
        try:
            while True:
                client.send(b"status\n" * 1000)
        except BlockingIOError:
            pass
    for _ in range(5):
        assert server.state() == "sleeping"
    assert memory(server) < before + 2048
    for client in flood:
        client.close()


def memory(server):
    """In kB."""
    with open("/proc/%d/status" % server.pid, encoding="ascii") as file:
        return next(int(l.split()[1]) for l in file if l.startswith("VmRSS"))


def test_a_hundred_at_once(server):
    """The silent ones make room for the one that asks."""
    before = quiet(server)
    crowd = [until(lambda: attempt(server)) for _ in range(100)]
    assert server.state() == "sleeping"
    for client in crowd:
        client.close()
    assert until(lambda: fds(server) == before)


def attempt(server):
    try:
        return Client(server.path, b"")
    except BlockingIOError:
        return None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_stranger(server, tmp_path):
    """Neither through the folder, nor by a descriptor of the socket."""
    for folder in (server.tmp, *server.tmp.parents):
        if folder.stat().st_uid == os.geteuid() and folder.parent != folder:
            os.chmod(folder, 0o755)
    code = ("import socket; s = socket.socket(socket.AF_UNIX); "
            "s.connect('%s')")
    done = subprocess.run(["python3", "-c", code % server.path], user=12345,
                          capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr
    handle = os.open(server.path, os.O_PATH)
    os.chmod(server.path, 0o666)
    try:
        done = subprocess.run(
            ["python3", "-c", (code + "; print(s.recv(9999).decode())") %
             "/proc/self/fd/%d" % handle], user=12345, pass_fds=[handle],
            capture_output=True, text=True, check=False)
    finally:
        os.chmod(server.path, 0o600)
        os.close(handle)
    assert json.loads(done.stdout)["code"] == "refused", done.stderr


def test_an_output_that_cannot_be_written(tmp_path, gputrace):
    """It is over for GPUTRACE_OUT, not for whoever brings a file."""
    with Server(tmp_path, GPUTRACE_OUT=tmp_path / "none" / "t.json") as server:
        assert server.ask("start")["ok"]
        assert until(lambda: server.state() == "sleeping")
        again = server.ask("start")
        assert not again["ok"] and "of its own" in again["error"]
        for number in range(2):
            out = tmp_path / ("%d.json" % number)
            # Some flushes long: it is not ended by what ended the other.
            done = gputrace("capture", server.pid, "-d", "2.5s", "-o", out)
            assert done.status == 0, done.err
            kernels = check(out).slices("kernel")
            assert kernels[-1]["start"] - kernels[0]["start"] > 2 * 10 ** 9


# ---- Lives and places ----

def test_off(tmp_path):
    with Server(tmp_path, "--steps", 3, GPUTRACE_CONTROL="off",
                GPUTRACE_START="now") as server:
        assert server.process.wait(30) == 0
        assert not server.place.exists()


def test_it_goes_with_the_process(tmp_path):
    with Server(tmp_path, "--seconds", 1) as server:
        server.client().close()
        assert server.process.wait(30) == 0
        assert list(server.place.iterdir()) == []


def test_what_a_killed_one_leaves(tmp_path):
    """The next one of its user removes it, and nothing else."""
    with Server(tmp_path) as first, Server(tmp_path) as second:
        stale = first.path
        first.client().close()
        second.client().close()
        first.end()
        assert stale.exists()
        (first.place / "note").write_text("mine")
        with Server(tmp_path) as third:
            third.client().close()
            assert sorted(p.name for p in third.place.iterdir()) == sorted(
                [second.path.name, third.path.name, "note"])
            assert second.state() == "sleeping"


def test_a_folder_that_is_not_ours_alone(tmp_path):
    """One line, and the program is what it was."""
    with Server(tmp_path, "--steps", 3, GPUTRACE_LOG="info",
                GPUTRACE_START="now") as server:
        server.place.mkdir(exist_ok=True)
    before = list(server.place.iterdir())   # that of one which was killed
    server.place.chmod(0o777)
    done = run("decode", "--seconds", 0.3, GPUTRACE_LOG="info",
               TMPDIR=server.tmp, GPUTRACE_OUT=tmp_path / "t.json")
    assert done.status == 0 and done.out.startswith("steps ")
    assert len([l for l in done.err.splitlines()
                if "no control socket" in l]) == 1, done.err
    assert list(server.place.iterdir()) == before


@pytest.mark.parametrize("tmp", ["/nowhere/at/all", "/proc", "relative"])
def test_no_folder_for_it(tmp_path, tmp):
    done = run("decode", "--seconds", 0.3, GPUTRACE_LOG="info", TMPDIR=tmp,
               GPUTRACE_OUT=tmp_path / "t.json")
    said = [l for l in done.err.splitlines() if "control socket" in l]
    assert done.status == 0 and done.out.startswith("steps ")
    assert len(said) == 1 and ("no control" in said[0]) == (tmp[0] == "/")


def test_a_long_way_and_a_strict_umask(tmp_path, gputrace):
    """Longer than an address; and nothing is made for others, or not even
    for us."""
    tmp = tmp_path / ("d" * 100) / ("e" * 100)
    tmp.parent.mkdir()
    before = os.umask(0o777)
    try:
        os.umask(0o077)
        tmp.mkdir()
        os.umask(0o777)
        server = Server(tmp_path, tmp=tmp)
    finally:
        os.umask(before)
    with server:
        assert until(server.path.exists)
        assert stat.S_IMODE(server.place.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
        done = gputrace("status", server.pid, "-f", "csv")
        assert done.status == 0 and "sleeping" in done.out, done.err


CHILD = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
pid = os.fork()
if not pid:
    time.sleep(float(sys.argv[1]))
    sys.exit(0)
print(pid, flush=True)
os.waitpid(pid, 0)
print("gone", flush=True)
sys.stdin.readline()
if len(sys.argv) > 2:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], "0", ""])
"""


@pytest.mark.skipif(bool(SANITIZED), reason="Python under the sanitizer")
def test_a_child_and_a_second_life(tmp_path):
    """The child of a fork neither answers for its parent nor takes its socket
    away; a program that becomes itself again has a new one."""
    process = subprocess.Popen(
        ["python3", "-c", CHILD, "0.2", CHILD], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
        env=environment(GPUTRACE_START="off", TMPDIR=tmp_path))
    place = tmp_path / ("gputrace-%d" % os.geteuid())
    path = place / ("%d-%s.sock" % (process.pid, starttime(process.pid)))
    process.stdout.readline()
    assert until(path.exists)
    assert process.stdout.readline() == "gone\n"
    assert [p.name for p in place.iterdir()] == [path.name]
    first = path.stat().st_ctime_ns
    with until(lambda: attempt_path(path)) as client:
        assert client.ask("status")["pid"] == process.pid
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() and \
        process.stdout.readline() == "gone\n"
    assert until(lambda: path.exists() and path.stat().st_ctime_ns != first)
    with until(lambda: attempt_path(path)) as client:
        assert client.ask("status")["pid"] == process.pid
    process.kill()
    process.communicate()


def attempt_path(path):
    try:
        return Client(path)
    except (ConnectionRefusedError, FileNotFoundError):
        return None


ALLOW_ALL = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(code))), 0, 0):
    sys.exit(77)
"""

# Closes all descriptors, ours among them, and takes their numbers for sockets
# of its own.
REUSES = ALLOW_ALL + """
import socket, time
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
path, own = sys.argv[1:]
while not (os.path.isdir(path) and os.listdir(path)):
    time.sleep(0.01)
time.sleep(0.5)
os.closerange(3, 200)
listeners = []
for i in range(20):
    s = socket.socket(socket.AF_UNIX)
    s.bind("%s%d" % (own, i))
    s.listen()
    listeners.append(s)
print("ready", flush=True)
sys.stdin.readline()
for s in listeners:
    s.settimeout(5)
    s.accept()[0].sendall(b"mine")
"""


@pytest.mark.skipif(bool(SANITIZED), reason="Python under the sanitizer")
def test_a_program_that_takes_our_numbers(tmp_path):
    """Under a filter of system calls, as in most containers, the table of
    descriptors is the program's: its sockets stay its own."""
    place = tmp_path / ("gputrace-%d" % os.geteuid())
    process = subprocess.Popen(
        ["python3", "-c", REUSES, place, tmp_path / "own"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment(GPUTRACE_START="off", GPUTRACE_CONTROL="on",
                        TMPDIR=tmp_path))
    if process.stdout.readline() != "ready\n":
        assert process.wait() == 77
        pytest.skip("no seccomp filters")
    clients = []
    for i in range(20):
        clients.append(socket.socket(socket.AF_UNIX))
        clients[-1].connect("%s%d" % (tmp_path / "own", i))
    # Now it looks, and what has its number has somebody who waits.
    for path in place.iterdir():
        with Client(path, b"") as client:
            with pytest.raises(ConnectionResetError):
                client.receive()
    process.stdin.write("\n")
    process.stdin.flush()
    assert [c.recv(99) for c in clients] == [b"mine"] * 20
    assert process.wait(30) == 0
    process.communicate()


GIVES_UP_ROOT = """
import ctypes, os, pathlib, sys, time
assert not ctypes.CDLL("libcuda.so.1").cuInit(0)
while not list(pathlib.Path(sys.argv[1]).glob("gputrace-0/*.sock")):
    time.sleep(0.01)
os.setuid(12345)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(bool(SANITIZED) or os.geteuid() != 0,
                    reason="Python under the sanitizer, or not root")
def test_a_server_that_gave_up_root(tmp_path, gputrace):
    """Its socket stays with root's, where root finds it."""
    with subprocess.Popen(
            ["python3", "-c", GIVES_UP_ROOT, tmp_path], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment(GPUTRACE_START="off",
                            TMPDIR=tmp_path)) as process:
        assert process.stdout.readline() == "ready\n"
        done = gputrace("capture", process.pid, "-d", "50ms", "-o",
                        tmp_path / "c.json")
        process.stdin.close()
    assert done.status == 0, done.err
    assert not judge(tmp_path / "c.json"), judge(tmp_path / "c.json")


@pytest.mark.skipif(bool(SANITIZED), reason="Python under the sanitizer")
def test_in_a_sandbox(tmp_path, gputrace):
    """Under a filter that refuses nothing, which we cannot know: where a
    socket is asked for."""
    run_it = ALLOW_ALL + "os.execv(sys.argv[1], sys.argv[1:])"
    with Server(tmp_path, "-c", run_it, BUILD / "host" / "decode",
                "--seconds", 600, "--kernels", 4, "--sync-ms", 5,
                program=sys.executable, GPUTRACE_CONTROL="on") as server:
        server.client().close()
        done = gputrace("capture", server.pid, "-d", "50ms", "-o",
                        tmp_path / "c.json")
        assert done.status == 0, done.err
        assert check(tmp_path / "c.json").slices("kernel")


@pytest.mark.skipif(bool(SANITIZED), reason="Python under the sanitizer")
def test_no_socket_in_a_sandbox(tmp_path):
    """The program's own filter may end it at a call that it does not know."""
    run_it = ALLOW_ALL + "os.execv(sys.argv[1], sys.argv[1:])"
    with Server(tmp_path, "-c", run_it, BUILD / "host" / "decode", "--steps",
                5, program=sys.executable) as server:
        assert server.process.wait(30) == 0
        assert not server.place.exists()
        assert "no control socket: the program's own filter" in server.end()[1]


# ---- The commands ----

def test_start_and_stop(server, tmp_path, gputrace):
    done = gputrace("start", server.pid, "-o", "cmd-%p.json")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("%d: window " % server.pid)
    name = server.folder / ("cmd-%d.json" % server.pid)
    table = gputrace("status", server.pid, "--format", "json")
    row = json.loads(table.out)["processes"][0]
    assert (row["pid"], row["state"]) == (server.pid, "recording")
    assert until(lambda: server.ask("status")["kernels"] > 3)
    done = gputrace("stop", server.pid, "-o", tmp_path)
    assert (done.status, done.out) == (0, "%s//%s\n" % (tmp_path, name.name)) \
        or done.out == "%s/%s\n" % (tmp_path, name.name), done.err
    assert (tmp_path / name.name).read_bytes() == name.read_bytes()
    assert check(name).slices("kernel")
    done = gputrace("stop", server.pid)
    assert done.status == 3 and "no window is open" in done.err


def test_stop_into_its_own_folder(tmp_path, gputrace):
    """The file is there already; another in its place would end all."""
    with Server(tmp_path) as server:
        for _ in range(2):
            assert server.ask("start")["ok"]
            assert until(lambda: server.ask("status")["kernels"] > 3)
            done = gputrace("stop", server.pid, "-o", tmp_path)
            assert done.out in ("%s/t.json\n" % tmp_path,
                                "%s//t.json\n" % tmp_path), done.err
        done = gputrace("dump", server.pid, "-o", tmp_path / "t.json")
        assert done.status == 0, done.err
        assert server.ask("start")["ok"]
        err = server.end()[1]
    assert err == "" and check(tmp_path / "t.json").slices("kernel")


@pytest.mark.parametrize("name", ["c.json", "c.json.gz"])
def test_capture(server, tmp_path, gputrace, name):
    path = tmp_path / name
    done = gputrace("capture", server.pid, "-d", "100ms", "-o", path)
    assert (done.status, done.out) == (0, "%s\n" % path), done.err
    assert "\r" not in done.err
    trace = check(path)
    assert trace.slices("kernel") and trace.ranges("step")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_captures_of_a_busy_program(tmp_path, gputrace):
    """Threads that never rest: CUPTI has a buffer at any time, and a stop
    waits for those of its window alone, forcing nothing."""
    busy = ["--seconds", 600, "--threads", 12, "--kernels", 2,
            "--kernel-us", 2000, "--sync-ms", 1]
    with Server(tmp_path, *busy) as server:
        server.client().close()
        kernels = []    # a machine without time for it may launch none in 0.1 s
        for number in range(4):
            path = tmp_path / ("%d.json" % number)
            done = gputrace("capture", server.pid, "-d", "100ms", "-o", path)
            assert done.status == 0, done.err
            trace = check(path)
            kernels += trace.slices("kernel")
            assert "unfinished GPU work" not in trace.losses()
        assert kernels


def test_capture_into_a_link(server, tmp_path, gputrace):
    """The file that it names is written, the link stays."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("there/real.json")
    done = gputrace("capture", server.pid, "-d", "50ms", "-o", link)
    assert (done.status, done.out) == (0, "%s\n" % link), done.err
    assert link.is_symlink()
    assert check(tmp_path / "there" / "real.json").slices("kernel")


def test_capture_interrupted(server, tmp_path):
    path = tmp_path / "c.json"
    process = command("capture", server.pid, "-d", "60s", "-o", path)
    assert until(lambda: server.state() == "recording")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "%s\n" % path), err
    assert check(path)


def test_capture_of_a_process_that_is_killed(tmp_path):
    """Whenever that is: once it has written a trace, there is one."""
    path = tmp_path / "c.json"
    with Server(tmp_path, GPUTRACE_FLUSH="20ms") as server:
        server.client().close()
        process = command("capture", server.pid, "-d", "60s", "-o", path)
        assert until(lambda: server.ask("status")["kernels"] > 50)
        time.sleep(0.1)
        server.end()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "%s\n" % path), err
    assert "has ended" in err and "last write-out" in err
    assert check(path).slices("kernel")
    assert not list(tmp_path.glob(".c.json*"))


def killed_in_a_write(tmp_path, number, **settings):
    return Server(tmp_path, *settings.pop("args", ()), KILL_WRITE=number,
                  LD_PRELOAD="%s:%s" % (LIBRARY,
                                        BUILD / "shim" / "killwrite.so"),
                  **settings)


@pytest.mark.parametrize("name", ["c.json", "c.json.gz"])
def test_capture_of_a_process_that_is_killed_in_a_write(tmp_path, name):
    """The tail, its copy, its mark, the events: whichever is cut.  All that
    is in the file is whole; only the end is missing."""
    for number in range(150, 160):
        path = tmp_path / ("%d-%s" % (number, name))
        with killed_in_a_write(tmp_path, number,
                               GPUTRACE_FLUSH="10ms") as server:
            server.client().close()
            process = command("capture", server.pid, "-d", "60s", "-o", path)
            assert server.process.wait(60) == -signal.SIGKILL
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "%s\n" % path), err
        # Each is in the trace, and took seven writes.
        outs = [o for o in check(path).slices("overhead")
                if o["name"] == "gputrace write-out"]
        assert len(outs) >= number // 8, number


def test_capture_interrupted_twice(tmp_path):
    """The process does not answer: what it has written, and what it writes
    when it goes on is not in it."""
    path = tmp_path / "c.json"
    with Server(tmp_path, GPUTRACE_FLUSH="20ms") as server:
        server.client().close()
        process = command("capture", server.pid, "-d", "60s", "-o", path)
        assert until(lambda: server.ask("status")["kernels"] > 50)
        server.process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "%s\n" % path), err
        assert "interrupted" in err and "last write-out" in err
        size = path.stat().st_size
        server.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
    assert size == path.stat().st_size
    assert check(path).slices("kernel")


@pytest.mark.parametrize("name", ["d.json", "d.json.gz"])
def test_dump_of_a_process_that_is_killed_in_a_write(tmp_path, name):
    path = tmp_path / name
    with killed_in_a_write(tmp_path, 25, GPUTRACE_START="now",
                           GPUTRACE_RECORDER=60, args=(
            "--seconds", 600, "--kernels", 100, "--kernel-us", 5)) as server:
        assert until(lambda: server.ask("status")["kernels"] > 60000, 60)
        process = command("dump", server.pid, "-o", path)
        out, err = process.communicate(timeout=60)
        assert server.process.wait(30) == -signal.SIGKILL
    assert (process.returncode, out) == (3, "%s\n" % path), err
    assert "there is a part of it" in err
    assert len(check(path).slices("user_annotation")) > 1000


def test_capture_of_two(server, tmp_path, gputrace):
    """They begin at one moment; a name for both is refused."""
    with Server(tmp_path) as other:
        other.client().close()
        done = gputrace("capture", server.pid, other.pid, "-d", "100ms", "-o",
                        tmp_path / "two.json")
        assert done.status == 2 and "%p" in done.err
        done = gputrace("capture", server.pid, other.pid, "-d", "100ms", "-o",
                        tmp_path / "two-%p.json")
        assert done.status == 0, done.err
        begun = [s.ask("status")["opened_ns"] for s in (server, other)]
    assert abs(begun[0] - begun[1]) < 5_000_000_000
    for pid in (server.pid, other.pid):
        assert check(tmp_path / ("two-%d.json" % pid)).slices("kernel")


def test_a_descriptor_that_may_not_be_passed(tmp_path, gputrace):
    """Then by the process's folder, where nothing is left."""
    (tmp_path / "out").mkdir()
    with Server(tmp_path, GPUTRACE_OUT=tmp_path / "out" / "t.json",
                LD_PRELOAD="%s:%s" % (LIBRARY, BUILD / "shim" / "nofds.so")
                ) as server:
        server.client().close()
        for path in (tmp_path / "c.json", tmp_path / "c.json.gz"):
            done = gputrace("capture", server.pid, "-d", "50ms", "-o", path)
            assert (done.status, done.out) == (0, "%s\n" % path), done.err
            assert check(path).slices("kernel")
        assert list((tmp_path / "out").iterdir()) == []


def test_dump_of_the_recorder(tmp_path, gputrace):
    with Server(tmp_path, GPUTRACE_START="now",
                GPUTRACE_RECORDER=1) as server:
        assert until(lambda: server.ask("status")["kernels"] > 10)
        assert server.state() == "recorder"
        assert server.ask("start")["code"] == "busy"
        for path in (tmp_path / "d.json", tmp_path / "d.json.gz"):
            done = gputrace("dump", server.pid, "-o", path)
            assert (done.status, done.out) == (0, "%s\n" % path), done.err
            assert check(path).slices("kernel")
        link = tmp_path / "link.json"
        link.symlink_to("d.json")
        assert gputrace("dump", server.pid, "-o", link).status == 0
        assert link.is_symlink()
        done = gputrace("dump", server.pid)
        assert done.status == 0 and done.out.endswith(".json\n"), done.err
        assert check(done.out.strip()).slices("kernel")
        assert server.state() == "recorder"
        assert gputrace("stop", server.pid).status == 0


def test_dump_after_a_stop(tmp_path):
    """What the dump itself forgets is not missed: the file is whole."""
    with Server(tmp_path, "--seconds", 600, "--kernels", 50, "--kernel-us",
                20, "--sync-ms", 1, GPUTRACE_START="now",
                GPUTRACE_RECORDER=1) as server:
        assert until(lambda: server.ask("status")["kernels"] > 8000)
        assert server.ask("stop")["ok"]
        time.sleep(0.6)
        done = server.ask("dump path=d.json")
    assert done["kernels"] == len(check(tmp_path / "d.json").slices("kernel"))


@pytest.mark.parametrize("recorder,code", [({}, None), (
    {"GPUTRACE_RECORDER": 5}, "failed")])
def test_dumps_keep_no_descriptor(tmp_path, recorder, code):
    """Neither one that is not used, nor one that cannot be written."""
    fd = os.memfd_create("full", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    with Server(tmp_path, GPUTRACE_START="now", **recorder) as server:
        assert until(lambda: server.ask("status")["kernels"] > 10)
        for _ in range(3):
            assert server.ask("dump fd=1", fd).get("code") == code
        assert until(lambda: "/memfd:full" not in files(server))
    os.close(fd)


def test_dump_beside_a_capture(server, tmp_path, gputrace):
    """It is another's file: no empty one, and no empty path."""
    fd = new_file(tmp_path / "own.json")
    with server.client() as client:
        assert client.ask("start fd=1", fd)["ok"]
        os.close(fd)
        assert until(lambda: server.ask("status")["kernels"] > 3)
        for out in ((), ("-o", tmp_path / "d.json")):
            done = gputrace("dump", server.pid, *out)
            assert (done.status, done.out) == (3, ""), done.err
        assert server.ask("stop")["ok"]
    assert not (tmp_path / "d.json").exists()


def test_dump_of_a_program_that_hangs(tmp_path, gputrace):
    """What it hangs on is named, with its thread and range."""
    with Server(tmp_path, "--kernels", 3, "--sync-ms", 600000,
                GPUTRACE_START="now") as server:
        server.client().close()
        path = tmp_path / "d.json"

        def hung():
            done = gputrace("dump", server.pid, "-o", path)
            return "launch never finished" in done.err and \
                Trace(path).slices("kernel") and done
        done = until(hung)
        assert done, server.end()
        assert (done.status, done.out) == (0, "%s\n" % path), done.err
        assert "1 launch never finished" in done.err
        line = done.err.splitlines()[-1]
        assert "thread decode" in line and "range " in line and \
            "stream " in line


def test_commands_that_cannot(server, tmp_path, gputrace):
    cases = [
        (("capture", server.pid, "-o", "/nowhere/x.json"), 3, "/nowhere"),
        (("capture", server.pid, "-o", tmp_path), 3, "not a file"),
        (("capture", server.pid, "-o", "/dev/null"), 3, "not a file"),
        (("capture", server.pid, "-o", ""), 3, "not a file"),
        (("capture", server.pid, "-d", "long"), 2, "long"),
        (("capture",), 2, "PID"), (("start", "x"), 2, "x"),
        (("start", server.pid, "--at", "soon"), 2, "soon"),
        (("start", server.pid, "-t", "gpu"), 2, "'gpu' is none of"),
        (("capture", server.pid, "-t", "gpu"), 2, "'gpu' is none of"),
        (("capture", server.pid, "--all"), 2, "only one of"),
        (("start", server.pid, "--all"), 2, "PID"),
        (("stop", os.getpid()), 3, "%d" % os.getpid()),
        (("status", 4194304), 3, "4194304"),
        (("status", "--match", "no-such-program-*"), 3, "gputrace ps"),
    ]
    for args, status, what in cases:
        done = gputrace(*args)
        assert (done.status, what in done.err) == (status, True), \
            (args, done.status, done.err)
        assert done.out == "" or args[0] == "status"
    assert not [p for p in tmp_path.iterdir()]


@pytest.mark.skipif(bool(SANITIZED), reason="the sanitizer's own calls")
@pytest.mark.parametrize("step", ["BIND", "LISTEN"])
def test_one_that_has_just_begun(tmp_path, gputrace, step):
    """It has no socket yet, or one at which nobody listens: it is waited
    for, and who has none for good is told so."""
    shim = "%s:%s" % (BUILD / "shim" / "slow.so", LIBRARY)
    for ms, status in ((700, 0), (60000, 3)):
        with Server(tmp_path, LD_PRELOAD=shim,
                    **{"SHIM_%s_MS" % step: ms}) as server:
            assert until(lambda: "gputrace-socket" in threads(server.pid))
            assert step == "BIND" or until(server.path.exists)
            begun = time.monotonic()
            done = gputrace("status", server.pid)
            assert done.status == status, done.err
            assert time.monotonic() - begun < 10
            assert status == 0 or "socket" in done.err


def test_without_a_socket(tmp_path, gputrace):
    with Server(tmp_path, GPUTRACE_CONTROL="off") as server:
        assert until(lambda: "libcuda" in open(
            "/proc/%d/maps" % server.pid, encoding="utf-8").read())
        done = gputrace("start", server.pid)
        assert done.status == 3
