# SPDX-License-Identifier: MIT
"""A program in namespaces of its own, made here as a container runtime makes
them: PID 1 with a root, a /proc and a /tmp of its own, by root and by an
ordinary user; and the command outside.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from tracing import BUILD, LIBRARY, Trace, environment, judge

USER, STRANGER = 12345, 12346

# $1: folder for the root; $2: what is mounted at /opt; $3, $4: options of the
# root's and of /tmp's mount; then the program, which becomes PID 1.
ENTER = r"""
set -e
root=$1 opt=$2 root_options=$3 tmp_options=$4; shift 4
mount -t tmpfs none "$root"; cd "$root"
mkdir usr proc dev tmp out opt old
mount --rbind /usr usr
for folder in bin lib lib64 sbin; do
	if [ -L /$folder ]; then
		ln -s "$(readlink /$folder)" $folder
	elif [ -d /$folder ]; then
		mkdir $folder; mount --rbind /$folder $folder
	fi
done
: > dev/null
mount --bind /dev/null dev/null
mount --bind "$opt" opt
mount -t proc proc proc
mount -t tmpfs none out
mount -t tmpfs -o "$tmp_options" none tmp
mount -o "remount,bind,$root_options" "$root"
pivot_root . old
cd /
umount -l /old
exec "$@"
"""


def ordinary(uid):
    """For subprocess: as that user, and as nobody else."""
    return {"user": uid, "group": uid, "extra_groups": []} \
        if os.geteuid() == 0 else {}


def unshare(uid):
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    return command if uid == 0 else [*command, "--user", "--map-root-user"]


def why_not(uid):
    """Why such namespaces cannot be had here; None if they can."""
    if os.geteuid() and uid == 0:
        return "not root"
    try:
        done = subprocess.run(
            [*unshare(uid), "mount", "-t", "proc", "proc", "/proc"],
            capture_output=True, text=True, check=False, cwd="/",
            **(ordinary(uid) if uid else {}))
    except OSError as error:
        return str(error)
    return done.stderr.strip() or None if done.returncode else None


@pytest.fixture(scope="session", name="opt")
def fixture_opt():
    """What is needed, in a folder that everybody may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        opt = pathlib.Path(folder)
        opt.chmod(0o755)
        for path in (LIBRARY, BUILD / "gputrace", BUILD / "host" / "decode",
                     *(BUILD / "sim").glob("lib*.so*")):
            shutil.copy(path, opt)
        yield opt


class Container:
    """A running one; .pid is that of its PID 1 here."""

    def __init__(self, opt, uid, folder, root_options="rw", tmp_options="rw",
                 traced=True, **settings):
        program = ("/opt/decode", "--seconds", "120", "--kernels", "4",
                   "--sync-ms", "2")
        preload = ("env", "LD_PRELOAD=/opt/libgputrace.so") if traced else ()
        settings = {"GPUTRACE_START": "off", "GPUTRACE_OUT": "/out/%p.json",
                    "LD_LIBRARY_PATH": "/opt", **settings}
        env = {k: v for k, v in environment(False, **settings).items()
               if k != "TMPDIR" or "TMPDIR" in settings}
        self.uid, self.opt, self.folder = uid, opt, folder
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.outer = subprocess.Popen(
                [*unshare(uid), "sh", "-c", ENTER, "sh", str(folder / "root"),
                 str(opt),
                 root_options, tmp_options, *preload, *program], env=env,
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                **(ordinary(uid) if uid else {}))
        self.pid = self.first()

    def first(self):
        """Its PID 1, once that is the program."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.outer.poll() is None:
            for path in pathlib.Path("/proc").glob("[1-9]*"):
                try:
                    stat = (path / "stat").read_text()
                    words = (path / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                parent = int(stat.rsplit(")", 1)[1].split()[1])
                if parent == self.outer.pid and words[0].startswith(b"/opt"):
                    return int(path.name)
            time.sleep(0.02)
        raise AssertionError(self.said())

    def said(self):
        return self.log.read_text(errors="replace")

    def command(self, *args, uid=None, timeout=60):
        """gputrace outside, as the container's user unless told."""
        uid = self.uid if uid is None else uid
        return subprocess.run(
            [str(self.opt / "gputrace"), *map(str, args)], cwd="/",
            capture_output=True, text=True, check=False, timeout=timeout,
            **(ordinary(uid) if uid else {}))

    def row(self, uid=None):
        done = self.command("ps", "--format", "json", uid=uid)
        assert done.returncode == 0, done.stderr
        rows = {r["pid"]: r for r in json.loads(done.stdout)["processes"]}
        return rows.get(self.pid)

    def wait_for(self, state, reach=None):
        """Its row once it has that state, or has not for 20 s."""
        deadline, row = time.monotonic() + 20, None
        while time.monotonic() < deadline:
            row = self.row()
            if row and row["state"] == state and \
                    reach in (None, row["reach"]):
                break
            time.sleep(0.02)
        assert row and row["state"] == state, (row, self.said())
        assert reach in (None, row["reach"]), (row, self.said())
        return row

    def inside(self, path):
        """A path of the container, for us."""
        return pathlib.Path("/proc/%d/root%s" % (self.pid, path))

    def end(self):
        self.outer.kill()
        self.outer.wait()


