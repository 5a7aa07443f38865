# SPDX-License-Identifier: MIT
"""gputrace ps: on machines made of files (--root), and on real processes of
the simulated GPU.

Paths of control groups and mounts are as the runtimes make them: Docker
(daemon/oci_linux.go), containerd's CRI and nerdctl, CRI-O
(internal/config/cgmgr), Podman (libpod/container_internal_linux.go), kubelet
(pkg/kubelet/cm).
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from test_doctor import Machine
from tracing import BUILD, SANITIZED, start

ID = "4c01db0b339c7a2c35e6a4e7fbd9c2a6ae9cb4d9e5ee2d1d3fca3b8a4a7d1e2f"
OUTER = "9f" * 32
POD = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
POD_ = POD.replace("-", "_")
STATIC = "d41d8cd98f00b204e9800998ecf8427e"     # a static pod's: a hash
SLICE = "/kubepods.slice/kubepods-besteffort.slice/" \
    "kubepods-besteffort-pod%s.slice/" % POD_
OURS, CUDA = "/opt/libgputrace.so", "/usr/lib/libcuda.so.580.159.04"
WRITER = ("prog", "gputrace-flush", "gputrace-writer")


def put_process(machine, pid=1234, cgroup="0::/user.slice\n", mountinfo="",
                started=777, name="prog", uid=1000, uid_map="0 0 4294967295",
                command=("python", "serve.py"), **more):
    more.setdefault("maps", [OURS, CUDA])
    machine.process(pid, **more)
    proc = "proc/%d/" % pid
    status = (machine.root / proc / "status").read_text()
    machine.put(proc + "status", status.replace("\t1000" * 4,
                                                ("\t%d" % uid) * 4))
    machine.put(proc + "cgroup", cgroup)
    machine.put(proc + "mountinfo", mountinfo)
    machine.put(proc + "uid_map", uid_map + "\n")
    machine.put(proc + "cmdline", "".join(w + "\0" for w in command))
    # proc(5): field 22 is the start time
    machine.put(proc + "stat", "%d (%s) S %s %d 0 0\n" % (
        pid, name, " ".join("0" for _ in range(18)), started))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "root")


@pytest.fixture
def ps(gputrace):
    """What ps says: {pid: row}."""
    def run(*args):
        done = gputrace("ps", "--format", "json", *args)
        assert done.status == 0 and not done.err, done.err
        document = json.loads(done.out)
        assert document["schema"] == 1
        rows = {row["pid"]: row for row in document["processes"]}
        assert len(rows) == len(document["processes"])
        assert list(rows) == sorted(rows) or args
        return rows
    return run


@pytest.fixture
def one(ps, machine):
    """The row of one process of a made-up machine."""
    def row(**process):
        put_process(machine, **process)
        return ps("--root", machine.root)[1234]
    return row


# ---- Containers ----

def mount(root, point, kind="ext4"):
    return "36 35 98:0 %s %s rw,noatime master:1 - %s /dev/root rw\n" % (
        root, point, kind)


LIB = "/var/lib/docker/containers/%s/" % ID
STORAGE = "/var/lib/containers/storage/overlay-containers/%s/userdata/" % ID
CRI = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/%s/" % ID
KUBELET = "/var/lib/kubelet/pods/%s/" % POD

CONTAINERS = {
    # name: cgroup, mountinfo, id, runtime, pod
    "none": ("0::/user.slice/user-1000.slice/session-2.scope", "", "", "",
             ""),
    "a service": ("0::/system.slice/docker.service", "", "", "", ""),
    "docker v1": ("12:pids:/docker/%s\n1:name=systemd:/docker/%s" % (ID, ID),
                  "", ID, "docker", ""),
    "docker v1 beside an empty v2": (
        "9:cpu:/docker/%s\n0::/" % ID, "", ID, "docker", ""),
    "docker v2": ("0::/system.slice/docker-%s.scope" % ID, "", ID, "docker",
                  ""),
    "docker without root": (
        "0::/user.slice/user-1000.slice/user@1000.service/user.slice/"
        "docker-%s.scope" % ID, "", ID, "docker", ""),
    "docker in docker": (
        "4:memory:/docker/%s/docker/%s" % (OUTER, ID), "", ID, "docker", ""),
    "containerd, Kubernetes v2": (
        "0::" + SLICE + "cri-containerd-%s.scope" % ID, "", ID, "containerd",
        POD),
    "containerd, Kubernetes v1, cgroupfs": (
        "5:cpu:/kubepods/burstable/pod%s/%s" % (POD, ID), "", ID, "unknown",
        POD),
    "containerd as a service": (
        "5:cpu:/system.slice/containerd.service/kubepods-besteffort-pod%s"
        ".slice:cri-containerd:%s" % (POD_, ID), "", ID, "containerd", POD),
    "a guaranteed pod": (
        "0::/kubepods.slice/kubepods-pod%s.slice/cri-containerd-%s.scope" %
        (POD_, ID), "", ID, "containerd", POD),
    "a static pod": ("5:cpu:/kubepods/besteffort/pod%s/%s" % (STATIC, ID), "",
                     ID, "unknown", STATIC),
    "docker, Kubernetes": ("0::" + SLICE + "docker-%s.scope" % ID, "", ID,
                           "docker", POD),
    "nerdctl": ("0::/system.slice/nerdctl-%s.scope" % ID, "", ID,
                "containerd", ""),
    "nerdctl, cgroupfs": ("5:cpu:/default/" + ID, "", ID, "containerd", ""),
    "CRI-O": ("0::" + SLICE + "crio-%s.scope" % ID, "", ID, "cri-o", POD),
    "CRI-O's helper": ("0::" + SLICE + "crio-conmon-%s.scope" % ID, "", "",
                       "unknown", POD),
    "podman": ("0::/machine.slice/libpod-%s.scope/container" % ID, "", ID,
               "podman", ""),
    "podman v1": ("3:cpu:/machine.slice/libpod-%s.scope" % ID, "", ID,
                  "podman", ""),
    "podman without root": (
        "0::/user.slice/user-1000.slice/user@1000.service/user.slice/"
        "libpod-%s.scope/container" % ID, "", ID, "podman", ""),
    "podman, cgroupfs": ("0::/libpod_parent/libpod-" + ID, "", ID, "podman",
                         ""),
    "podman's helper": ("0::/machine.slice/libpod-conmon-%s.scope" % ID, "",
                        "", "", ""),
    "kind": ("0::/docker/%s/kubelet.slice/kubelet-kubepods.slice/kubelet-"
             "kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod%s"
             ".slice/cri-containerd-%s.scope" % (OUTER, POD_, ID), "", ID,
             "containerd", POD),
    "beside, one cgroup namespace away": (
        "0::/../cri-containerd-%s.scope" % ID, "", ID, "containerd", ""),
    "another runtime": ("4:memory:/ecs/task/" + ID, "", ID, "unknown", ""),
    "no id, but long": ("0::/system.slice/docker-%s.scope" % ("x" * 64), "",
                        "", "", ""),
    "an id too long": ("0::/docker/a" + ID, "", "", "", ""),
    # the cgroup namespace of the container: the path is "/"
    "own namespace, docker": (
        "0::/", mount("/", "/") + mount(LIB + "resolv.conf",
                                        "/etc/resolv.conf") +
        mount(LIB + "hostname", "/etc/hostname"), ID, "docker", ""),
    "own namespace, docker on a disk of its own": (
        "0::/", mount("/containers/%s/hosts" % ID, "/etc/hosts"), ID,
        "docker", ""),
    "own namespace, podman": (
        "0::/", mount("/containers" + STORAGE[8:] + "hostname",
                      "/etc/hostname", "tmpfs"), ID, "podman", ""),
    "own namespace, a pod of podman": (
        "0::/", mount(STORAGE.replace(ID, OUTER) + "hosts", "/etc/hosts") +
        mount(STORAGE + ".containerenv", "/run/.containerenv") +
        mount(STORAGE.replace(ID, OUTER) + "hostname", "/etc/hostname"), ID,
        "podman", ""),
    "own namespace, nerdctl": (
        "0::/", mount("/var/lib/nerdctl/1935db59/containers/default/%s/"
                      "resolv.conf" % ID, "/etc/resolv.conf"), ID,
        "containerd", ""),
    # there the ids are of the pod's sandbox, not of the container
    "own namespace, containerd in a pod": (
        "0::/", mount(KUBELET + "etc-hosts", "/etc/hosts") +
        mount(CRI + "hostname", "/etc/hostname"), "", "containerd", POD),
    "own namespace, CRI-O": (
        "0::/", mount(STORAGE + "resolv.conf", "/etc/resolv.conf") +
        mount(KUBELET + "etc-hosts", "/etc/hosts"), "", "cri-o", POD),
    "own namespace, the mount of v1": (
        "4:memory:/", mount(LIB + "hosts", "/etc/hosts") +
        mount("/kubepods/burstable/pod%s/%s" % (POD, OUTER),
              "/sys/fs/cgroup/memory", "cgroup"), OUTER, "unknown", POD),
    "the host has their folders mounted": (
        "0::/", mount(LIB + "mounts/shm", LIB + "mounts/shm", "tmpfs") +
        mount(KUBELET + "volumes/x", KUBELET + "volume-subpaths/x"), "", "",
        ""),
    "no sense": ("::::\n\n:/docker/\n0:" + ID, "36 35\n - \n" + mount("", "") +
                 mount("/containers/", "/etc/hosts") +
                 mount("/x/containers/y/" + ID, "/etc/hosts"), "", "", ""),
}


@pytest.mark.parametrize("case", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_containers(one, case):
    cgroup, mountinfo, found, runtime, pod = case
    row = one(cgroup=cgroup + "\n", mountinfo=mountinfo)
    assert (row["container"], row["runtime"], row["pod"]) == (found, runtime,
                                                              pod)


def test_table(gputrace, machine):
    put_process(machine, cgroup="0::/docker/%s\n" % ID, fds=["/dev/nvidia3"],
                threads=WRITER, environ=["GPUTRACE_SIGNAL=USR2"],
                command=["python", "a\x1b[2J\u009bb"])
    put_process(machine, pid=99, maps=[CUDA], mountinfo=mount(
        KUBELET + "etc-hosts", "/etc/hosts"))
    lines = gputrace("ps", "--root", machine.root).out.splitlines()
    rows = [line.split() for line in lines]
    assert rows[1] == ["PID", "Inside", "Container", "GPU", "State", "Reach",
                       "Program"]
    assert rows[2] == ["99", "17", "unknown", "pod", POD[:8], "-", "untraced",
                       "attach", "python", "serve.py"]
    assert rows[3] == ["1234", "17", ID[:12], "docker", "3", "recording",
                       "signal", "python", r"a\x1b[2J\xc2\x9bb"]
    assert len(rows) == 4
    csv = gputrace("ps", "--root", machine.root, "-f", "csv").out
    assert csv.splitlines()[2].startswith("1234,17,%s docker,3," % ID[:12])


# ---- What it is and how it can be reached ----

def test_pids_and_users(one):
    row = one(uid=101005, uid_map="0 1000 1\n1 100001 65535")
    assert (row["pid"], row["inner_pid"]) == (1234, 17)
    assert (row["uid"], row["inner_uid"]) == (101005, 1005)


def test_a_user_without_a_number_inside(one):
    """It sees itself as the kernel's overflow uid."""
    assert one(uid_map="0 5000 10")["inner_uid"] == 65534


