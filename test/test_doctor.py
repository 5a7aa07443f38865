# SPDX-License-Identifier: MIT
"""gputrace doctor: on machines made of files (--root), and on real processes
of the simulated GPU.

The machine's files are as NVIDIA's driver, CUDA's packages and Linux make
them (proc(5), ld.so(8), NVIDIA's release notes).
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import time

import pytest
from control import threads
from tracing import BUILD, LIBRARY, SANITIZED, run, start

MACHINE = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
OK, WARN, BAD, NONE = "ok", "warn", "bad", "-"
CUPTI_118 = ["cuptiSubscribe", "cuptiActivityFlushAll"]
CUPTI_13 = CUPTI_118 + ["cuptiGetErrorMessage", "cuptiSubscribe_v2",
                        "cuptiActivityEnableDriverApi"]
NVIDIA = "usr/lib/x86_64-linux-gnu"
PARAMS = "EnableMSI: 1\nRmProfilingAdminOnly: %d\nDmaRemapPeerMmio: 1\n"


def elf(names=(), interp="", notes=b""):
    """The least ELF file that has these dynamic strings."""
    strings = b"\0" + b"".join(n.encode() + b"\0" for n in names)
    interp = interp.encode() + b"\0" if interp else b""
    head, entry = 64, 56
    at = head + 4 * entry
    dynamic = struct.pack("<6q", 5, at + 48, 10, len(strings), 0, 0)
    parts = [(2, dynamic + strings, len(dynamic)), (3, interp, len(interp)),
             (4, notes, len(notes))]
    table, body = b"", b""
    for kind, data, size in parts:
        offset = at + len(body)
        kind = kind if size else 0
        table += struct.pack("<2I6Q", kind, 4, offset, offset, 0, size, size,
                             8)
        body += data + b"\0" * (-len(data) % 8)
    size = at + len(body)
    table = struct.pack("<2I6Q", 1, 5, 0, 0, 0, size, size, 4096) + table
    return b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack(
        "<2HI3QI6H", 3, MACHINE, 1, 0, head, 0, 0, head, entry, 4, 0, 0,
        0) + table + body


def note(version):
    text = version.encode() + b"\0"
    return struct.pack("<3I", 9, len(text), 1) + b"gputrace\0\0\0\0" + text + \
        b"\0" * (-len(text) % 4)


class Machine:
    """A folder that looks like a machine with an H200 and CUDA 13.0."""

    def __init__(self, root):
        self.root = root
        self.put("proc/driver/nvidia/version",
                 "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                 "580.159.04  Release Build  (dvs-builder)\n"
                 "GCC version:  gcc version 12.2.0\n")
        self.put("proc/driver/nvidia/params", PARAMS % 0)
        self.put("proc/sys/kernel/perf_event_paranoid", "2\n")
        self.put("proc/sys/kernel/yama/ptrace_scope", "0\n")
        self.put("proc/self/status", "Name:\tgputrace\nCapEff:\t0\n")
        for device in ("nvidiactl", "nvidia-uvm", "nvidia0"):
            self.put("dev/" + device, "")
        self.driver("580.159.04")
        self.put(NVIDIA + "/libc.so.6", elf(["GLIBC_2.2.5", "GLIBC_2.36"]))
        self.cupti("usr/local/cuda-13.0/lib64/libcupti.so.2025.3.1", "13")

    def put(self, path, content):
        """Text may hold bytes that are no UTF-8, as surrogates."""
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else
                         content.encode(errors="surrogateescape"))

    def link(self, path, to):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    def drop(self, path):
        path = self.root / path
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def driver(self, version):
        for old in (self.root / NVIDIA).glob("libcuda.so*"):
            old.unlink()
        self.put(NVIDIA + "/libcuda.so." + version, elf(["cuInit"]))
        self.link(NVIDIA + "/libcuda.so.1", "libcuda.so." + version)

    def cupti(self, path, major, names=CUPTI_13):
        self.put(path, elf(names))
        name = pathlib.Path(path).name
        if name != "libcupti.so." + major:
            self.link(str(pathlib.Path(path).parent / ("libcupti.so." +
                                                       major)), name)

    def only_cupti(self, *args, **named):
        self.drop("usr/local/cuda-13.0")
        self.cupti(*args, **named)

    def process(self, pid=1234, maps=(), environ=(), threads=("prog",),
                fds=(), writer_fds=(), auxv=(), state="S (sleeping)", tracer=0,
                exe="/usr/bin/prog", interp="/lib64/ld-linux-x86-64.so.2",
                notes=note("0.1.0"), kernel=False):
        proc = "proc/%d/" % pid
        self.put(proc + "status", "Name:\tprog\nState:\t%s\nTgid:\t%d\n"
                 "TracerPid:\t%d\nUid:\t1000\t1000\t1000\t1000\n"
                 "NSpid:\t%d\t17\n%sCapEff:\t0000000000000000\n" %
                 (state, pid, tracer, pid, "" if kernel else
                  "VmSize:\t   1000 kB\n"))
        self.put(proc + "maps", "".join(
            "7f%010x-7f%010x r-xp 00000000 08:01 %d    %s\n" %
            (i * 4096, i * 4096 + 4096, 100 + i, path)
            for i, path in enumerate([exe, *maps])))
        self.put(proc + "environ", "".join(e + "\0" for e in environ))
        for i, name in enumerate(threads):
            self.put(proc + "task/%d/comm" % (pid + i), name + "\n")
        self.link(proc + "exe", exe)
        self.link(proc + "cwd", "/work")
        for i, to in enumerate(fds):
            self.link(proc + "fd/%d" % i, to)
        for i, to in enumerate(writer_fds):     # of the last thread
            self.link(proc + "task/%d/fd/%d" % (pid + len(threads) - 1, i),
                      to)
        self.put(proc + "auxv", b"".join(struct.pack("<2Q", *pair)
                                         for pair in [*auxv, (0, 0)]))
        self.put(exe[1:], elf(interp=interp))
        self.put("opt/libgputrace.so", elf(["GLIBC_2.27"], notes=notes))
        (self.root / "work").mkdir(exist_ok=True)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "root")


class Answer:
    """What doctor says: in JSON, and that its text says the same."""

    def __init__(self, gputrace, *args, env=None):
        env = {"LD_LIBRARY_PATH": "", **(env or {})}
        done = gputrace("doctor", "--format", "json", *args, env=env)
        self.status, self.err = done.status, done.err
        assert done.status in (0, 1), done.err
        document = json.loads(done.out)
        assert document["schema"] == 1
        assert document["would_trace"] == (done.status == 0)
        self.checks = {c["id"]: c for c in document["checks"]}
        assert len(self.checks) == len(document["checks"])
        for check in document["checks"]:
            assert list(check) == ["id", "status", "what", "detail",
                                   "advice"]
            assert check["status"] in (OK, WARN, BAD, NONE)
            assert check["detail"] and check["what"]
        self.bad = {i for i, c in self.checks.items() if c["status"] == BAD}
        assert bool(self.bad) == (done.status == 1)

    def says(self, check, status, *parts):
        found = self.checks[check]
        text = found["detail"] + "\n" + found["advice"]
        assert found["status"] == status, found
        for part in parts:
            assert part in text, found


# ---- The machine ----

def test_a_good_machine(gputrace, machine):
    (machine.root / "out").mkdir()
    a = Answer(gputrace, "--root", machine.root,
               env={"GPUTRACE_OUT": "/out/t.json"})
    assert a.status == 0
    a.says("driver", OK, "580.159.04", "/proc/driver/nvidia/version")
    a.says("libcuda", OK, "580.159.04", "CUDA 13.0")
    a.says("cupti", OK, "/usr/local/cuda-13.0/lib64/libcupti.so.13",
           "CUDA 13.0")
    a.says("versions", OK, "CUDA 13.0")
    a.says("counters", OK)
    assert {c["status"] for c in a.checks.values()} <= {OK, WARN}


def test_text_and_json_say_the_same(gputrace, machine):
    machine.put("proc/driver/nvidia/params", PARAMS % 1)
    a = Answer(gputrace, "--root", machine.root)
    text = gputrace("doctor", "--root", machine.root,
                    env={"LD_LIBRARY_PATH": ""})
    assert text.status == a.status
    lines = []
    for c in a.checks.values():
        lines.append("%-4s  %s: %s" % (c["status"], c["what"], c["detail"]))
        if c["advice"]:
            lines.append("        do: " + c["advice"])
    # the free space changes
    shape = [re.sub(r"\d+ MB", "N MB", l) for l in text.out.splitlines()]
    assert [re.sub(r"\d+ MB", "N MB", l) for l in lines] == shape[:-2]
    assert shape[-2:] == ["", "tracing would work"]


def stub(m):
    m.put("opt/stubs/libcuda.so.1", elf(["cuInit"]))


def wrong_kernel(m):
    m.driver("570.86.10")


def compat(m):
    m.drop(NVIDIA + "/libcuda.so.1")
    m.put("usr/lib64/compat/libcuda.so.590.44.01", elf(["cuInit"]))
    m.link("usr/lib64/libcuda.so.1", "compat/libcuda.so.590.44.01")


def old_driver(m):
    m.driver("550.54.14")
    m.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 "
          "Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n")


def old_driver_two_cuptis(m):
    old_driver(m)
    m.cupti("usr/local/cuda-12.4/lib64/libcupti.so.2024.1.1", "12")


def old_driver_newer_minor(m):
    old_driver(m)
    m.only_cupti("usr/local/cuda-12.8/lib64/libcupti.so.2025.1.0", "12")


def old_cupti(m):
    m.only_cupti("usr/local/cuda-11.8/extras/CUPTI/lib64/libcupti.so.2022."
                 "3.0", "11.8", names=CUPTI_118)


def no_cupti(m):
    m.drop("usr/local/cuda-13.0")


def wheel(m):
    m.only_cupti("usr/local/lib/python3.11/dist-packages/nvidia/cuda_cupti/"
                 "lib/libcupti.so.12", "12")


def cached(m):
    """/etc/ld.so.cache: dl-cache.h of glibc."""
    no_cupti(m)
    m.cupti("opt/hidden/libcupti.so.13", "13")
    key, value = b"libcupti.so.13\0", b"/opt/hidden/libcupti.so.13\0"
    flags = 0x303 if MACHINE == 62 else 0xa03
    m.put("etc/ld.so.cache", b"glibc-ld.so.cache1.1" + struct.pack(
        "<2I5I", 1, len(key + value), 2, 0, 0, 0, 0) + struct.pack(
        "<i3IQ", flags, 72, 72 + len(key), 0, 0) + key + value)


def torn_cache(m):
    cached(m)
    m.put("etc/ld.so.cache", b"glibc-ld.so.cache1.1" + struct.pack(
        "<2I5I", 2 ** 32 - 1, 9, 2, 0, 0, 0, 0) + b"\3\3\0\0" * 99)


def old_glibc(m):
    m.put(NVIDIA + "/libc.so.6", elf(["GLIBC_2.2.5", "GLIBC_2.17"]))


def put(path, content):
    return lambda m: m.put(path, content)


def drop(path):
    return lambda m: m.drop(path)


# what changes, environment, check, its status, what it says
MACHINES = {
    "no driver": (lambda m: (m.drop("proc/driver"), m.drop("dev")), {},
                  "driver", BAD, ["modprobe nvidia", "--gpus all"]),
    "no version": (drop("proc/driver"), {}, "driver", NONE, ["version"]),
    "version in /sys": (
        lambda m: (m.drop("proc/driver"),
                   m.put("sys/module/nvidia/version", "580.159.04\n")),
        {}, "driver", OK, ["580.159.04", "/sys/module/nvidia/version"]),
    "no libcuda": (drop(NVIDIA + "/libcuda.so.1"), {}, "libcuda", BAD,
                   ["libcuda.so.1"]),
    "libcuda is text": (put(NVIDIA + "/libcuda.so.580.159.04", "no ELF"), {},
                        "libcuda", BAD, []),
    "a stub": (stub, {"LD_LIBRARY_PATH": "/opt/stubs"}, "libcuda", BAD,
               ["/opt/stubs/libcuda.so.1", "LD_LIBRARY_PATH"]),
    "kernel and libcuda": (wrong_kernel, {}, "libcuda", BAD,
                           ["570.86.10", "580.159.04", "803"]),
    "forward compatibility": (compat, {}, "libcuda", OK,
                              ["590.44.01", "CUDA 13.1"]),
    "no control device": (drop("dev/nvidiactl"), {}, "devices", BAD,
                          ["/dev/nvidiactl", "nvidia-modprobe"]),
    "no uvm device": (drop("dev/nvidia-uvm"), {}, "devices", BAD,
                      ["/dev/nvidia-uvm", "nvidia-modprobe -u"]),
    "no GPU": (drop("dev/nvidia0"), {}, "devices", BAD, ["/dev/nvidia0"]),
    "WSL": (lambda m: (m.drop("proc/driver"), m.drop("dev"),
                       m.put("dev/dxg", "")), {}, "devices", OK, ["WSL"]),
    "no CUPTI": (no_cupti, {}, "cupti", BAD,
                 ["pip install nvidia-cuda-cupti", "GPUTRACE_CUPTI"]),
    "CUPTI in a wheel": (wheel, {}, "cupti", OK,
                         ["dist-packages/nvidia/cuda_cupti", "PyTorch"]),
    "CUPTI in the cache": (cached, {}, "cupti", OK,
                           ["/opt/hidden/libcupti.so.13", "cache"]),
    "a torn cache": (torn_cache, {}, "cupti", BAD, []),
    "GPUTRACE_CUPTI is not there": (
        no_cupti, {"GPUTRACE_CUPTI": "/nowhere/libcupti.so.13"}, "cupti",
        BAD, ["/nowhere/libcupti.so.13"]),
    "GPUTRACE_CUPTI": (lambda m: m.cupti("x/libcupti.so.12", "12"),
                       {"GPUTRACE_CUPTI": "/x/libcupti.so.12"}, "cupti", OK,
                       ["/x/libcupti.so.12", "GPUTRACE_CUPTI"]),
    "the driver's major first": (old_driver_two_cuptis, {}, "cupti", OK,
                                 ["cuda-12.4", "CUDA 12.4"]),
    "CUPTI of a newer major": (old_driver, {}, "versions", BAD,
                               ["CUDA 13.0", "CUDA 12.4", "cupti-cu12",
                                "NOT_INITIALIZED"]),
    "CUPTI of a newer minor": (old_driver_newer_minor, {}, "versions", WARN,
                               ["CUDA 12.8", "CUDA 12.4"]),
    "CUPTI of an older major": (old_cupti, {}, "versions", OK,
                                ["CUDA 11.8", "CUDA 13.0", "GPUs"]),
    "no CUPTI of ours": (
        lambda m: m.only_cupti("usr/lib64/libcupti.so.12", "12", names=["x"]),
        {}, "cupti", BAD, ["no CUPTI"]),
    "glibc of CentOS 7": (old_glibc, {}, "glibc", BAD, ["2.17"]),
    "musl": (drop(NVIDIA + "/libc.so.6"), {}, "glibc", NONE, ["musl"]),
    "counters": (put("proc/driver/nvidia/params", PARAMS % 1), {}, "counters",
                 WARN, ["NVreg_RestrictProfilingToAdminUsers=0",
                        "/etc/modprobe.d", "--cap-add=SYS_ADMIN"]),
    "counters for us": (
        lambda m: (m.put("proc/driver/nvidia/params", PARAMS % 1),
                   m.put("proc/self/status",
                         "Name:\tx\nCapEff:\t0000000000200000\n")),
        {}, "counters", OK, ["CAP_SYS_ADMIN"]),
    "perf": (put("proc/sys/kernel/perf_event_paranoid", "4\n"), {}, "perf",
             WARN, ["sudo sysctl kernel.perf_event_paranoid=2"]),
    "ptrace": (put("proc/sys/kernel/yama/ptrace_scope", "1\n"), {}, "ptrace",
               WARN, ["sudo sysctl kernel.yama.ptrace_scope=0"]),
    "no ptrace at all": (put("proc/sys/kernel/yama/ptrace_scope", "3\n"), {},
                         "ptrace", WARN, ["3"]),
    "a folder that is not there": (
        lambda m: None, {"GPUTRACE_OUT": "/out/t.json"}, "output", BAD,
        ["/out", "mkdir -p"]),
    "a folder from a pattern": (
        lambda m: None, {"GPUTRACE_OUT": "/%h/t.json"}, "output", NONE,
        ["/%h/"]),
    "no room": (lambda m: (m.root / "out").mkdir(),
                {"GPUTRACE_OUT": "/out/t.json", "GPUTRACE_MAX_SIZE": "9000T"},
                "space", WARN, ["--max-size"]),
    "a bad setting": (lambda m: None, {"GPUTRACE_FLUSH": "banana"},
                      "settings", WARN, ["GPUTRACE_FLUSH", "banana"]),
    "an unknown setting": (lambda m: None, {"GPUTRACE_OUTT": "x"},
                           "settings", WARN, ["GPUTRACE_OUTT"]),
    "nothing is recorded": (lambda m: None, {"GPUTRACE_TRACE": "nvtx"},
                            "window", BAD, ["GPUTRACE_TRACE=nvtx"]),
    "waits for a start": (lambda m: None, {"GPUTRACE_START": "off"}, "window",
                          OK, ["GPUTRACE_START=off", "gputrace start"]),
    "waits for a signal": (
        lambda m: None, {"GPUTRACE_START": "off", "GPUTRACE_CONTROL": "off",
                         "GPUTRACE_SIGNAL": "USR2"}, "window", OK,
        ["GPUTRACE_SIGNAL"]),
    "never starts": (
        lambda m: None, {"GPUTRACE_START": "off", "GPUTRACE_CONTROL": "off"},
        "window", BAD, ["GPUTRACE_START=off", "unset GPUTRACE_CONTROL"]),
    "in steps": (lambda m: None, {"GPUTRACE_SCHEDULE": "wait=1,active=2"},
                 "window", OK, ["wait=1,active=2"]),
    "profiler-api": (lambda m: None, {"GPUTRACE_START": "profiler-api"},
                     "window", OK, ["cudaProfilerStart"]),
    "nsys injects": (
        lambda m: None,
        {"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"},
        "injection", BAD, ["libToolsInjection64.so",
                           "unset CUDA_INJECTION64_PATH"]),
    "NVTX is taken": (lambda m: None, {"NVTX_INJECTION64_PATH": "/x/y.so"},
                      "injection", WARN, ["/x/y.so"]),
    "under nsys": (lambda m: None, {"NSYS_PROFILING_SESSION_ID": "1"},
                   "tools", WARN, ["nsys"]),
    "under ncu": (lambda m: None, {"NV_TPS_LAUNCH_TOKEN": "1"}, "tools", WARN,
                  ["ncu"]),
}


@pytest.mark.parametrize("case", MACHINES.values(), ids=MACHINES.keys())
def test_machines(gputrace, machine, case):
    change, env, check, status, parts = case
    change(machine)
    Answer(gputrace, "--root", machine.root, env=env).says(check, status,
                                                           *parts)


def test_an_absolute_link_stays_below_the_root(gputrace, machine):
    """/usr/local/cuda -> /etc/alternatives/cuda -> /usr/local/cuda-13.0"""
    machine.link("etc/alternatives/cuda", "/usr/local/cuda-13.0")
    machine.link("usr/local/cuda", "/etc/alternatives/cuda")
    Answer(gputrace, "--root", machine.root).says(
        "cupti", OK, "/usr/local/cuda/lib64/libcupti.so.13", "CUDA 13.0")


@pytest.mark.parametrize("root", ["/nowhere/at all", "/etc/passwd"])
def test_no_such_root(gputrace, root):
    done = gputrace("doctor", "--root", root)
    assert (done.status, done.out) == (3, "")
    assert root in done.err and len(done.err.splitlines()) == 1


# ---- Processes made of files ----

OURS, CUDA = "/opt/libgputrace.so", "/" + NVIDIA + "/libcuda.so.580.159.04"
CUPTI = "/usr/local/cuda-13.0/lib64/libcupti.so.2025.3.1"
TRACED = dict(maps=[OURS, CUDA, CUPTI], fds=["/dev/null", "/dev/nvidia0"],
              environ=["LD_PRELOAD=" + OURS],
              threads=["prog", "gputrace-flush", "gputrace-writer"])


def but(**change):
    return dict(TRACED, **change)


PROCESSES = {
    "traced": (TRACED, "attached", OK, []),
    "the library": (TRACED, "preload", OK, [OURS, "0.1.0"]),
    "in a container": (TRACED, "process", OK, ["1234", "17", "uid 1000"]),
    "CUDA": (TRACED, "cuda", OK, [CUDA]),
    "libcupti": (TRACED, "cupti", OK, [CUPTI, "already"]),
    "a wheel beside cudart": (dict(
        maps=["/venv/nvidia/cuda_runtime/lib/libcudart.so.12", CUDA]),
        "cupti", OK, ["/venv/nvidia/cuda_cupti/lib/libcupti.so.12",
                      "beside /venv/nvidia/cuda_runtime"]),
    "the loader first": (dict(maps=["/usr/lib/libcudart.so.13"]), "cupti",
                         OK, ["/usr/local/cuda-13.0/lib64"]),
    "alone": (TRACED, "holder", OK, ["none"]),
    "no file yet": (TRACED, "trace", WARN, ["GPUTRACE_OUT", "stderr"]),
    "waits": (but(environ=["GPUTRACE_START=profiler-api"]), "trace", NONE,
              ["cudaProfilerStart"]),
    "waits for a range": (but(environ=["GPUTRACE_START=nvtx:train"]), "trace",
                          NONE, ["nvtx:train"]),
    "a flight recorder": (but(environ=["GPUTRACE_RECORDER=30"]), "trace", NONE,
                          ["GPUTRACE_RECORDER"]),
    "replaced": (but(maps=[OURS + " (deleted)", CUDA]), "preload", WARN,
                 ["start it again"]),
    "another version": (but(notes=note("0.0.9")), "preload", WARN,
                        ["0.0.9", "0.1.0"]),
    "no version": (but(notes=b""), "preload", WARN, []),
    "a torn note": (but(notes=b"\xff" * 40), "preload", WARN, []),
    "not loaded": (dict(), "preload", BAD, ["gputrace record"]),
    "not there": (dict(environ=["LD_PRELOAD=/gone/libgputrace.so"]),
                  "preload", BAD, ["/gone/libgputrace.so"]),
    "refused": (dict(environ=["LD_PRELOAD=" + OURS]), "preload", BAD,
                ["stderr"]),
    "setuid": (dict(environ=["LD_PRELOAD=" + OURS], auxv=[(23, 1)]),
               "preload", BAD, ["setuid"]),
    "not setuid": (dict(environ=["LD_PRELOAD=" + OURS], auxv=[(23, 0)]),
                   "preload", BAD, ["stderr"]),
    "static": (dict(interp=""), "preload", BAD, ["static"]),
    "musl": (dict(interp="/lib/ld-musl-x86_64.so.1"), "preload", BAD,
             ["musl"]),
    "injected later": (dict(environ=["CUDA_INJECTION64_PATH=" + OURS]),
                       "preload", OK, ["CUDA starts"]),
    "no CUDA": (dict(maps=[OURS]), "cuda", NONE, ["not in use"]),
    "inert": (dict(maps=[OURS]), "attached", NONE, ["waits"]),
    "before cuInit": (dict(maps=[OURS, CUDA]), "cuda", NONE, ["cuInit"]),
    "a stub": (dict(maps=["/cuda/lib64/stubs/libcuda.so"]), "cuda", BAD,
               ["stub"]),
    "gave up": (but(threads=["prog"]), "attached", BAD,
                ["stderr", "forked"]),
    "half": (but(threads=["prog", "gputrace-flush"]), "attached", WARN,
             ["gputrace-flush"]),
    "nsys was first": (but(threads=["prog"], environ=[
        "CUDA_INJECTION64_PATH=/x/libToolsInjection64.so"]), "attached", BAD,
        ["libToolsInjection64.so"]),
    "two copies": (but(maps=[*TRACED["maps"], "/triton/libcupti.so.12"]),
                   "copies", WARN, [CUPTI, "/triton/libcupti.so.12"]),
    "nsys": (but(maps=["/nsys/libToolsInjection64.so"]), "holder", WARN,
             ["nsys"]),
    "nsys alone": (dict(maps=["/nsys/libToolsInjection64.so"]), "holder", BAD,
                   ["nsys"]),
    "compute-sanitizer": (dict(maps=["/x/libsanitizer-collection.so"]),
                          "holder", BAD, ["compute-sanitizer"]),
    "torch": (but(maps=["/torch/lib/libtorch_cpu.so"]), "holder", OK,
              ["torch.profiler"]),
    "a debugger": (but(tracer=99), "holder", WARN, ["99"]),
    "its settings": (but(environ=["GPUTRACE_API=all", "X=1", "GPUTRACE_OUT=x"]),
                     "settings", OK, ["2", "GPUTRACE_API=all",
                                      "GPUTRACE_OUT=x"]),
    "settings": (but(environ=["GPUTRACE_API=some"]), "settings", WARN,
                 ["GPUTRACE_API", "some"]),
    "its own folder": (TRACED, "output", OK, ["/work"]),
    "its capabilities": (TRACED, "ptrace", OK, []),
}


@pytest.mark.parametrize("case", PROCESSES.values(), ids=PROCESSES.keys())
def test_processes(gputrace, machine, case):
    given, check, status, parts = case
    machine.process(**given)
    if "/venv/" in str(given):
        machine.only_cupti("venv/nvidia/cuda_cupti/lib/libcupti.so.12", "12")
    Answer(gputrace, "--root", machine.root, 1234).says(check, status, *parts)


def test_a_traced_process_is_well(gputrace, machine):
    machine.process(**TRACED)
    assert Answer(gputrace, "--root", machine.root, 1234).status == 0


@pytest.mark.parametrize("given, word", [
    (dict(state="Z (zombie)"), "ended"), (dict(kernel=True), "kernel"),
], ids=["zombie", "kernel"])
def test_nothing_to_look_at(gputrace, machine, given, word):
    machine.process(**given)
    done = gputrace("doctor", "--root", machine.root, 1234)
    assert (done.status, done.out) == (3, "")
    assert "1234" in done.err and word in done.err
    assert len(done.err.splitlines()) == 1


EVIL = "/tmp/\\012bad  x: y\x1b[31m\"\\\u202e/libcuda.so.1"


def test_hostile_names(gputrace, machine):
    """What /proc says is another's: lines stay lines, JSON stays JSON."""
    machine.process(maps=[OURS, EVIL], environ=[
        "GPUTRACE_\n\x1b]0;x\a\"=1", "GPUTRACE_OUT=/\x1b[2J/x",
        "CUDA_INJECTION64_PATH=/\udcff\"\\", "no equals sign", ""],
        threads=["\x1b[31m\n"])
    a = Answer(gputrace, "--root", machine.root, 1234)
    a.says("cuda", NONE, '\\x0abad', '\\x1b[31m"\\', "\\xe2\\x80\\xae")
    a.says("injection", BAD, '"\\')
    text = gputrace("doctor", "--root", machine.root, 1234).out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    for line in text.splitlines()[:-2]:
        assert re.match(r"(ok  |warn|bad |-   )  |        do: ", line), line


