# SPDX-License-Identifier: MIT
"""A program in namespaces of its own, made here as a container runtime makes
them: PID 1 with a root, a /proc and a /tmp of its own, by root and by an
ordinary user; and the command outside.
"""
import fcntl
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from tracing import (BUILD, LIBRARY, ROOT, SANITIZED, Trace, environment,
                     judge)

USER, STRANGER = 12345, 12346

# $1: folder for the root; $2: what is mounted at /opt; $3, $4: options of the
# root's and of /tmp's mount; $5: where the system is taken from; then the
# program, which becomes PID 1.
ENTER = r"""
set -e
root=$1 opt=$2 root_options=$3 tmp_options=$4 system=$5; shift 5
mount -t tmpfs none "$root"; cd "$root"
mkdir proc dev tmp out opt old
for folder in usr bin lib lib64 sbin; do
	if [ -L "$system/$folder" ]; then
		ln -s "$(readlink "$system/$folder")" $folder
	elif [ -d "$system/$folder" ]; then
		mkdir $folder; mount --rbind "$system/$folder" $folder
	fi
done
: > dev/null
mount --bind /dev/null dev/null
mount --bind "$opt" opt
mount -t proc proc proc
mount -t tmpfs none out
mount -t tmpfs -o "$tmp_options" none tmp
mount -o "remount,bind,$root_options" "$root"
[ -z "$system" ] || exec chroot . "$@"
pivot_root . old
cd /
umount -l /old
exec "$@"
"""


def ordinary(uid):
    """For subprocess: as that user, and as nobody else."""
    return {"user": uid, "group": uid, "extra_groups": []} \
        if os.geteuid() == 0 else {}


def entered(uid, opt, folder, *program, root_options="rw",
            tmp_options="rw", system=""):
    """The command that runs a program in namespaces."""
    return [*unshare(uid), "sh", "-c", ENTER, "sh", str(folder / "root"),
            str(opt), root_options, tmp_options, str(system), *program]


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
                     ROOT / "test" / "tsan.supp",
                     *(BUILD / "sim").glob("lib*.so*")):
            shutil.copy(path, opt)
        yield opt


def inside(name, value):
    """A sanitizer's options name files that are not in there: what it finds
    goes to stderr."""
    if name not in ("ASAN_OPTIONS", "TSAN_OPTIONS"):
        return value
    words = [w for w in value.split(":")
             if not w.startswith(("log_path=", "suppressions="))]
    return ":".join(words + ["suppressions=/opt/tsan.supp"] *
                    (name == "TSAN_OPTIONS"))


PRELOADED = ("/bin/sh", "-c", 'LD_PRELOAD=/opt/libgputrace.so exec "$@"',
             "sh")


class Container:
    """A running one; .pid is that of its PID 1 here."""

    def __init__(self, opt, uid, folder, traced=True, system="",
                 root_options="rw", tmp_options="rw", **settings):
        program = ("/opt/decode", "--seconds", "120", "--kernels", "4",
                   "--sync-ms", "2")
        if traced:
            program = PRELOADED + program
        settings = {"GPUTRACE_START": "off", "GPUTRACE_OUT": "/out/%p.json",
                    "LD_LIBRARY_PATH": "/opt", **settings}
        env = {k: inside(k, v)
               for k, v in environment(False, **settings).items()
               if k != "TMPDIR" or "TMPDIR" in settings}
        self.uid, self.opt, self.folder = uid, opt, folder
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.outer = subprocess.Popen(
                entered(uid, opt, folder, *program, system=system,
                        root_options=root_options, tmp_options=tmp_options),
                env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, **(ordinary(uid) if uid else {}))
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
        assert "Sanitizer" not in self.said(), self.said()


@pytest.fixture(name="place")
def fixture_place():
    """Makes folders for containers of a user."""
    folders = []

    def make(uid):
        reason = why_not(uid)
        if reason:
            pytest.skip("no namespaces: " + reason)
        folders.append(tempfile.TemporaryDirectory(dir="/tmp"))
        path = pathlib.Path(folders[-1].name)
        (path / "root").mkdir()
        if uid and os.geteuid() == 0:
            os.chown(path, uid, uid)
            os.chown(path / "root", uid, uid)
        return path

    yield make
    for folder in folders:
        folder.cleanup()


