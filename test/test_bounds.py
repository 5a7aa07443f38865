# SPDX-License-Identifier: MIT
"""What holds when things run long, run over or run short: the watchdog for
CUPTI's faults, the bounds of memory and disk, narrow places."""
import json
import os
import resource
import shutil
import stat
import subprocess
import tempfile
import time

import pytest
from tracing import (BUILD, LIBRARY, SANITIZED, Run, Trace, environment, judge,
                     own_lines, run, start, traced)

MB = 1024       # in kB
HOST = BUILD / "host" / "bounds"
DISK = BUILD / "shim" / "disk.so"
ROOT = os.geteuid() == 0
plain_only = pytest.mark.skipif(bool(SANITIZED),
                                reason="the sanitizer's own memory and calls")


def check(path):
    """What `gputrace check` says of it."""
    return run(BUILD / "gputrace", "check", path, traced=False).out


def together(tmp_path, runs, timeout=120):
    """Runs beside one another, as most of them wait most of the time:
    {name: (the program's end, its trace)}"""
    def path(name):
        return tmp_path / (name + ".json")
    started = {name: start(program, *args, GPUTRACE_OUT=path(name),
                           **{"GPUTRACE_FLUSH": "200ms", **settings})
               for name, ((program, *args), settings) in runs.items()}
    ends = {name: Run(process, timeout) for name, process in started.items()}
    return {name: (done, Trace(path(name))) for name, done in ends.items()}


# ---- The watchdog ----

BY_PROGRAM = {"GPUTRACE_START": "profiler-api"}
TIMES, FEW_TIMES = "kernels without times", "some kernels without times"
SICK = {
    "zero": (("bounds", "rate", 3), {"SIM_TIMES": "zero@2"}, TIMES),
    "reversed": (("bounds", "rate", 3), {"SIM_TIMES": "reversed@1"}, TIMES),
    "few": (("bounds", "rate", 2), {"SIM_TIMES": "zero@20"}, FEW_TIMES),
    "none": (("bounds", "rate", 9), {"SIM_NO_KERNELS": 1},
             "launches without kernels"),
    "no more": (("bounds", "rate", 9), {"SIM_NO_KERNELS": 500},
                "launches without kernels"),
    # Six seconds of silence and six looks, on a busy machine.
    "silent": (("bounds", "again", 14), {"SIM_SILENT_AFTER": 1, **BY_PROGRAM},
               "silent after a start"),
    "few buffers": (("bounds", "rate", 13), {"SIM_KEEP_BUFFERS": 9},
                    "some buffers never returned"),
    # The smallest pool, and flushed often: soon more than half is gone.
    "buffers": (("bounds", "rate", 14), {
        "SIM_KEEP_BUFFERS": 2, "GPUTRACE_BUFFER": "16M",
        "GPUTRACE_FLUSH": "20ms"}, "buffers never returned"),
}
STOPS = {TIMES, "buffers never returned"}


@pytest.mark.skipif("thread" in SANITIZED,
                    reason="an end that takes longer is one line more")
def test_a_sick_cupti_is_found(tmp_path):
    ends = together(tmp_path, {name: row[:2] for name, row in SICK.items()})
    for name, (done, trace) in ends.items():
        fault = SICK[name][2]
        assert done.status == 0, name
        marks = trace.own["watchdog"]
        assert marks and marks[-1]["fault"] == fault, (name, done.err)
        assert marks[-1]["stopped"] == (fault in STOPS)
        said = own_lines(done.err)
        assert len(said) == len(marks) + 1, (name, said)
        assert len(marks) == 1 or name == "buffers"
        assert ("tracing stops" in said[-2]) == (fault in STOPS)
        assert "seen while recording: " + fault in check(trace.path)
        assert not judge(trace.path), name
    # After the stop the program's calls are not recorded any more.
    done, trace = ends["zero"]
    assert len(trace.api("cuLaunchKernel")) < \
        done.did["api"]["cuLaunchKernel"] * 0.9
    assert trace.losses()["without time"] == len(trace.slices("kernel"))
    assert ends["buffers"][1].losses()["buffers never returned"] > 50


