# SPDX-License-Identifier: MIT
"""Programs that close all descriptors and reuse their numbers: nothing of ours
goes into their files, and nothing of theirs is kept open."""
import json
import pathlib
import subprocess
import time

import pytest
from tracing import BUILD, SANITIZED, Trace, environment, run

# Under a filter the library makes no unusual system call (own_thread.h).
FILTERED = "Seccomp:\t0" not in pathlib.Path("/proc/self/status").read_text()
not_under_tsan = pytest.mark.skipif(
    "thread" in SANITIZED or FILTERED,
    reason="the table of descriptors stays shared")


def did(tmp_path, mode, *args, **settings):
    settings.setdefault("GPUTRACE_OUT", tmp_path / "t.json")
    done = run("descriptors", mode, *args, **settings)
    assert done.status == 0, done.out + done.err
    return done


@not_under_tsan
@pytest.mark.parametrize("out", ["t.json", "t.json.gz"])
def test_closed_while_we_write(tmp_path, out):
    """A write that takes its time, so that one meets another file."""
    mine = tmp_path / "mine"
    done = did(tmp_path, "close-beside", mine, GPUTRACE_FLUSH="1ms",
               GPUTRACE_OUT=tmp_path / out, SIM_DISK_MS=1)
    assert done.did["closed"]["rounds"] > 100
    assert mine.stat().st_size == 0
    trace = Trace(tmp_path / out)
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert trace.own["finished"]


@not_under_tsan
def test_the_end_of_a_pipe(tmp_path):
    """The program's own, and its stdout, as a daemon's parent waits for it."""
    path = tmp_path / "t.json"
    with subprocess.Popen(
            [BUILD / "host" / "descriptors", "eof"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(GPUTRACE_OUT=path)) as process:
        out = process.stdout.read()
        err = process.stderr.read()
        assert process.poll() is None, err
        assert json.loads(out)["gpu"]["kernels"] == 10, (out, err)
        process.stdin.close()
        assert process.wait(30) == 0
    assert len(Trace(path).slices("kernel")) == 20


def test_a_lock_survives(tmp_path):
    did(tmp_path, "lock", tmp_path / "mine")


@not_under_tsan
def test_no_descriptor_is_left(tmp_path):
    done = did(tmp_path, "used-up", tmp_path / "mine")
    assert len(Trace(tmp_path / "t.json").slices("kernel")) == \
        done.did["gpu"]["kernels"]


def test_a_file_in_the_place_of_stderr(tmp_path):
    did(tmp_path, "stderr", tmp_path / "mine", GPUTRACE_LOG="debug")
    assert (tmp_path / "mine").stat().st_size == 0
    assert Trace(tmp_path / "t.json").own["finished"]