@pytest.mark.parametrize("fds, visible, gpus, shown", [
    (["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidia0"],
     None, "0,3", "0,3"),
    (["/dev/nvidiactl", "/dev/nvidia12"], "0", "12", "12"),
    ([], "2,3", "", "2,3"), (["/dev/nvidia-caps/nvidia-cap1"], None, "", "-"),
    (["/dev/nvidia99"], None, "", "-")])
def test_gpus(gputrace, one, machine, fds, visible, gpus, shown):
    row = one(fds=fds, environ=["CUDA_VISIBLE_DEVICES=" + visible] if visible
              else [])
    assert (row["gpus"], row["visible_devices"]) == (gpus, visible or "")
    line = gputrace("ps", "--root", machine.root).out.splitlines()[2]
    assert line.split()[3] == shown


TWIN = ["/out/.t.json.gputrace-twin (deleted)"]
STATES = {
    # what the process has; state, reach, part of the reason
    "cuda alone": ({"maps": [CUDA]}, "untraced", "attach", ""),
    "debugged": ({"maps": [CUDA], "tracer": 55}, "untraced", "no", "pid 55"),
    "a shell": ({"maps": [OURS]}, "waiting", "no", "not used CUDA"),
    "loaded from memory": (
        {"maps": [CUDA, "/memfd:libgputrace.so (deleted)"],
         "threads": WRITER, "environ": ["GPUTRACE_SIGNAL=USR1"]},
        "recording", "signal", ""),
    "a folder of that name": (
        {"maps": [CUDA, "/libgputrace.so.1/libx.so"]}, "untraced", "attach",
        ""),
    "did not start": ({"fds": ["/dev/nvidia0"]}, "aside", "no", "doctor 1234"),
    "recording": ({"threads": WRITER, "writer_fds": TWIN}, "recording", "no",
                  "no socket"),
    "no file yet": ({"threads": WRITER}, "recording", "no", "socket"),
    "sleeping": ({"threads": ("gputrace-socket",) + WRITER,
                  "environ": ["GPUTRACE_START=off"]}, "sleeping", "no",
                 "socket"),
    "a capture runs": ({"threads": WRITER, "writer_fds": TWIN, "environ":
                        ["GPUTRACE_START=off"]}, "recording", "no", "socket"),
    "a recorder": ({"threads": WRITER, "environ": ["GPUTRACE_RECORDER=30"]},
                   "recorder", "no", "socket"),
    "by a signal": ({"threads": WRITER, "environ":
                     ["GPUTRACE_START=off", "GPUTRACE_SIGNAL=SIGUSR2"]},
                    "sleeping", "signal", ""),
    "neither": ({"threads": WRITER, "environ": ["GPUTRACE_CONTROL=off"]},
                "recording", "no", "GPUTRACE_SIGNAL"),
    "stopped": ({"threads": WRITER, "state": "T (stopped)"}, "stopped", "no",
                "kill -CONT 1234"),
}