HEALTHY = {
    "copies": (("bounds", "copies", 9), {}),
    "capture": (("bounds", "capture", 9), {}),
    "idle": (("bounds", "idle", 9), {}),
    "again": (("bounds", "again", 9), BY_PROGRAM),
    "again, then idle": (("bounds", "again-idle", 9), BY_PROGRAM),
    "no calls": (("bounds", "rate", 9), {"GPUTRACE_API": "none"}),
    "graphs": (("decode", "--seconds", 9, "--graph", "--sync-ms", 20), {}),
    "whole graphs": (("decode", "--seconds", 9, "--graph", "--sync-ms", 20),
                     {"GPUTRACE_GRAPH": "graph"}),
    "late buffers": (("bounds", "rate", 9), {"SIM_LATE_MS": 300}),
    "one long kernel": (("longkernel", "--seconds", 14), {}),
    "one before the rest": (("bounds", "queued", 14), {}),
}


def test_a_healthy_cupti_is_not_suspected(tmp_path):
    for name, (done, trace) in together(tmp_path, HEALTHY).items():
        assert done.status == 0, name
        assert trace.own["watchdog"] == [], name
        assert len(own_lines(done.err)) == 1, (name, done.err)


# ---- The file's bound: events in files + losses = what the program did ----

def last_line(done):
    """(kernels in files, kernels in no file) as the last line says."""
    words = own_lines(done.err)[-1].replace(",", "").split(": ")[-1].split()
    return int(words[0]), int(words[2]) if "file" in words else 0


def test_many_ranges(tmp_path):
    """What a server with framework operators has: none is lost, and each that
    launched is on the GPU too, though the launches' records come a second
    later.  (A busy machine's writer may be late for a ring.)"""
    done = run("bounds", "ranges", 4, GPUTRACE_OUT=tmp_path / "t.json")
    trace = Trace(tmp_path / "t.json")
    lost = trace.losses()
    assert done.status == 0 and set(lost) <= {"ring full"}
    nr, launches = done.did["nvtx"]["ranges"], done.did["gpu"]["kernels"]
    assert nr > 60000
    assert len(trace.ranges()) + lost.get("ring full", 0) // 2 >= nr * 0.99
    if not lost:
        assert len(trace.ranges()) == nr
        assert len(trace.slices("gpu_user_annotation")) == 2 * launches


@pytest.mark.parametrize("size", ["300K", "1"])
def test_rotation_adds_up(tmp_path, size):
    done = run("bounds", "launch", 20000, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_MAX_SIZE=size, GPUTRACE_KEEP=3, GPUTRACE_FLUSH="20ms")
    assert done.status == 0
    traces = [Trace(p) for p in tmp_path.iterdir()]
    assert len(traces) in (3, 4)
    assert max(t.path.stat().st_size for t in traces) < 310 << 10
    newest = max(traces, key=lambda t: t.own["part"])
    kept = sum(len(t.slices("kernel")) for t in traces)
    gone = newest.own["kernels_gone"]
    assert newest.own["kernels"] == kept > 0
    assert kept + gone == done.did["gpu"]["kernels"]
    assert newest.losses()["events in files rotated away"] >= 2 * gone > 0
    assert last_line(done) == (kept, gone)
    said = [l for l in own_lines(done.err) if "GPUTRACE_MAX_SIZE" in l]
    assert len(said) == (size == "1"), done.err
    assert not judge(*[t.path for t in traces], profile="perfetto")