@pytest.fixture(name="contain")
def fixture_contain(opt):
    """Starts containers that end with the test."""
    running, folders = [], []

    def begin(uid, **options):
        reason = why_not(uid)
        if reason:
            pytest.skip("no namespaces: " + reason)
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        folders.append(folder)
        path = pathlib.Path(folder.name)
        (path / "root").mkdir()
        if uid and os.geteuid() == 0:
            os.chown(path, uid, uid)
            os.chown(path / "root", uid, uid)
        running.append(Container(opt, uid, path, **options))
        return running[-1]

    yield begin
    for container in running:
        container.end()
    for folder in folders:
        folder.cleanup()


both = pytest.mark.parametrize("uid", [0, os.geteuid() or USER],
                               ids=["root", "user"])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root")


# ---- ps ----

@both
def test_both_pids(contain, uid):
    """Seen from outside by its user, and by root."""
    c = contain(uid)
    row = c.wait_for("sleeping")
    assert c.pid != 1 and row["inner_pid"] == 1
    assert (row["uid"], row["inner_uid"]) == (uid, 0)
    assert row["program"] == "decode"
    assert row["command"].startswith("/opt/decode --seconds 120")
    assert not row["container"]         # nobody gave it an id
    if os.geteuid() == 0:
        assert c.row(uid=0) == row


@as_root
@both
def test_a_stranger_sees_nothing(contain, uid):
    c = contain(uid)
    c.wait_for("sleeping")
    assert c.row(uid=STRANGER) is None
    done = c.command("ps", c.pid, uid=STRANGER)
    assert done.returncode == 3 and "uid %d" % uid in done.stderr


def test_without_the_library(contain):
    """It can be reached by attaching."""
    row = contain(os.geteuid(), traced=False).wait_for("untraced", "attach")
    assert row["inner_pid"] == 1


ROOTS = {"a read-only root": {"root_options": "ro"},
         "a noexec /tmp": {"tmp_options": "rw,noexec,nosuid,nodev"},
         "nothing to write to": {"root_options": "ro", "tmp_options": "ro"}}


@pytest.mark.parametrize("options", ROOTS.values(), ids=ROOTS.keys())
def test_roots(contain, options):
    """The program runs in each, and is seen."""
    c = contain(os.geteuid(), **options)
    row = c.wait_for("sleeping")
    if options.get("tmp_options") == "ro":
        assert "/tmp is read-only" in row["why"]
        assert (row["reach"], row["socket"]) == ("no", "")


# ---- Through the socket ----

@pytest.fixture
def capture(gputrace):
    if "\n  capture " not in gputrace("--help").out:
        pytest.skip("the command does not know the verb")


def captured(container, uid=None, **options):
    """A capture of half a second: the trace, which is whole."""
    path = container.folder / "t.json"
    done = container.command("capture", container.pid, "-d", "0.5s", "-o",
                             path, uid=uid, **options)
    assert done.returncode == 0, done.stderr + container.said()
    assert str(path) in done.stdout.split()
    trace = Trace(path)
    assert trace.slices("kernel") and trace.ranges("step")
    assert not judge(path), judge(path)
    return trace


@pytest.mark.usefixtures("capture")
@both
def test_capture(contain, uid):
    """The trace comes out, nothing stays inside, the program sleeps on."""
    c = contain(uid)
    before = c.wait_for("sleeping", "socket")
    captured(c)
    assert (c.folder / "t.json").stat().st_uid == uid
    assert c.wait_for("sleeping", "socket") == before
    assert not list(c.inside("/out").iterdir())
    captured(c)
    assert c.outer.poll() is None