@pytest.mark.parametrize("case", STATES.values(), ids=STATES.keys())
def test_states(one, case):
    process, state, reach, why = case
    row = one(**process)
    assert (row["state"], row["reach"]) == (state, reach), row
    assert why in row["why"] and bool(why) == bool(row["why"])


@contextlib.contextmanager
def listening(path):
    """A socket there, however long the path is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.getcwd()
    server = socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)
    try:
        server.bind(path.name)
    finally:
        os.chdir(before)
    with server:
        yield path


SLEEPING = {"threads": WRITER, "environ": ["GPUTRACE_START=off"],
            "started": 4711, "uid": os.getuid()}
NAME = "gputrace-%d/17-4711.sock" % os.getuid()
# What the process has as its root.
INSIDE = "proc/1234/root"


@pytest.mark.parametrize("tmpdir, folder", [
    (None, "tmp"), ("/scratch/x", "scratch/x"), ("no/path", "tmp")])
def test_the_socket(one, machine, tmpdir, folder):
    inside = machine.root / INSIDE
    process = dict(SLEEPING)
    if tmpdir:
        process["environ"] = ["GPUTRACE_START=off", "TMPDIR=" + tmpdir]
    with listening(inside / folder / NAME) as path:
        row = one(**process)
    assert (row["state"], row["reach"]) == ("sleeping", "socket")
    assert row["socket"] == str(path)


def test_links_stay_inside(one, machine, tmp_path):
    """An absolute link in the container's root leads nowhere else."""
    with listening(machine.root / INSIDE / "var/tmp" / NAME), \
            listening(tmp_path / "outside" / NAME):
        machine.link(INSIDE + "/tmp", "/var/tmp")
        assert one(**SLEEPING)["reach"] == "socket"
        machine.link(INSIDE + "/tmp", str(tmp_path / "outside"))
        assert one(**SLEEPING)["reach"] == "no"