@pytest.mark.parametrize("out", ["t.json", "t.json.gz"])
def test_a_stop_adds_up(tmp_path, out):
    """All is recorded before the first write: then nothing is unknown."""
    path = tmp_path / out
    done = run("bounds", "launch", 20000, GPUTRACE_OUT=path,
               GPUTRACE_MAX_SIZE="500K", GPUTRACE_ON_FULL="stop",
               GPUTRACE_FLUSH="60s")
    trace = Trace(path)
    kept, gone = len(trace.slices("kernel")), trace.own["kernels_gone"]
    assert 0 < kept < kept + gone == done.did["gpu"]["kernels"]
    assert trace.own["kernels"] == kept
    assert trace.own["stopped"] == "GPUTRACE_MAX_SIZE"
    assert trace.losses()["not written"] >= 2 * gone
    assert last_line(done) == (kept, gone)
    assert path.stat().st_size < 520 << 10
    assert not judge(path)
    said = check(path)
    assert "stopped by GPUTRACE_MAX_SIZE" in said
    assert "%d x not written" % trace.losses()["not written"] in said


def test_after_a_stop_the_program_is_left_alone(tmp_path):
    path = tmp_path / "t.json"
    done = run("bounds", "rate", 4, GPUTRACE_OUT=path, GPUTRACE_FLUSH="100ms",
               GPUTRACE_MAX_SIZE="300K", GPUTRACE_ON_FULL="stop")
    trace = Trace(path)
    kept, gone = len(trace.slices("kernel")), trace.own["kernels_gone"]
    assert 0 < kept + gone < done.did["gpu"]["kernels"] * 0.8
    assert last_line(done) == (kept, gone)
    assert not judge(path)


def test_nothing_is_kept_in_dev_null(tmp_path):
    """All is encoded; no file appears beside the device."""
    before = sorted(os.listdir("/dev"))
    done = run("bounds", "launch", 20000, GPUTRACE_OUT="/dev/null",
               GPUTRACE_MAX_SIZE="100K", GPUTRACE_FLUSH="20ms", cwd=tmp_path)
    assert done.status == 0
    assert own_lines(done.err) == ["gputrace: /dev/null: %d kernels, 0 lost" %
                               done.did["gpu"]["kernels"]]
    assert sorted(os.listdir("/dev")) == before
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not list(tmp_path.iterdir())


def test_a_thread_for_each_request(tmp_path):
    """Nothing of 6,000 threads, one after another, is lost; from the 4096th
    on they stand on the lanes of those that have ended."""
    done, trace = traced(tmp_path, "bounds", "churn", 6000)
    assert trace.losses() == {}
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert len(trace.ranges("moment")) == done.did["ranges"]["moment"]
    lanes = {(e["pid"], e["tid"]) for e in trace.ranges("moment")}
    names = trace.labels("thread_name")
    shared = [l for l in lanes if names[l].endswith("and later threads")]
    assert 4000 < len(lanes) <= 4096 and 1000 < len(shared) < len(lanes)


# ---- The memory's bound ----

def peak(done):
    return done.did["memory"]["peak_kb"]


class Large:
    """A trace that is too large to be read here: checked by the command, and
    counted by its text."""

    def __init__(self, path):
        said = run(BUILD / "gputrace", "check", path, traced=False)
        assert said.status == 0, said.out
        text = path.read_text()
        self.kernels = text.count('"cat":"kernel"')
        self.calls = text.count('"name":"cuLaunchKernel"')
        self.own = json.loads(
            "{" + text[text.rindex('"gputrace":'):])["gputrace"]
        self.losses = self.own["losses"]


@plain_only
def test_a_disk_that_stalls(tmp_path):
    """The program goes on at its rate, memory stays in its bound, and each
    launch and each kernel is in the file or counted."""
    load = ("bounds", "soak", 3, 50000)
    before = run(*load, traced=False)
    path = tmp_path / "t.json"
    done = run(*load, GPUTRACE_OUT=path, GPUTRACE_BUFFER="16M",
               LD_PRELOAD="%s:%s" % (DISK, LIBRARY), DISK_STALL=2.5)
    assert done.status == 0
    assert done.did["rate"]["kernels a second"] > \
        before.did["rate"]["kernels a second"] * 0.3
    # Beside what we hold, what is mapped: code, two stacks, the simulator.
    assert peak(done) - peak(before) < (16 + 8) * MB
    trace = Large(path)
    lost = trace.losses.get("activity buffers full", 0)
    there = trace.kernels + trace.calls
    wanted = 2 * done.did["gpu"]["kernels"]
    assert there < wanted <= there + lost <= wanted * 1.05


