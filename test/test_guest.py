# SPDX-License-Identifier: MIT
"""The library as a guest: what it must not do to the program, and what it says
when something is wrong."""
import os
import re
import signal
import stat
import time

import pytest
from tracing import (BUILD, SANITIZED, Trace, judge, own_lines, run, start,
                     traced)

MB = 1024       # in kB


def files(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("args", [[], ["--nvtx"]], ids=["plain", "nvtx"])
def test_inert_without_cuda(tmp_path, args):
    plain = run("inert", *args, traced=False, cwd=tmp_path)
    loaded = run("inert", *args, cwd=tmp_path, GPUTRACE_FLUSH="banana",
                 GPUTRACE_NONSENSE=1, GPUTRACE_OUT="/nowhere/x.json")
    assert loaded.did["preloaded"] and not plain.did["preloaded"]
    for fact in ("threads", "sockets", "files", "cupti"):
        assert loaded.did[fact] == plain.did[fact], fact
    assert loaded.err == plain.err
    assert files(tmp_path) == []


@pytest.mark.skipif(bool(SANITIZED), reason="a shell without the sanitizer")
def test_inert_in_shells(tmp_path):
    done = run("/bin/sh", "-c", "echo out; ls /proc/self/task | wc -l; "
               "exit 7", cwd=tmp_path)
    assert (done.status, done.out, done.err) == (7, "out\n1\n", "")
    assert files(tmp_path) == []


@pytest.mark.parametrize("status", [0, 3])
def test_exit_status_is_the_programs(tmp_path, status):
    assert run("inert", "--exit", status, cwd=tmp_path).status == status


def test_usage_error_is_the_programs(tmp_path):
    done = run("decode", "--nonsense", cwd=tmp_path)
    assert done.status == 2
    assert files(tmp_path) == []


def test_stdout_is_the_programs(tmp_path):
    plain = run("decode", "--steps", 3, traced=False)
    loaded = run("decode", "--steps", 3, GPUTRACE_OUT=tmp_path / "t.json",
                 GPUTRACE_LOG="debug")
    assert loaded.out == plain.out == "steps 3\n"


def test_the_last_line(tmp_path):
    path = tmp_path / "t.json"
    done = run("decode", "--verbose", GPUTRACE_OUT=path)
    lines = own_lines(done.err)
    assert len(lines) == len(done.err.splitlines()) == 1, done.err
    assert str(path) in lines[0]
    digits = re.sub(r"[,'\u2009]", "", lines[0].replace(str(path), ""))
    assert str(done.did["gpu"]["kernels"]) in re.findall(r"\d+", digits)


def test_quiet(tmp_path):
    done = run("decode", GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_LOG="quiet")
    assert (done.status, done.err) == (0, "")


BAD = {
    "GPUTRACE_FLUSH": "banana", "GPUTRACE_API": "some",
    "GPUTRACE_NAMES": "tiny", "GPUTRACE_BUFFER": "-3",
    "GPUTRACE_MAX_SIZE": "1Q", "GPUTRACE_GRAPH": "edge",
    "GPUTRACE_NONSENSE": "1", "GPUTRACE_TRACE": "cuda,everything",
    "GPUTRACE_START": "tomorrow", "GPUTRACE_ON_FULL": "burn",
    "GPUTRACE_DURATION": "1h", "GPUTRACE_SCHEDULE": "active=0",
    "GPUTRACE_STEP": 300 * "x", "GPUTRACE_RECORDER": "0",
    "GPUTRACE_DUMP_ON": "slow", "GPUTRACE_CONTROL": "maybe",
    "GPUTRACE_SIGNAL": "KILL", "GPUTRACE_DUMP_SIGNAL": "RTMIN+99",
}


@pytest.mark.parametrize("name", ["GPUTRACE_NVTX_DOMAINS",
                                  "GPUTRACE_KERNELS"])
@pytest.mark.parametrize("value", ["x" * 256, "ab," * 400])
def test_names_that_are_too_long_are_refused(tmp_path, name, value):
    """Said, and all is recorded as by default."""
    done = run("decode", "--verbose", GPUTRACE_OUT=tmp_path / "t.json",
               **{name: value})
    assert [name in l for l in own_lines(done.err)] == [True, False], done.err
    trace = Trace(tmp_path / "t.json")
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert trace.ranges("step")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_setting_is_one_line(tmp_path, name):
    done = run("decode", "--verbose", GPUTRACE_OUT=tmp_path / "t.json",
               **{name: BAD[name]})
    lines = [l for l in own_lines(done.err) if name in l]
    assert done.status == 0
    assert len(lines) == 1, done.err
    assert name == "GPUTRACE_NONSENSE" or BAD[name].split(",")[-1][:32] in lines[0]
    trace = Trace(tmp_path / "t.json")
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]