@pytest.mark.parametrize("maps", [
    b"", b"\n\n\n", b"x" * 100000, b"/", b"\xff/\n/ (deleted)\n",
    b"7f-7f r 0 0 99999999999999999999999 /libcupti.so\n" * 3])
def test_hostile_maps(gputrace, machine, maps):
    machine.process(**TRACED)
    machine.put("proc/1234/maps", maps)
    done = gputrace("doctor", "--root", machine.root, 1234)
    assert done.status in (1, 3) and len(done.err.splitlines()) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_hostile_libraries(gputrace, machine, seed):
    """ELF files with bytes that make no sense: an answer, no crash."""
    machine.process(**TRACED)
    for path in (OURS[1:], CUPTI[1:], CUDA[1:], NVIDIA + "/libc.so.6"):
        data = bytearray((machine.root / path).read_bytes())
        for i in range(8):
            data[(seed * 37 + i * 61) % min(len(data), 340)] ^= 1 << seed % 8
        machine.put(path, bytes(data[:len(data) - seed * 3]))
    assert gputrace("doctor", "--root", machine.root, 1234).status in (0, 1)


TAIL = '"gputrace":{"version":"0.1.0","losses":%s},"traceName":"t.json"}'
LOST = '{"ring full":3,"dropped by CUPTI":2,"not written":0}'
FILES = {
    "losses": ('{"traceEvents":[],' + TAIL % LOST, WARN,
               ["5 in all: 3 ring full; 2 dropped by CUPTI", "--buffer"]),
    "none": ('{"traceEvents":[],' + TAIL % "{}", OK, ["none"]),
    "in a name": ('{"traceEvents":[{"name":"\\"gputrace\\":{"}],' +
                  TAIL % "{}", OK, ["none"]),
    "the last": ('{"traceEvents":[],' + TAIL[:-1] % "{}" + "," +
                 TAIL % LOST, WARN, ["5"]),
    "cut": ('{"traceEvents":[],' + TAIL[:-9] % LOST, NONE, ["not read"]),
    "no end": ('{"traceEvents":[' + '{"ph":"X"},' * 9, NONE, ["not read"]),
    "of another": ('{"traceEvents":[],"gputrace":{"x":1}}', NONE, []),
    "empty": ("", NONE, []),
    "huge": ('{"traceEvents":[],' + TAIL % '{"ring full":99999999999999999'
             '99}', OK, []),
    "gz": (b"\x1f\x8b no gzip", NONE, []),
}