def test_no_socket(one, machine):
    machine.put(INSIDE + "/tmp/" + NAME, "a file")
    row = one(**SLEEPING)
    assert (row["reach"], row["socket"]) == ("no", "")


@pytest.mark.parametrize("started, name", [(4712, "prog"), (4711, ") 1 (")])
def test_the_life_counts(one, machine, started, name):
    """A socket of an earlier process of that pid is not its; a name with
    brackets changes nothing."""
    with listening(machine.root / INSIDE / "tmp" / NAME):
        row = one(**dict(SLEEPING, started=started, name=name))
    assert (row["reach"] == "socket") == (started == 4711)


def test_the_users_inside(one, machine):
    """The folder has the number that the process's user has inside."""
    name = "gputrace-5/17-4711.sock"
    with listening(machine.root / INSIDE / "tmp" / name):
        row = one(**dict(SLEEPING, uid_map="5 %d 1" % os.getuid()))
    assert row["reach"] == "socket"


def test_a_socket_of_somebody_else(one, machine):
    process = dict(SLEEPING, uid=os.getuid() + 1)
    name = "gputrace-%d/17-4711.sock" % process["uid"]
    with listening(machine.root / INSIDE / "tmp" / name):
        row = one(**process)
    assert row["reach"] == "no" and row["why"].endswith(
        "/tmp/gputrace-%d is not its user's alone (mode 0700)" %
        process["uid"])