@plain_only
def test_the_end_does_not_wait_for_the_disk(tmp_path):
    began = time.monotonic()
    done = run("bounds", "rate", 1, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_FLUSH="100ms", DISK_STALL=60,
               LD_PRELOAD="%s:%s" % (DISK, LIBRARY))
    assert done.status == 0 and time.monotonic() - began < 15
    assert "not written in time" in own_lines(done.err)[0]
    assert not (tmp_path / "t.json").exists()


@plain_only
def test_a_writer_that_is_starved(tmp_path):
    """All on one CPU, where others compute."""
    cpu = sorted(os.sched_getaffinity(0))[0]

    def narrow():
        os.sched_setaffinity(0, {cpu})
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"],
                               preexec_fn=narrow) for _ in range(3)]
    path = tmp_path / "t.json"
    try:
        done = Run(subprocess.Popen(
            [HOST, "soak", "3", "20000"], preexec_fn=narrow,
            env=environment(GPUTRACE_OUT=path, GPUTRACE_BUFFER="16M"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE), 60)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert done.status == 0
    assert peak(done) < (16 + 12) * MB
    trace = Large(path)
    assert trace.kernels <= done.did["gpu"]["kernels"] <= \
        trace.kernels + sum(trace.losses.values())


MUCH = {"names": ("names", 20000), "domains": ("domains", 20000),
        "threads": ("churn", 10000)}


@plain_only
@pytest.mark.parametrize("what", MUCH)
def test_much_of_something(tmp_path, what):
    path = tmp_path / "t.json"
    before = run("bounds", *MUCH[what], traced=False)
    done = run("bounds", *MUCH[what], GPUTRACE_OUT=path, GPUTRACE_BUFFER="16M")
    assert done.status == 0
    assert peak(done) - peak(before) < (16 + 12) * MB
    Large(path)


# ---- Narrow places ----

def inside(tmp_path, *args, before=None, cwd=None, timeout=60, program=HOST,
           **settings):
    return Run(subprocess.Popen(
        [str(program), *map(str, args)], preexec_fn=before, cwd=cwd,
        env=environment(**settings), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE), timeout)


def limit(what, value):
    return lambda: resource.setrlimit(what, (value, value))


def in_a_shell(script, **settings):
    """In mount names of its own; $PROG runs the program traced."""
    env = environment(traced=False, **settings)
    env["PROG"] = "env LD_PRELOAD=%s %s" % (LIBRARY, HOST)
    return Run(subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE), 60)


def can_mount():
    if not ROOT or SANITIZED or not shutil.which("unshare"):
        return False
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"],
        capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="no right to mount")


def adds_up(done, trace):
    kept, gone = last_line(done)
    return len(trace.slices("kernel")) == kept and gone > 0


@needs_mounts
@pytest.mark.parametrize("name, size", [("t.json", "1m"),
                                        ("t.json.gz", "200k")])
def test_a_full_disk(tmp_path, name, size):
    done = in_a_shell(
        "mount -t tmpfs -o size=" + size + " none /mnt; $PROG rate 3; s=$?; "
        "ls -A /mnt >&2; cp /mnt/%s %s; exit $s" % (name, tmp_path),
        GPUTRACE_OUT="/mnt/" + name, GPUTRACE_FLUSH="20ms")
    assert done.status == 0
    said = own_lines(done.err)
    assert len(said) == 2 and "no space left" in said[0].lower(), done.err
    assert ".gputrace-twin" not in done.err
    assert adds_up(done, Trace(tmp_path / name))
    assert not judge(tmp_path / name)


@plain_only
@pytest.mark.parametrize("error, text", [(122, "quota"), (5, "")])
def test_writes_that_fail(tmp_path, error, text):
    path = tmp_path / "t.json"
    done = run("bounds", "rate", 2, GPUTRACE_OUT=path, GPUTRACE_FLUSH="50ms",
               LD_PRELOAD="%s:%s" % (DISK, LIBRARY),
               DISK_ERROR="%d@400000" % error)
    said = own_lines(done.err)
    assert done.status == 0 and len(said) == 2
    assert text in said[0] and "tracing stops" in said[0]
    assert adds_up(done, Trace(path))
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    assert not judge(path)


