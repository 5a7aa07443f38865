# SPDX-License-Identifier: MIT
"""Every call of the library that can fail, fails: the program does not notice.

A run of a host program with one fault (faults.c) is harmed if its output or
exit status is not what it is without the library, if it does not end, if its
stderr has anything but a few lines of ours, if a file is left that is not
whole, or if less is in it than without the fault and nobody says so.
`make faults` tries every call; test_faults.py a part.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tracing import BUILD, LIBRARY, ROOT, Trace, environment

SHIM = BUILD / "faults" / "libfaults.so"
# Results that CUPTI gives: invalid parameter, wrong kind, not initialised, no
# privileges, several subscribers, unknown.
CUPTI_CODES = (1, 8, 15, 35, 39, 999)
# Calls of one function that are tried one by one; beyond them its last.
EACH = 130
# An end of two seconds at most, and a slow machine.
TIME_LIMIT = 60
LINES_MAX = 8

# Names for all calls that take memory, and that change files (faults.c).
GROUPS = ("memory", "files")

Fault = collections.namedtuple("Fault", "scene name nth stays code",
                               defaults=(False, None))

# Our names of files that end with their writer; not where that is the fault.
LEFTOVER = re.compile(r"\..*\.gputrace-twin2?")
MAY_LEAVE = {"unlink", "__cxa_atexit", "files", "syscall", "memory"}
# Before main nothing is said: the process may well be one without CUDA.
SPEECHLESS = {"realpath", "dladdr"}

# What each scene is for: the plain way; patterns, gz, rotation, threads,
# memory; windows and a log file; samplers; a program without CUDA; no CUPTI.
SCENES = {
    "plain": (["decode", "--steps", "2"],
              {"GPUTRACE_FLUSH": "2ms", "GPUTRACE_OUT": "t.json"}),
    "parts": (["decode", "--steps", "8", "--threads", "3"],
              {"GPUTRACE_OUT": "%n-%p-%t.json.gz", "GPUTRACE_KEEP": "2",
               "GPUTRACE_LOG": "info:log",
               "GPUTRACE_MAX_SIZE": "60K", "GPUTRACE_FLUSH": "2ms",
               "GPUTRACE_TRACE": "cuda,nvtx,memory,uvm"}),
    "packed": (["memory"], {"GPUTRACE_FLUSH": "2ms",
                            "GPUTRACE_TRACE": "cuda,nvtx,memory",
                            "GPUTRACE_OUT": "t.json.gz"}),
    "windows": (["windows"],
                {"GPUTRACE_START": "profiler-api", "GPUTRACE_OUT": "%p.%w.json",
                 "GPUTRACE_FLUSH": "2ms"}),
    "samplers": (["decode", "--steps", "3"],
                 {"GPUTRACE_OUT": "t.json", "GPUTRACE_FLUSH": "2ms",
                  "GPUTRACE_TRACE": "cuda,nvtx,cpu,nvml,osrt",
                  "GPUTRACE_OSRT_MIN": "1ns"}),
    "inert": (["inert", "--nvtx", "--exit", "3"], {}),
    "lonely": (["decode", "--steps", "1"], {"GPUTRACE_CUPTI": "/nowhere"}),
}


def spell(fault):
    text = "%s:%d%s" % (fault.name, fault.nth, "+" if fault.stays else "")
    return text if fault.code is None else text + "=%d" % fault.code


def start(scene, folder, traced=True, fault=None):
    args, settings = SCENES[scene]
    env = environment(traced, **settings)
    if traced:
        env["LD_PRELOAD"] = "%s:%s" % (LIBRARY, SHIM)
        env["FAULT_REPORT"] = str(folder / "report")
    if fault:
        env["FAULT"] = spell(fault)
    return subprocess.run(
        [BUILD / "host" / args[0], *args[1:]], cwd=folder, env=env,
        capture_output=True, timeout=TIME_LIMIT, check=False)


def word(done):
    """Status and output; `inert` also says whether the library is there."""
    return done.returncode, re.sub(rb', "preloaded": \d', b"", done.stdout)


def bad_lines(done):
    lines = done.stderr.decode(errors="replace").splitlines()
    if len(lines) > LINES_MAX:
        return "%d lines on stderr" % len(lines)
    return next(("stderr: " + l for l in lines
                 if not l.startswith("gputrace: ")), "")


def may_leave(fault, folder, done):
    """A writer that was left behind at the end says so."""
    log = folder / "log"
    said = done.stderr + (log.read_bytes() if log.exists() else b"")
    return fault.name in MAY_LEAVE or b" in time;" in said


def bad_files(folder, fault, done):
    for path in folder.iterdir():
        if LEFTOVER.fullmatch(path.name) and \
                not may_leave(fault, folder, done):
            return "%s is left" % path.name
        if path.name in ("report", "log") or path.name.startswith("."):
            continue
        try:
            Trace(path)
        except Exception as error:          # pylint: disable=W0718
            return "%s: %r" % (path.name, error)
    return ""


def content(folder):
    """What the files hold, by kind; our own work is not the program's."""
    held = collections.Counter()
    for path in folder.glob("[!.]*.json*"):
        trace = Trace(path)
        slices = [e for e in trace.slices() if e["cat"] != "overhead"]
        held.update(e["cat"] for e in slices)
        held["counter"] += sum(e.get("ph") == "C" for e in trace.events)
        held["mark"] += len(trace.marks())
        held["named"] += len([e for e in slices
                              if "nknown" not in e["name"]])
    return held