@pytest.fixture(name="contain")
def fixture_contain(opt, place):
    """Starts containers that end with the test."""
    running = []

    def begin(uid, **options):
        running.append(Container(opt, uid, place(uid), **options))
        return running[-1]

    yield begin
    for container in running:
        container.end()


both = pytest.mark.parametrize("uid", [0, os.geteuid() or USER],
                               ids=["root", "user"])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root")


# ---- ps ----

@both
def test_both_pids(contain, uid):
    """Seen from outside by its user, and by root."""
    c = contain(uid)
    row = c.wait_for("sleeping", "socket")
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


# ---- Another C library inside ----

def apt(folder, *words):
    """apt-get with lists of its own in that folder; why not, or None."""
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    options = {"Dir::Etc::SourceList": folder / "sources.list",
               "Dir::Etc::SourceParts": folder / "none",
               "Dir::State::Lists": folder / "lists",
               "Dir::State::status": "/dev/null",
               "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "",
               "Acquire::Languages": "none", "APT::Sandbox::User": "root"}
    try:
        done = subprocess.run(
            ["apt-get", "-qq", *words, *("-o%s=%s" % pair
                                         for pair in options.items())],
            cwd=folder, capture_output=True, text=True, timeout=60,
            check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() if done.returncode else None


def mirror():
    """Where this machine has its packages from."""
    try:
        done = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)",
             "Created-By: Packages", "Component: main"], check=False,
            capture_output=True, text=True)
    except OSError:
        return None
    return next((l for l in done.stdout.splitlines()
                 if l.rstrip("/").endswith("/debian")), None)


def fetch(folder, release, packages):
    """The folder with what is in them, or why not."""
    if (folder / "root").is_dir():
        return folder / "root"
    if not mirror():
        return "no Debian, or none of its mirrors"
    (folder / "sources.list").write_text("deb %s %s main\n" % (mirror(),
                                                              release))
    reason = apt(folder, "update") or apt(folder, "download", *packages)
    if reason:
        return reason
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder / "new"],
                       check=True)
    for name in ("bin", "lib", "lib64"):    # links of another package
        if not (folder / "new" / name).exists():
            (folder / "new" / name).symlink_to("usr/" + name)
    if not (folder / "new" / "bin" / "sh").exists():
        (folder / "new" / "bin" / "sh").symlink_to("dash")
    shutil.rmtree(folder / "lists")
    return (folder / "new").rename(folder / "root")


@functools.cache
def fetched(release, *packages):
    """Packages of a release of Debian, unpacked, once, whoever else of the
    tests wants them at this moment."""
    folder = ROOT / "build" / "debian" / release
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch(folder, release, packages)


def debian(release, *packages):
    found = fetched(release, *packages)
    if isinstance(found, str):
        pytest.skip("no packages of %s: %s" % (release, found))
    return found


NEWER, OLDER = "trixie", "bullseye"     # glibc 2.41, 2.31
own_libc = pytest.mark.skipif(bool(SANITIZED), reason="the sanitizer needs "
                              "the C library that it was built with")


@own_libc
def test_a_newer_libc(contain):
    """All works in a root with no library of this machine's."""
    system = debian(NEWER, "libc6", "dash", "musl")
    c = contain(os.geteuid(), system=system, GPUTRACE_START="now",
                GPUTRACE_FLUSH="100ms")
    c.wait_for("recording")
    path, deadline = c.inside("/out/1.json"), time.monotonic() + 20
    while not (path.exists() and Trace(path).slices("kernel")):
        assert time.monotonic() < deadline, c.said()
        time.sleep(0.05)
    [libc] = system.glob("usr/lib/*/libc.so.6")
    maps = pathlib.Path("/proc/%d/maps" % c.pid).read_text()
    assert " %d " % libc.stat().st_ino in maps
    shutil.copy(path, c.folder / "t.json")
    assert not judge(c.folder / "t.json")