def test_an_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / "t.json"
    done = run("decode", "--steps", 3, GPUTRACE_OUT=path)
    assert (done.status, done.out) == (0, "steps 3\n")
    lines = own_lines(done.err)
    assert len(lines) == 1 and str(path) in lines[0], done.err
    assert files(tmp_path) == ["file"]


@pytest.mark.skipif(bool(SANITIZED), reason="a shell without the sanitizer")
def test_a_write_that_fails(tmp_path):
    """A limit of the file size stands for the full disk: EFBIG, and SIGXFSZ
    for a writer that has not blocked it."""
    path = tmp_path / "t.json"
    done = run("/bin/sh", "-c", "ulimit -f 64; exec %s --steps 50" %
               (BUILD / "host" / "decode"), GPUTRACE_OUT=path)
    assert (done.status, done.out) == (0, "steps 50\n"), done.err
    assert any(str(path) in line for line in own_lines(done.err)), done.err
    for left in tmp_path.iterdir():
        Trace(left)


def test_no_libcupti(tmp_path):
    done = run("decode", "--steps", 3, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_CUPTI="/nowhere/libcupti.so.13")
    assert (done.status, done.out) == (0, "steps 3\n")
    lines = own_lines(done.err)
    assert lines and "/nowhere/libcupti.so.13" in lines[0]
    assert len(lines) == 1, done.err


def test_another_tool_in_the_drivers_variable(tmp_path):
    """It stays there; that there is no trace is said where CUDA is used and
    the program then reaches us in another way."""
    other = "/nowhere/libother.so"
    done = run("hostile", "errno", cwd=tmp_path, CUDA_INJECTION64_PATH=other)
    assert done.status == 0
    line, = own_lines(done.err)
    assert "CUDA_INJECTION64_PATH" in line and other in line
    inert = run("inert", "--nvtx", cwd=tmp_path, CUDA_INJECTION64_PATH=other)
    assert inert.err == ""
    assert files(tmp_path) == []


def test_another_tool_in_the_variable_of_nvtx(tmp_path):
    other = "/nowhere/libother.so"
    done, trace = traced(tmp_path, "decode", NVTX_INJECTION64_PATH=other)
    assert any(other in line for line in own_lines(done.err)), done.err
    assert trace.slices("kernel") and not trace.ranges()


def test_mode_of_the_file(tmp_path):
    old = os.umask(0)
    try:
        _, trace = traced(tmp_path, "decode")
    finally:
        os.umask(old)
    assert stat.S_IMODE(trace.path.stat().st_mode) == 0o600
    assert files(tmp_path) == ["trace.json"]


@pytest.mark.parametrize("form", ["{0} {1}", "{0}={1}"])
def test_secrets_are_masked(tmp_path, form):
    secret = "hunter2-swordfish"
    args = form.format("--api-key", secret).split()
    _, trace = traced(tmp_path, "decode", *args, HF_TOKEN=secret,
                      MY_SECRET_FLAG="in the environment")
    argv = trace.own["argv"]
    assert argv[0].endswith("decode")
    assert any(a.startswith("--api-key") for a in argv)
    assert secret not in trace.text
    assert "MY_SECRET_FLAG" not in trace.text