def is_told(done):
    """A line other than the one that says that nothing is lost."""
    said = done.stderr.decode(errors="replace").splitlines()
    return any(not re.search(r": \d+ kernels, 0 lost$", l) for l in said)


def silent_loss(fault, folder, done, expected):
    if fault.name in SPEECHLESS or fault.name == "write" and fault.stays:
        return ""
    lost = expected - content(folder)
    if fault.name == "cuptiGetCallbackName":
        del lost["named"]       # the number stands in the name's place
    return "" if not lost or is_told(done) else \
        "nobody says that this is lost: %r" % dict(lost)


def harm(fault, folder, expected, held):
    """How a run with the fault harmed the program, or ''; whether a call
    failed in it."""
    try:
        done = start(fault.scene, folder, fault=fault)
    except subprocess.TimeoutExpired:
        return "it does not end", True
    if word(done) != expected:
        return "%d, %r, %r" % (done.returncode, done.stdout, done.stderr), True
    report = json.loads((folder / "report").read_text())
    return bad_lines(done) or bad_files(folder, fault, done) or \
        silent_loss(fault, folder, done, held), report["failed"] > 0


class Sweep:
    """Runs faults, some at a time, and keeps what came of them."""

    def __init__(self):
        self.injected, self.harmed, self.slowest_s = 0, [], 0
        self.expected, self.held, self.calls = {}, {}, {}
        self.unknown = set()
        for scene in SCENES:
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                self.expected[scene] = word(start(scene, folder, False))
                self._count(scene, folder)

    def _count(self, scene, folder):
        done = start(scene, folder)
        assert word(done) == self.expected[scene], done
        report = json.loads((folder / "report").read_text())
        self.calls[scene] = report["calls"]
        self.unknown |= set(report["unknown"])
        # Which files stay of those that rotate, and what a sampler sees, is a
        # matter of time.
        self.held[scene] = collections.Counter() if scene in (
            "parts", "samplers") else content(folder)

    def one(self, fault):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="fault-"))
        began = time.monotonic()
        how, failed = harm(fault, folder, self.expected[fault.scene],
                           self.held[fault.scene])
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.injected += failed
        if how:
            self.harmed.append("%s, %s: %s" % (fault.scene, spell(fault),
                                               how))
            print(self.harmed[-1], file=sys.stderr, flush=True)
        shutil.rmtree(folder)

    def run(self, faults):
        """Returns those that did harm."""
        before = len(self.harmed)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in pool.map(self.one, faults):
                assert done is None
        return self.harmed[before:]

    def faults(self, scene, each=EACH):
        """Those of the C library's calls: one by one, and from one on."""
        for name, nr in self.calls[scene].items():
            if not nr or name.startswith("cupti"):
                continue
            for nth in {*range(1, min(nr, each) + 1), nr}:
                yield Fault(scene, name, nth)
            for nth in {1, (nr + 1) // 2}:
                yield Fault(scene, name, nth, True)

    def group_faults(self, scene, name, step=1):
        """From any call of the group on all fail."""
        for nth in range(1, self.calls[scene][name] + 1, step):
            yield Fault(scene, name, nth, True)

    def cupti_faults(self, scene, codes=CUPTI_CODES):
        for name, nr in self.calls[scene].items():
            if not nr or not name.startswith("cupti"):
                continue
            for code in codes:
                for nth in {1, (nr + 1) // 2, nr}:
                    yield Fault(scene, name, nth, False, code)
                    yield Fault(scene, name, nth, True, code)


def cupti_table():
    """The functions that collector/cupti_api.h lists."""
    text = (ROOT / "collector" / "cupti_api.h").read_text()
    return {"cupti" + name for name in
            re.findall(r"\t(?:REQUIRED|OPTIONAL)\((\w+),", text)}


def main():
    sweep, began = Sweep(), time.monotonic()
    for scene in SCENES:
        sweep.run(sweep.faults(scene))
        sweep.run(sweep.cupti_faults(scene))
        for group in GROUPS:
            sweep.run(sweep.group_faults(scene, group))
    if sweep.unknown:
        print("not in test/faults/faults.c: %s" %
              ", ".join(sorted(sweep.unknown)), file=sys.stderr)
    print(json.dumps({
        "name": "faults injected", "value": sweep.injected,
        "unit": "runs", "harmed": len(sweep.harmed),
        "slowest_s": round(sweep.slowest_s, 2),
        "seconds": round(time.monotonic() - began, 1)}))
    return 1 if sweep.harmed or sweep.unknown else 0


if __name__ == "__main__":
    sys.exit(main())