@pytest.mark.parametrize("names", [
    ["/out/.t.json.gputrace-twin (deleted)"], ["/out/t.json"],
    ["/x", "/out/.t.json.gputrace-twin"]], ids=["deleted", "seen", "twin"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "its own"])
def test_the_file_is_found(gputrace, machine, names, own):
    """Among the process's descriptors, or those of the writer alone."""
    machine.put("out/t.json", FILES["losses"][0])
    machine.process(**but(**{"writer_fds": names, "environ":
                             ["GPUTRACE_OUT=/out/t.json"]},
                          fds=["/dev/nvidia0", *([] if own else names)]))
    a = Answer(gputrace, "--root", machine.root, 1234)
    a.says("trace", OK, "/out/t.json", "s ago")
    a.says("losses", WARN, "5 in all: 3 ring full; 2 dropped by CUPTI")


@pytest.mark.parametrize("case", FILES.values(), ids=FILES.keys())
def test_losses_of_a_file(gputrace, machine, case):
    content, status, parts = case
    machine.put("out/t.json", content)
    machine.process(**but(writer_fds=["/out/.t.json.gputrace-twin"]))
    Answer(gputrace, "--root", machine.root, 1234).says("losses", status,
                                                        *parts)


@pytest.mark.parametrize("pattern, name", [
    ("%h-%p.json", "host-17.json"), ("/a/%n.json.gz", "x-2.json.gz"),
    ("t.json", "t-1234.json"), ("t.json", "t.r3.json"), ("t", "t"),
    ("a[1]*.json", "a[1]*.json")])