@needs_mounts
def test_a_folder_that_is_read_only(tmp_path):
    done = in_a_shell("mount -t tmpfs -o ro none /mnt; exec $PROG launch 100",
                      GPUTRACE_OUT="/mnt/t.json")
    assert done.status == 0 and done.did["gpu"]["kernels"] == 100
    assert len(own_lines(done.err)) == 1 and "read-only" in done.err


@pytest.mark.parametrize("what", ["removed", "renamed"])
def test_a_folder_that_goes(tmp_path, what):
    folder = tmp_path / "traces"
    folder.mkdir()
    process = start("bounds", "rate", 3, GPUTRACE_OUT=folder / "t.json",
                    GPUTRACE_FLUSH="50ms")
    until = time.monotonic() + 20
    while not (folder / "t.json").exists() and time.monotonic() < until:
        time.sleep(0.02)
    if what == "removed":
        shutil.rmtree(folder)
    else:
        folder.rename(tmp_path / "elsewhere")
    done = Run(process, 30)
    assert done.status == 0
    said = own_lines(done.err)
    assert "tracing stops" in said[0] and len(said) <= 2
    assert not folder.exists()
    for left in tmp_path.glob("elsewhere/t.json"):
        assert Trace(left).slices("kernel")


def test_a_limit_of_the_file_size(tmp_path):
    path = tmp_path / "t.json"
    done = inside(tmp_path, "rate", 2, GPUTRACE_OUT=path,
                  GPUTRACE_FLUSH="50ms",
                  before=limit(resource.RLIMIT_FSIZE, 400000))
    said = own_lines(done.err)
    assert done.status == 0 and len(said) == 2
    assert "GPUTRACE_MAX_SIZE" in said[0]
    assert adds_up(done, Trace(path))


@plain_only
@pytest.mark.parametrize("mb", [128, 256, 512, 2048])
def test_a_limit_of_addresses(tmp_path, mb):
    """What the program needs of it stays the program's."""
    path = tmp_path / "t.json"
    done = inside(tmp_path, "eat", mb * 2 // 5, GPUTRACE_OUT=path,
                  before=limit(resource.RLIMIT_AS, mb << 20))
    said = own_lines(done.err)
    assert done.status == 0 and len(said) == 1, done.err
    if mb < 512:
        assert "no memory" in said[0] and not path.exists()
    else:
        assert len(Trace(path).slices("kernel")) == 10000


@plain_only
def test_few_descriptors(tmp_path):
    """The program itself needs four, for its libraries."""
    for nr in range(3, 12):
        def run_with(**settings):
            path = tmp_path / ("%d.json" % nr)
            return inside(tmp_path, "launch", 50, GPUTRACE_OUT=path,
                          before=limit(resource.RLIMIT_NOFILE, nr), **settings)
        before, done = run_with(LD_PRELOAD=""), run_with()
        assert done.status == before.status, nr
        assert done.did["gpu"] == before.did["gpu"], nr
        assert len(own_lines(done.err)) <= 1, (nr, done.err)
    for path in tmp_path.iterdir():
        assert Trace(path).slices("kernel")
    assert len(list(tmp_path.iterdir())) > 3


MEMORY_GROUP = "/sys/fs/cgroup/memory"


def make_group():
    """A new control group of 96 MB, or None; version 1 or 2."""
    for root, file in ((MEMORY_GROUP, "memory.limit_in_bytes"),
                       ("/sys/fs/cgroup", "memory.max")):
        group = "%s/gputrace-test-%d" % (root, os.getpid())
        try:
            os.mkdir(group)
            with open("%s/%s" % (group, file), "w") as out:
                out.write(str(96 << 20))
            return group
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
    return None