@pytest.mark.parametrize("make, why", [
    (lambda r: None, "/tmp is not there"),
    (lambda r: (r / "tmp").mkdir(parents=True), "GPUTRACE_LOG=info"),
    (lambda r: (r / "tmp" / NAME).parent.mkdir(0o755, parents=True),
     "not its user's alone"),
    (lambda r: (r / "tmp" / NAME).parent.mkdir(0o700, parents=True),
     "GPUTRACE_LOG=info")], ids=["no folder", "none", "open", "empty"])
def test_why_there_is_no_socket(one, gputrace, machine, make, why):
    """ps and doctor say the same."""
    make(machine.root / INSIDE)
    assert why in one(**SLEEPING)["why"]
    text = gputrace("doctor", "--root", machine.root, 1234).out
    [line] = [l for l in text.splitlines() if "control socket:" in l]
    assert line.startswith("warn") and why in line


# ---- Which processes ----

def test_only_cuda(ps, machine):
    put_process(machine, pid=1, maps=["/lib/libc.so.6"])
    put_process(machine, pid=2, maps=["/x/libcuda.something"])
    put_process(machine, pid=3, maps=["/x/%d.so" % i for i in range(2000)] +
                [CUDA])
    put_process(machine, pid=20, maps=[OURS])
    put_process(machine, pid=100)
    machine.put("proc/self/maps", CUDA)
    machine.put("proc/7/other", "")
    assert list(ps("--root", machine.root)) == [3, 20, 100]


@pytest.mark.parametrize("glob, pids", [
    ("prog", [5, 6]), ("pro?", [5, 6]), ("serve.py", [5]), ("*llm*", [6]),
    ("python -m *", [6]), ("vllm.entrypoints*", [6]), ("--port", []),
    ("8000", [5]), ("nothing", []), ("[", []), ("", [])])
def test_match(ps, machine, glob, pids):
    put_process(machine, pid=5, command=["/usr/bin/python3", "/srv/serve.py",
                                         "--port", "8000"])
    put_process(machine, pid=6, command=["python", "-m",
                                         "vllm.entrypoints.api"])
    assert list(ps("--root", machine.root, "--match", glob)) == pids


def test_pids(gputrace, ps, machine):
    put_process(machine, pid=5, maps=[])
    put_process(machine, pid=6)
    rows = ps("--root", machine.root, 6, 5, 6)
    assert list(rows) == [6, 5]
    assert "does not use CUDA" in rows[5]["why"]
    done = gputrace("ps", "--root", machine.root, 6, 77)
    assert done.status == 3 and "77" in done.err
    assert len(done.out.splitlines()) == 3


@pytest.mark.parametrize("args", [
    ["x"], ["0"], ["-5"], ["--format", "xml"], ["--match"], ["--match", "x",
                                                             "1"]])
def test_usage(gputrace, args):
    done = gputrace("ps", *args)
    assert (done.status, done.out) == (2, "") and "--help" in done.err