@own_libc
def test_an_older_libc(opt, place):
    """The library finds all its symbols there: silence."""
    folder = place(os.geteuid())
    done = subprocess.run(
        entered(os.geteuid(), opt, folder, *PRELOADED, "/bin/sh", "-c",
                "while read l; do echo $l; done < /proc/self/maps; exit 7",
                system=debian(OLDER, "libc6", "dash")),
        env={"PATH": os.environ["PATH"], "LD_BIND_NOW": "1"}, cwd="/",
        capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    assert "/opt/libgputrace.so" in done.stdout
    assert "libc-2.31.so" in done.stdout


# Functions of musl's, which needs no start files.
MUSL = """
int puts(const char *), fflush(void *), fork(void), waitpid(int, int *, int);
void _exit(int);
void _start(void)
{
	int status = 0, child = fork();

	if (!child)
		_exit(3);
	waitpid(child, &status, 0);
	puts(status == 3 << 8 ? "hello" : "no child");
	fflush(0);
	_exit(7);
}
"""


@own_libc
def test_musl(tmp_path):
    """Its loader takes LD_PRELOAD and passes for libc.so.6: the program runs,
    nothing is said."""
    root = debian(NEWER, "libc6", "dash", "musl")
    [libc] = root.glob("usr/lib/*-linux-musl/libc.so")
    (tmp_path / "musl.c").write_text(MUSL)
    subprocess.run(
        [os.environ.get("CC", "cc"), "-nostdlib", "-fno-builtin", "-fPIE",
         "-fno-stack-protector", "-pie", "-w", "-o", "musl", "musl.c",
         "-Wl,--dynamic-linker=" + str(libc), str(libc)], check=True,
        cwd=tmp_path)
    done = subprocess.run(
        [tmp_path / "musl"], env=environment(), capture_output=True,
        text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello\n", "")


# ---- Through the socket ----

def captured(container, uid=None, **options):
    """A short capture: the trace, which is whole."""
    path = container.folder / "t.json"
    done = container.command("capture", container.pid, "-d", "200ms", "-o",
                             path, uid=uid, **options)
    assert done.returncode == 0, done.stderr + container.said()
    assert str(path) in done.stdout.split()
    trace = Trace(path)
    assert trace.slices("kernel") and trace.ranges("step")
    assert not judge(path), judge(path)
    return trace


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


@as_root
def test_root_captures_a_users(contain):
    """Root has no number in the user's namespace, and enters it."""
    c = contain(USER)
    c.wait_for("sleeping", "socket")
    captured(c, uid=0)


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


def test_nothing_to_write_to(contain):
    """No socket: the log says it, the program goes on, the command says
    why."""
    c = contain(os.geteuid(), **ROOTS["nothing to write to"],
                GPUTRACE_LOG="info")
    c.wait_for("sleeping", "no")
    deadline = time.monotonic() + 20
    while "socket" not in c.said() and time.monotonic() < deadline:
        time.sleep(0.02)
    [line] = [l for l in c.said().splitlines() if "socket" in l]
    assert "/tmp/gputrace-0: read-only" in line
    done = c.command("capture", c.pid, "-d", "0.1s", "-o",
                     c.folder / "t.json")
    assert done.returncode == 3 and "read-only" in done.stderr
    assert not (c.folder / "t.json").exists()
    assert c.outer.poll() is None


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
    [path] = c.inside("/out").glob("*.json")
    assert Trace(path).slices("kernel") and not judge(path)


@pytest.mark.skipif(bool(SANITIZED), reason="a sanitizer is not brought into "
                    "a process late")
@both
def test_attach_and_capture(contain, uid):
    """The library comes into a container that does not have it."""
    c = contain(uid, traced=False)
    c.wait_for("untraced", "attach")
    done = c.command("attach", c.pid)
    assert done.returncode == 0, done.stderr
    c.wait_for("sleeping", "socket")
    captured(c)


@own_libc
def test_attach_to_a_newer_libc(contain):
    c = contain(os.geteuid(), traced=False,
                system=debian(NEWER, "libc6", "dash", "musl"))
    c.wait_for("untraced", "attach")
    done = c.command("attach", c.pid)
    assert done.returncode == 0, done.stderr
    c.wait_for("sleeping", "socket")
    captured(c)


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