def test_rank(tmp_path):
    _, trace = traced(tmp_path, "decode", RANK=3, WORLD_SIZE=8, LOCAL_RANK=1)
    assert trace.header["distributedInfo"]["rank"] == 3
    assert trace.own["rank"] == 3
    assert (trace.own["local_rank"], trace.own["world_size"]) == (1, 8)


def test_a_rank_that_is_no_number(tmp_path):
    _, trace = traced(tmp_path, "decode", RANK="banana")
    assert trace.header["distributedInfo"]["rank"] == 0


def test_patterns_of_the_path(tmp_path):
    done = run("decode", RANK=5, GPUTRACE_OUT=tmp_path / "%n-%r-%h.json")
    host = os.uname().nodename
    assert files(tmp_path) == ["decode-5-%s.json" % host], done.err


def test_a_pattern_never_overwrites(tmp_path):
    for _ in range(3):
        run("decode", GPUTRACE_OUT=tmp_path / "%n.json")
    assert files(tmp_path) == ["decode-2.json", "decode-3.json",
                               "decode.json"]
    ids = {Trace(p).own["run_id"] for p in tmp_path.iterdir()}
    assert len(ids) == 3


def test_an_exact_name_overwrites(tmp_path):
    first = traced(tmp_path, "decode")[1].own["run_id"]
    second = traced(tmp_path, "decode")[1].own["run_id"]
    assert first != second
    assert files(tmp_path) == ["trace.json"]


@pytest.mark.skipif(bool(SANITIZED), reason="sanitizers keep memory")
def test_short_threads_leave_no_memory(tmp_path):
    def peak(threads, **settings):
        done = run("threads", "--short", threads, "--ranges", 2, "--kernels",
                   1, GPUTRACE_OUT=tmp_path / "t.json", **settings)
        assert done.status == 0, done.err
        return done.did["memory"]["peak_kb"]

    own_few = peak(100) - peak(100, traced=False)
    # The least of three: how many live at once is the scheduler's affair.
    own_many = min(peak(10000) for _ in range(3)) - peak(10000, traced=False)
    # A row in the file stays for each thread that was, and its two lines of
    # metadata, rendered anew at each flush: 1.6 KB in all.  A ring that
    # stayed would be 128 KiB, 1.3 GB for all.
    assert own_many - own_few < 24 * MB
    trace = Trace(tmp_path / "t.json")
    assert trace.count("user_annotation")["launches"] == 10000
    assert trace.losses() == {}
    assert not judge(trace.path)


@pytest.mark.parametrize("out", ["t.json", "t.json.gz"])
def test_killed_in_the_middle(tmp_path, out):
    path = tmp_path / out
    process = start("decode", "--seconds", 20, "--sync-ms", 5, "--kernels", 4,
                    GPUTRACE_OUT=path, GPUTRACE_FLUSH="100ms")
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(10):
        time.sleep(0.07)
        assert Trace(path).own["pid"] == process.pid
    process.send_signal(signal.SIGKILL)
    process.communicate()
    trace = Trace(path)
    assert trace.slices("kernel")
    assert trace.ranges("step")
    assert not judge(path)


def test_record_command(tmp_path):
    path = tmp_path / "t.json"
    done = run(BUILD / "gputrace", "record", "-o", path, "--",
               BUILD / "host" / "decode", "--verbose", traced=False)
    assert done.status == 0, done.err
    trace = Trace(path)
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]


def test_record_keeps_the_exit_status(tmp_path):
    done = run(BUILD / "gputrace", "record", "--", BUILD / "host" / "inert",
               "--exit", 5, traced=False, cwd=tmp_path)
    assert done.status == 5
    assert files(tmp_path) == []