def test_the_file_of_a_pattern(gputrace, machine, pattern, name):
    machine.put("a/" + name, FILES["none"][0])
    machine.process(**but(environ=["GPUTRACE_OUT=" + pattern],
                          writer_fds=["/a/other.txt", "/a/" + name]))
    Answer(gputrace, "--root", machine.root, 1234).says("trace", OK,
                                                        "/a/" + name)


# ---- Real processes ----

@pytest.fixture
def decode(tmp_path):
    """decode on the simulated GPU, and the file that it writes: it runs until
    the test ends."""
    running = []

    def begin(out="t.json", wait=True, **settings):
        path = tmp_path / out
        process = start("decode", "--seconds", 60, "--sync-ms", 5,
                        "--kernels", 4, GPUTRACE_OUT=path,
                        GPUTRACE_FLUSH="100ms", **settings)
        running.append(process)
        deadline = time.monotonic() + 20
        while wait and not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return process, path

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("out", ["t.json", "t.json.gz"])
def test_a_traced_program(gputrace, decode, out):
    process, path = decode(out)
    a = Answer(gputrace, process.pid)
    assert a.status == 0, a.checks
    a.says("preload", OK, str(LIBRARY))
    a.says("cuda", OK, "simulated")
    a.says("attached", OK)
    a.says("copies", OK, "libcupti.so.13")
    a.says("trace", OK, str(path), "MB", "s ago")
    a.says("losses", OK, "none")
    a.says("output", OK, str(path.parent))