@plain_only
def test_a_control_group_without_room(tmp_path):
    """A stalled disk makes us hold what we may; the default is less than the
    group has, and the program, which takes half of it, lives."""
    group = make_group()
    if not group:
        pytest.skip("no right to make a control group")

    def enter():
        with open(group + "/cgroup.procs", "w") as out:
            out.write(str(os.getpid()))
    path = tmp_path / "t.json"
    try:
        done = inside(tmp_path, "soak", 3, 100000, GPUTRACE_OUT=path,
                      LD_PRELOAD="%s:%s" % (DISK, LIBRARY), DISK_STALL=2.5,
                      before=enter)
    finally:
        os.rmdir(group)
    assert done.status == 0, done.err
    assert Large(path).own["settings"]["GPUTRACE_BUFFER"] == "16M"
    assert peak(done) < 40 * MB


@plain_only
@pytest.mark.parametrize("how", ["kill", "errno"])
def test_a_seccomp_filter(tmp_path, how):
    path = tmp_path / "t.json"
    before = run("bounds", "seccomp", how, traced=False)
    if before.status == 77:
        pytest.skip("no seccomp filters")
    done = run("bounds", "seccomp", how, GPUTRACE_OUT=path,
               GPUTRACE_FLUSH="5ms")
    assert (done.status, done.did["gpu"]) == (0, before.did["gpu"])
    trace = Trace(path)
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert len(own_lines(done.err)) == 1 and not judge(path)
    done = run("bounds", "seccomp", how, GPUTRACE_OUT=path,
               GPUTRACE_START="off")
    assert (done.status, done.did["gpu"]) == (0, before.did["gpu"])
    [line] = own_lines(done.err)
    assert "GPUTRACE_CONTROL=on" in line


@needs_mounts
def test_without_proc(tmp_path):
    path = tmp_path / "t.json"
    done = in_a_shell("umount -l /proc; exec $PROG launch 5000",
                      GPUTRACE_OUT=path, GPUTRACE_FLUSH="20ms")
    assert done.status == 0 and done.did["gpu"]["kernels"] == 5000
    assert len(Trace(path).slices("kernel")) == 5000
    assert len(own_lines(done.err)) == 1 and not judge(path)


def copy_needed(root, *files):
    """The files with the libraries that they need, where they were."""
    for file in files:
        out = subprocess.run(["ldd", str(file)], capture_output=True, text=True,
                             env=environment(traced=False), check=True).stdout
        needed = [w for w in out.split() if w.startswith("/")]
        for path in [str(file), *needed]:
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(path, target)


@pytest.mark.skipif(not ROOT or bool(SANITIZED), reason="chroot needs root")
def test_a_chroot_without_proc_and_dev(tmp_path):
    copy_needed(tmp_path, HOST, LIBRARY, BUILD / "sim" / "libcuda.so.1",
                BUILD / "sim" / "libcupti.so.13")
    (tmp_path / "out").mkdir()
    done = inside(tmp_path, "launch", 5000, GPUTRACE_OUT="/out/t.json",
                  cwd=tmp_path, before=lambda: os.chroot(tmp_path))
    assert done.status == 0 and done.did["gpu"]["kernels"] == 5000, done.err
    assert len(Trace(tmp_path / "out" / "t.json").slices("kernel")) == 5000
    assert len(own_lines(done.err)) == 1


def nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.skipif(not ROOT or bool(SANITIZED),
                    reason="only root becomes somebody else")
@pytest.mark.parametrize("threads", [None, 1])
def test_somebody_without_rights(threads):
    """Nobody, who may write into one folder; and who may have one thread."""
    def become():
        if threads:
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
        nobody()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = folder + "/t.json"
        before = inside(folder, "launch", 500, before=become, LD_PRELOAD="")
        if before.status:
            pytest.skip("nobody cannot run the program")
        done = inside(folder, "launch", 500, before=become, GPUTRACE_OUT=path)
        assert (done.status, done.did["gpu"]) == (0, before.did["gpu"])
        assert len(own_lines(done.err)) == 1, done.err
        if threads:
            assert "no thread" in done.err and not os.path.exists(path)
        else:
            assert len(Trace(path).slices("kernel")) == 500