@pytest.mark.parametrize("seed", range(8))
def test_hostile(gputrace, machine, seed):
    """Files of a process with bytes that make no sense."""
    junk = bytes((seed * 89 + i * i * 31 + i // 7) % 256 for i in range(3000))
    put_process(machine, threads=WRITER)
    for i, name in enumerate(("cgroup", "mountinfo", "uid_map", "stat",
                              "cmdline", "environ", "status")):
        if seed == 7 or seed == i:
            machine.put("proc/1234/" + name, junk)
    if seed == 7:       # a kernel's thread, by that status
        return
    done = gputrace("ps", "--root", machine.root, "--format", "json")
    assert done.status == 0 and not done.err
    json.loads(done.out)
    done = gputrace("ps", "--root", machine.root)
    assert done.out.isprintable() or "\n" in done.out
    assert "\x1b" not in done.out


# ---- Real processes ----

@pytest.fixture
def begin(tmp_path):
    """Starts programs that end with the test."""
    running = []

    def program(*args, **settings):
        running.append(start(*args, GPUTRACE_OUT=tmp_path / "%p.json",
                             GPUTRACE_FLUSH="100ms", **settings))
        return running[-1].pid

    yield program
    for process in running:
        process.kill()
        process.communicate()


def wait_for(ps, pid, state=None, reach=None):
    """ps once the process is so, or is not for 20 s."""
    deadline = time.monotonic() + 20
    while True:
        row = ps(pid)[pid]
        if state in (None, row["state"]) and reach in (None, row["reach"]):
            return row
        assert time.monotonic() < deadline, row
        time.sleep(0.02)


def test_real_processes(ps, begin, tmp_path):
    decode = ("decode", "--seconds", 60, "--kernels", 4, "--sync-ms", 5)
    traced = begin(*decode)
    sleeping = begin(*decode, GPUTRACE_START="off")
    bare = begin(*decode, traced=False)
    wait_for(ps, traced, "recording")
    assert wait_for(ps, sleeping, "sleeping")["program"] == "decode"
    wait_for(ps, bare, reach="attach")
    rows = ps()
    assert {traced, sleeping, bare} <= set(rows)
    assert os.getpid() not in rows
    for pid in (traced, sleeping, bare):
        row = rows[pid]
        assert row["command"].endswith("decode --seconds 60 --kernels 4 "
                                       "--sync-ms 5")
        assert (row["inner_pid"], row["uid"], row["inner_uid"]) == (
            pid, os.getuid(), os.getuid())
    assert set(ps("--match", "decode")) >= {traced, sleeping, bare}
    os.kill(bare, signal.SIGSTOP)
    wait_for(ps, bare, "stopped")


def test_the_process_is_asked(gputrace, ps, begin):
    """After a stop /proc alone would say that it records, as
    GPUTRACE_START=now has it."""
    pid = begin("decode", "--seconds", 60, "--kernels", 4, "--sync-ms", 5)
    row = wait_for(ps, pid, "recording", "socket")
    assert gputrace("stop", pid).status == 0
    wait_for(ps, pid, "sleeping")
    checks = json.loads(gputrace("doctor", "-f", "json", pid).out)["checks"]
    [check] = [c for c in checks if c["id"] == "socket"]
    assert (check["status"], check["detail"]) == ("ok", row["socket"])


@pytest.mark.skipif(bool(SANITIZED), reason="a shell without the sanitizer")
def test_a_shell(ps, begin):
    pid = begin("/bin/sh", "-c", "kill -STOP $$; exec sleep 60")
    wait_for(ps, pid, "stopped")
    os.kill(pid, signal.SIGCONT)
    row = wait_for(ps, pid, "waiting")
    assert row["reach"] == "no" and "CUDA" in row["why"]


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_processes_of_others(begin):
    """They are counted, and the one that is asked for is refused."""
    pid = begin("decode", "--seconds", 60)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        command = shutil.copy(BUILD / "gputrace", folder)

        def nobody(*args):
            return subprocess.run(
                [command, "ps", *args], user=65534, group=65534,
                extra_groups=[], capture_output=True, text=True, check=False,
                cwd="/")
        seen = nobody("--format", "json")
        text = nobody()
        asked = nobody(str(pid))
    document = json.loads(seen.stdout)
    assert pid not in [row["pid"] for row in document["processes"]]
    others = 0
    for path in pathlib.Path("/proc").glob("[1-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            others += path.stat().st_uid == 0
    assert 0 < document["not_looked_at"]["count"] <= others + 20
    assert "not looked at" in text.stdout.splitlines()[-1]
    assert "root" in text.stdout.splitlines()[-1]
    assert asked.returncode == 3 and "uid 0" in asked.stderr