def test_losses_are_told(gputrace, decode):
    """Every 10th record is dropped by the simulated CUPTI."""
    process, _ = decode(SIM_DROP=10)
    deadline = time.monotonic() + 20
    a = Answer(gputrace, process.pid)
    while a.checks["losses"]["status"] != WARN and \
            time.monotonic() < deadline:
        time.sleep(0.1)
        a = Answer(gputrace, process.pid)
    a.says("losses", WARN, "dropped by CUPTI")
    assert a.status == 0


def wait_for(path, text):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if text in path.read_bytes():
            return
        time.sleep(0.02)
    raise TimeoutError(str(path))


def test_an_untraced_program(gputrace, decode):
    process, _ = decode(wait=False, traced=False)
    wait_for(pathlib.Path("/proc/%d/maps" % process.pid), b"libcuda.so.1")
    a = Answer(gputrace, process.pid)
    assert a.status == 1 and a.bad == {"preload"}
    a.says("attached", NONE)
    a.says("trace", NONE)


def test_tracing_that_did_not_start(gputrace, decode):
    """CUPTI is held by somebody: there is no file, and the reason is told."""
    process, path = decode(wait=False, SIM_SUBSCRIBER="nsys")
    assert process.stderr.readline().startswith(b"gputrace: not tracing")
    a = Answer(gputrace, process.pid)
    assert a.checks["trace"]["status"] in (WARN, NONE)
    assert "OK" not in a.checks["trace"]["detail"] and not path.exists()