@pytest.mark.usefixtures("capture")
@as_root
def test_root_captures_a_users(contain):
    """Root has no number in the user's namespace, and enters it."""
    c = contain(USER)
    c.wait_for("sleeping", "socket")
    captured(c, uid=0)


@pytest.mark.usefixtures("capture")
@pytest.mark.parametrize("options", [
    ROOTS["a read-only root"], ROOTS["a noexec /tmp"],
    {**ROOTS["nothing to write to"], "TMPDIR": "/out"}],
    ids=["a read-only root", "a noexec /tmp", "TMPDIR"])
def test_capture_in_roots(contain, options):
    c = contain(os.geteuid(), **options)
    row = c.wait_for("sleeping", "socket")
    assert row["socket"].startswith("/proc/%d/root%s/gputrace-0/1-" % (
        c.pid, options.get("TMPDIR", "/tmp")))
    captured(c)


@pytest.mark.usefixtures("capture")
def test_nothing_to_write_to(contain):
    """No socket: the log says it, the program goes on, the command says
    why."""
    c = contain(os.geteuid(), **ROOTS["nothing to write to"],
                GPUTRACE_LOG="info")
    c.wait_for("sleeping", "no")
    [line] = [l for l in c.said().splitlines() if "socket" in l]
    assert "/tmp/gputrace-0" in line and "read-only" in line.lower()
    done = c.command("capture", c.pid, "-d", "0.1s", "-o",
                     c.folder / "t.json")
    assert done.returncode == 3 and "read-only" in done.stderr
    assert not (c.folder / "t.json").exists()
    assert c.outer.poll() is None


@pytest.mark.usefixtures("capture")
@both
def test_start_and_stop(contain, uid):
    """The file of a window without a name of its own stays inside."""
    c = contain(uid)
    c.wait_for("sleeping", "socket")
    assert c.command("start", c.pid).returncode == 0
    c.wait_for("recording", "socket")
    time.sleep(0.2)
    done = c.command("stop", c.pid)
    assert done.returncode == 0, done.stderr
    c.wait_for("sleeping", "socket")
    [path] = c.inside("/out").iterdir()
    assert Trace(path).slices("kernel") and not judge(path)


# A client in the container's root, as a user of its own: connects, says the
# lines that come, prints what it gets.
CLIENT = """
import os, socket, sys
root, path, uid = sys.argv[1:4]
os.chroot(root)
os.setgroups([])
os.setresgid(int(uid), int(uid), int(uid))
os.setresuid(int(uid), int(uid), int(uid))
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
try:
    s.connect(path)
    s.sendall(sys.stdin.buffer.read())
    s.shutdown(socket.SHUT_WR)
    while data := s.recv(65536):
        print(data.decode())
except (PermissionError, BrokenPipeError, ConnectionResetError) as error:
    print(type(error).__name__)
"""


def say(container, uid, *lines):
    row = container.row(uid=0)
    root = "/proc/%d/root" % container.pid
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, root, row["socket"][len(root):],
         str(uid)], input="".join(l + "\n" for l in lines), text=True,
        capture_output=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.usefixtures("capture")
@as_root
@both
def test_a_stranger_gets_nothing(contain, uid):
    """Neither through the folder, nor where somebody has opened it, nor by
    the command."""
    c = contain(uid)
    socket_path = pathlib.Path(c.wait_for("sleeping", "socket")["socket"])
    lines = ["gputrace 1", "status", "start path=/out/x.json", "dump"]
    assert '"ok":true' in say(c, uid, *lines[:2])
    assert say(c, STRANGER, *lines).strip() == "PermissionError"
    socket_path.chmod(0o666)
    socket_path.parent.chmod(0o755)
    answer = say(c, STRANGER, *lines)
    assert "PermissionError" not in answer and '"ok":true' not in answer
    done = c.command("capture", c.pid, "-d", "0.1s", "-o", "/tmp/stranger",
                     uid=STRANGER)
    assert done.returncode == 3 and not os.path.exists("/tmp/stranger")
    assert c.row()["state"] == "sleeping"
    assert not list(c.inside("/out").iterdir())
