# SPDX-License-Identifier: MIT
"""Runs a program under libgputrace.so on the simulated GPU and reads its trace.

The reader knows the file format's specification (Kineto's dialect), not the
writer: it parses with Python's strict JSON and keeps times as integers of ns.
"""
import collections
import contextlib
import gzip
import json
import os
import pathlib
import subprocess
import sys
from decimal import Decimal

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = (ROOT / os.environ.get("O", "build")).resolve()
LIBRARY = BUILD / "libgputrace.so"
JUDGE = pathlib.Path(os.environ.get("GPUTRACE_JUDGE") or
                     ROOT.parent / "shared" / "tools") / "check_trace.py"
GPU_WORK = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_graph"}
GPU_PID, LANE_TID = 5000000, 5000000
SANITIZED = os.environ.get("SAN", "")


def environment(traced=True, **settings):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GPUTRACE_", "CUDA_INJECTION",
                                "NVTX_INJECTION"))}
    env["LD_LIBRARY_PATH"] = str(BUILD / "sim")
    if SANITIZED:       # the library brings the sanitizer, and comes late
        env.setdefault("ASAN_OPTIONS",
                       "verify_asan_link_order=0:detect_leaks=0")
    if traced:
        env["LD_PRELOAD"] = str(LIBRARY)
    env.update({k: str(v) for k, v in settings.items()})
    return env


def start(program, *args, traced=True, cwd=None, **settings):
    """Starts a host program (by name) or another one (by path)."""
    path = BUILD / "host" / program if "/" not in str(program) else program
    return subprocess.Popen(
        [str(path), *map(str, args)], stdout=subprocess.PIPE, cwd=cwd,
        stderr=subprocess.PIPE, env=environment(traced, **settings))


class Run:
    """A program that has ended: status, out, err, and its word in JSON."""

    def __init__(self, process, timeout):
        out, err = process.communicate(timeout=timeout)
        self.status = process.returncode
        self.out = out.decode(errors="replace")
        self.err = err.decode(errors="replace")

    @property
    def did(self):
        """What the program says it did, section by section."""
        lines = [l for l in self.out.splitlines() if l.startswith("{")]
        word = json.loads(lines[-1]) if lines else {}
        return collections.defaultdict(dict, word)


def run(program, *args, timeout=60, **settings):
    process = start(program, *args, **settings)
    try:
        return Run(process, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=5)  # a child may hold the pipe
        raise


def own_lines(text):
    """What the library said on stderr."""
    return [l for l in text.splitlines() if l.startswith("gputrace: ")]


def ns(microseconds):
    return int(Decimal(microseconds or 0) * 1000)


def refuse(text):
    raise ValueError("not JSON: " + text)


class Trace:
    """A trace file, whole."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        raw = self.path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        self.text = raw.decode("utf-8")
        self.header = json.loads(self.text, parse_float=Decimal,
                                 parse_constant=refuse)
        self.events = self.header.pop("traceEvents")
        self.own = self.header.get("gputrace", {})
        for event in self.events:
            event.setdefault("args", {})
            event["start"] = ns(event.get("ts"))
            event["end"] = event["start"] + ns(event.get("dur"))

    def slices(self, *cats, name=None):
        return [e for e in self.events if e.get("ph") == "X" and
                (not cats or e["cat"] in cats) and
                (name is None or e["name"] == name)]

    def count(self, *cats):
        return collections.Counter(e["name"] for e in self.slices(*cats))

    def api(self, name=None):
        return self.slices("cuda_driver", "cuda_runtime", name=name)

    def ranges(self, name=None):
        return self.slices("user_annotation", name=name)

    def gpu_work(self):
        return self.slices(*GPU_WORK)

    def marks(self):
        return [e for e in self.events if e.get("ph") == "i"]

    def arrows(self, end="s"):
        return [e for e in self.events if e.get("ph") == end]

    def labels(self, what):
        """{pid or (pid, tid): name or sort index} of one kind of metadata."""
        found = {}
        for e in self.events:
            if e.get("ph") == "M" and e["name"] == what:
                lane = (e["pid"], e["tid"])
                found[lane if what.startswith("thread") else e["pid"]] = \
                    e["args"].get("name", e["args"].get("sort_index"))
        return found

    def losses(self):
        return {k: v for k, v in self.own.get("losses", {}).items() if v}

    def launches(self):
        """{correlation: API slice}"""
        return {e["args"]["correlation"]: e for e in self.api()}


def judge(*paths, profile="all"):
    """Findings of the independent checker, '' if there are none; None where
    it cannot be had."""
    if not JUDGE.exists():
        if os.environ.get("CI"):
            raise FileNotFoundError("%s (GPUTRACE_JUDGE)" % JUDGE)
        return None
    done = subprocess.run(
        [sys.executable, str(JUDGE), "--profile", profile, "--strict",
         *map(str, paths)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def traced(tmp_path, program, *args, out="trace.json", status=0, **settings):
    """Runs, reads the one trace, and has it judged: (run, trace)."""
    path = tmp_path / out
    done = run(program, *args, GPUTRACE_OUT=path, **settings)
    assert done.status == status, done.err
    trace = Trace(path)
    assert not judge(path), judge(path)
    return done, trace