@pytest.mark.skipif(bool(SANITIZED), reason="a shell without the sanitizer")
def test_an_inert_shell(gputrace):
    process = start("/bin/sh", "-c", "echo; kill -STOP $$")
    try:
        process.stdout.read(1)
        a = Answer(gputrace, process.pid)
    finally:
        process.kill()
        process.communicate()
    assert a.status == 0
    a.says("preload", OK, str(LIBRARY))
    a.says("cuda", NONE)
    a.says("attached", NONE, "waits")


def test_a_thread_is_its_process(gputrace, decode):
    process, _ = decode()
    other = int(threads(process.pid)["gputrace-writer"].name)
    assert other != process.pid
    Answer(gputrace, other).says("process", OK, "pid %d," % process.pid)


def test_a_process_that_is_gone(gputrace):
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    done = gputrace("doctor", process.pid)
    assert (done.status, done.out) == (3, "")
    assert str(process.pid) in done.err and len(done.err.splitlines()) == 1


@pytest.mark.parametrize("pid", ["abc", "0", "-1", "", "12x", "99999999999",
                                 "1 2"])
def test_no_pid(gputrace, pid):
    done = gputrace("doctor", "--", pid)
    assert (done.status, done.out) == (2, "")


@pytest.mark.parametrize("args", [["1", "2"], ["--format", "xml"],
                                  ["--nonsense"], ["--root"]])
def test_usage(gputrace, args):
    done = gputrace("doctor", *args)
    assert (done.status, done.out) == (2, "")
    assert "--help" in done.err


@pytest.fixture
def as_nobody():
    """Runs a copy of the command as a user who is nobody."""
    if os.geteuid():
        pytest.skip("not root")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        shutil.copy(BUILD / "gputrace", folder)

        def command(*args, **env):
            return subprocess.run(
                [folder + "/gputrace", *map(str, args)], user=65534,
                group=65534, extra_groups=[], capture_output=True, text=True,
                check=False, cwd="/", env=env)
        yield command


def test_a_process_of_somebody_else(as_nobody):
    done = as_nobody("doctor", os.getpid())
    assert (done.returncode, done.stdout) == (3, "")
    assert "uid 0" in done.stderr and "root" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_this_user_may_not(as_nobody):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        machine = Machine(pathlib.Path(folder))
        for device in machine.root.glob("dev/*"):
            device.chmod(0o660)
        (machine.root / "out").mkdir(0o755)
        done = as_nobody("doctor", "--root", folder, "--format", "json",
                         GPUTRACE_OUT="/out/t.json")
    checks = {c["id"]: c for c in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert checks["devices"]["status"] == BAD
    assert "/dev/nvidia" in checks["devices"]["detail"]
    assert "usermod" in checks["devices"]["advice"]
    assert checks["output"]["status"] == BAD


# ---- Doctor and the library choose the same libcupti ----

def chosen(line):
    return re.search(r"CUPTI \d+ from (\S+)", line).group(1)


@pytest.mark.parametrize("folders", [["", "12", "11"], ["11", "12"]],
                         ids=["all", "old ones"])
def test_the_same_soname(gputrace, tmp_path, folders):
    """Without a driver's version the newest, whatever the folders' order."""
    env = {"LD_LIBRARY_PATH": ":".join(
        str(BUILD / "sim" / f) for f in [*folders, "."])}
    done = run("decode", GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_LOG="info", **env)
    Answer(gputrace, env=env).says("cupti", OK, os.path.basename(
        chosen(done.err)))


@pytest.mark.parametrize("way", ["LD_LIBRARY_PATH", "GPUTRACE_CUPTI"])
def test_the_same_choice(gputrace, tmp_path, way):
    where = tmp_path / "copy"
    where.mkdir()
    copy = where / "libcupti.so.13"
    shutil.copy(BUILD / "sim" / "libcupti.so.13", copy)
    env = {"LD_LIBRARY_PATH": "%s:%s" % (where, BUILD / "sim")} \
        if way == "LD_LIBRARY_PATH" else \
        {"GPUTRACE_CUPTI": str(copy), "LD_LIBRARY_PATH": str(BUILD / "sim")}
    done = run("decode", GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_LOG="info", **env)
    assert chosen(done.err) == str(copy)
    Answer(gputrace, env=env).says("cupti", OK, str(copy), way)


# ---- A container ----

@pytest.fixture
def container(tmp_path):
    """decode in mount and PID namespaces of its own; its folder is seen
    nowhere else.  Its pid here."""
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*command, "true"], capture_output=True,
                      check=False).returncode:
        pytest.skip("no namespaces")
    if not pathlib.Path("/proc/%d/task/%d/children" %
                        (os.getpid(), os.getpid())).exists():
        pytest.skip("the kernel does not tell a process's children")
    inside = tmp_path / "inside"
    inside.mkdir()
    script = ("mount -t tmpfs none %s && cp %s %s %s/sim/lib*.so* %s && cd %s"
              " && LD_LIBRARY_PATH=$PWD LD_PRELOAD=$PWD/libgputrace.so"
              " GPUTRACE_FLUSH=100ms exec ./decode --seconds 60 --sync-ms 5"
              " --kernels 4" % (inside, LIBRARY, BUILD / "host" / "decode",
                                BUILD, inside, inside))
    outer = subprocess.Popen([*command, "sh", "-c", script],
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    children = pathlib.Path("/proc/%d/task/%d/children" %
                            (outer.pid, outer.pid))
    deadline, pid = time.monotonic() + 20, 0
    while not pid and time.monotonic() < deadline:
        time.sleep(0.05)
        found = children.read_text().split()
        if found and list(pathlib.Path("/proc", found[0], "cwd").glob(
                "gputrace-*.json")):
            pid = int(found[0])
    yield pid, inside
    for child in children.read_text().split():
        os.kill(int(child), 9)
    outer.wait()


@pytest.mark.skipif(bool(SANITIZED), reason="cp without the sanitizer")
def test_a_process_in_a_container(gputrace, container):
    pid, inside = container
    assert pid and not list(inside.iterdir())
    a = Answer(gputrace, pid)
    assert a.status == 0, a.checks
    a.says("process", OK, "pid %d" % pid, "pid 1 in its container")
    a.says("preload", OK, "%s/libgputrace.so, version" % inside)
    a.says("cupti", OK, "%s/libcupti.so.13" % inside, "already")
    a.says("trace", OK, str(inside / "gputrace-"), "MB")
    a.says("losses", OK)
    a.says("output", OK, str(inside))
