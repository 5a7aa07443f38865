# SPDX-License-Identifier: MIT
"""The library comes into a program that runs already: host/late."""
import collections
import ctypes
import json
import shutil
import subprocess

import pytest
from tracing import (BUILD, LIBRARY, ROOT, SANITIZED, Trace, environment,
                     judge, own_lines, run)

USER = BUILD / "shim" / "user.so"


def late(*args, **settings):
    done = run("late", *args, traced=False, **settings)
    assert done.status == 0, done.err
    assert not done.did["wrong"]
    return done


def start_late(folder, *args, **settings):
    """One that says it is ready, and waits for a line."""
    process = subprocess.Popen(
        [BUILD / "host" / "late", *args], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
        env=environment(traced=False, **settings))
    assert process.stdout.readline() == b"ready\n"
    return process


def late_trace(tmp_path, *args, library=LIBRARY, **settings):
    """Runs host/late and reads its one trace, which has what came after the
    load and nothing from before."""
    done = late(*args, library, GPUTRACE_OUT=tmp_path / "t.json", **settings)
    assert [p.name for p in tmp_path.glob("*.json")] == ["t.json"]
    trace = Trace(tmp_path / "t.json")
    assert not judge(trace.path), judge(trace.path)
    assert trace.losses() == {}
    check_after(done, trace)
    assert not named(trace, "direct_copy")
    assert not [r for r in trace.ranges() if "before" in r["name"] and
                r["name"] != "handle from before"]
    return done, trace


def named(trace, part):
    return [k for k in trace.slices("kernel") if part in k["name"]]


def check_after(done, trace):
    kernels = named(trace, "act_and_mul")
    assert len(kernels) == done.did["gpu"]["kernels"]
    assert len(trace.ranges("late range")) == 1
    launches = trace.launches()
    assert all(k["args"]["correlation"] in launches for k in kernels)


def test_what_was_there_before(tmp_path):
    """Device, context, stream and its priority, a graph's nodes; a kernel
    that runs meanwhile does no harm."""
    done, trace = late_trace(tmp_path, "--graph", "--running", "--nvtx")
    names = trace.labels("thread_name").values()
    assert any("(priority -5)" in n for n in names)
    assert "Simulated GPU" in "".join(trace.labels("process_name").values())
    nodes = named(trace, "rotary")
    assert len(nodes) == done.did["gpu"]["nodes"]
    assert len({k["args"]["graph id"] for k in nodes}) == 1
    assert len({k["args"]["graph node id"] for k in nodes}) == len(nodes)
    assert len(trace.api("cuGraphLaunch")) == 1


def test_no_graph_level(tmp_path):
    """GRAPH_TRACE after the graph was made crashes a real program."""
    done, trace = late_trace(tmp_path, "--graph", GPUTRACE_GRAPH="graph")
    assert len(named(trace, "rotary")) == done.did["gpu"]["nodes"]
    assert not trace.slices("cuda_graph")
    assert "GPUTRACE_GRAPH=graph" in done.err


@pytest.mark.parametrize("end", ["exit", "quick_exit", "_exit", pytest.param(
    "fork", marks=pytest.mark.skipif(bool(SANITIZED),
                                     reason="forks beside threads"))])
def test_ends(tmp_path, end):
    """_exit cannot be seen: there it is all up to the last flush."""
    done, trace = late_trace(tmp_path, "--end", end, GPUTRACE_FLUSH="100ms")
    assert len(own_lines(done.err)) == (end != "_exit")
    assert len(trace.api("cuModuleUnload")) == 1 or end == "_exit"


def test_preloaded_in_vain(tmp_path):
    """LD_PRELOAD names a file that is not there (in this container)."""
    done = late("--nvtx", LIBRARY, GPUTRACE_OUT=tmp_path / "t.json",
                LD_PRELOAD="/none/libgputrace.so")
    check_after(done, Trace(tmp_path / "t.json"))


def test_it_stays(tmp_path):
    late_trace(tmp_path, "--close")


def test_asleep(tmp_path):
    """No thread of the program waits for it (the library gives up after a
    second), and it takes little memory."""
    done = late("--measure", LIBRARY, GPUTRACE_START="off", cwd=tmp_path)
    assert not own_lines(done.err)
    assert not list(tmp_path.iterdir())
    assert done.did["load"]["us"] < 900000
    assert done.did["gap"]["during us"] < 900000
    assert done.did["memory"]["kB"] < 16384 or SANITIZED


def test_captures_of_a_server(tmp_path, gputrace):
    """Asleep until then; the range it is in was pushed after the load."""
    process = start_late(tmp_path, "--graph", "--nvtx", "--serve", LIBRARY,
                         GPUTRACE_START="off", TMPDIR=tmp_path)
    for number in range(2):
        out = tmp_path / ("%d.json" % number)
        done = gputrace("capture", process.pid, "-d", "200ms", "-o", out)
        assert done.status == 0, done.err
        trace = Trace(out)
        assert not judge(out), judge(out)
        requests = len(trace.ranges("request"))
        assert requests > 1 and len(trace.ranges("serving")) == 1
        nodes = collections.Counter(
            k["args"]["graph node id"] for k in named(trace, "rotary"))
        assert len(nodes) == 20
        assert max(nodes.values()) - min(nodes.values()) <= 1
        assert any("(priority -5)" in n
                   for n in trace.labels("thread_name").values())
    process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


def test_profiler_api(tmp_path):
    late_trace(tmp_path, "--profiler", GPUTRACE_START="profiler-api")


# ---- Settings by gputrace_attach() ----

def test_settings_come_first(tmp_path):
    """Before the process reads any: the driver is not in use yet."""
    given = tmp_path / "given.json"
    done = late("--fresh", "--settings", "GPUTRACE_OUT=%s\nGPUTRACE_START=now"
                % given, LIBRARY, GPUTRACE_OUT=tmp_path / "env.json",
                GPUTRACE_NAMES="mangled")
    assert done.did["settings"]["refused"] == 0
    assert [p.name for p in tmp_path.iterdir()] == ["given.json"]
    trace = Trace(given)
    check_after(done, trace)
    assert all(k["name"].startswith("_Z") for k in trace.slices("kernel"))


def test_brought_it_sleeps(tmp_path):
    done = late("--fresh", "--settings", "", LIBRARY, cwd=tmp_path)
    assert done.did["settings"]["refused"] == 0
    assert not own_lines(done.err)
    assert not list(tmp_path.iterdir())


def test_settings_that_come_too_late(tmp_path):
    """They were read when the library was loaded the first time."""
    out = tmp_path / "t.json"
    done = late("--settings", "GPUTRACE_OUT=/dev/null/x", LIBRARY, LIBRARY,
                GPUTRACE_OUT=out)
    assert done.did["settings"]["refused"] == 1
    check_after(done, Trace(out))


PTRACE_SEIZE = 0x4206


def test_brought_by_a_debugger(tmp_path):
    """CUDA is in use, so it would read them at once: it waits for them.  The
    variables are of a parent's, and name a file that is not to be had."""
    out = tmp_path / "t.json"
    given = "GPUTRACE_OUT=%s\nGPUTRACE_START=now" % out
    process = start_late(
        tmp_path, "--pause", "--settings", given, LIBRARY,
        GPUTRACE_START="off", NVTX_INJECTION64_PATH="/none/libgputrace.so")
    refused = ctypes.CDLL(None, use_errno=True).ptrace(
        PTRACE_SEIZE, process.pid, None, None)
    output, err = process.communicate(b"\n", timeout=60)
    if refused:
        pytest.skip("ptrace is not allowed here")
    assert process.returncode == 0, err
    did = json.loads(output)
    assert did["settings"]["refused"] == 0
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    assert len(named(Trace(out), "act_and_mul")) == did["gpu"]["kernels"]


def test_brought_by_the_command(tmp_path):
    """It waits for settings, whatever the environment says meanwhile."""
    out = tmp_path / "t.json"
    late("--command", LIBRARY, GPUTRACE_OUT=out)
    assert not out.exists()
    done = late("--command", "--settings", "GPUTRACE_START=now", LIBRARY,
                GPUTRACE_OUT=out, GPUTRACE_START="off")
    check_after(done, Trace(out))


# ---- Where CUDA comes after the library ----

def test_before_cuda(tmp_path):
    """Armed: the driver calls it in cuInit, so nothing is missing."""
    out = tmp_path / "t.json"
    done = late("--fresh", "--nvtx", "--user", USER, LIBRARY,
                GPUTRACE_OUT=out)
    trace = Trace(out)
    assert not judge(out)
    check_after(done, trace)
    assert len(named(trace, "direct_copy")) == done.did["before"]["kernels"]


def test_in_the_middle_of_cuinit(tmp_path):
    out = tmp_path / "t.json"
    done = late("--fresh", CUDA_INJECTION64_PATH=BUILD / "shim/midinit.so",
                MIDINIT_LIBRARY=LIBRARY, GPUTRACE_OUT=out)
    check_after(done, Trace(out))


# ---- Two copies ----

def test_a_second_copy_does_nothing(tmp_path):
    copy = shutil.copy(LIBRARY, tmp_path / "libgputrace.so")
    done, _ = late_trace(tmp_path, LIBRARY, library=copy)
    lines = own_lines(done.err)
    assert len(lines) == 2
    assert "this copy, %s, does nothing" % copy in lines[0]


def test_a_copy_beside_the_preloaded_one(tmp_path):
    copy = shutil.copy(LIBRARY, tmp_path / "libgputrace.so")
    out = tmp_path / "t.json"
    done = run("late", copy, GPUTRACE_OUT=out, CUDA_INJECTION64_PATH=copy,
               NVTX_INJECTION64_PATH=copy)
    trace = Trace(out)
    check_after(done, trace)
    assert len(named(trace, "direct_copy")) == done.did["before"]["kernels"]
    assert len(own_lines(done.err)) == 2
    assert "this copy, %s, does nothing" % copy in done.err


# ---- NVTX ----

def test_nvtx_in_use_before(tmp_path):
    """Pops, ends and handles whose beginning nobody saw do no harm."""
    done, trace = late_trace(tmp_path, "--nvtx", "--user", USER)
    assert trace.count("user_annotation") == collections.Counter(
        ["late range", "user after", "after", "handle from before",
         "(no name)", "in the new domain", "afterwards"])
    assert done.did["ranges"]["user after"] == 1
    domains = {r["name"]: r["args"].get("domain") for r in trace.ranges()}
    assert domains.pop("in the new domain") == "domain after"
    assert len(set(domains.values())) == 1
    assert not [r for r in trace.ranges() if r["args"].get("open")]


def test_nvtx_while_threads_call(tmp_path):
    """A push whose pop was not seen would be open in the window."""
    done, trace = late_trace(tmp_path, "--nvtx", "--threads", 3, "--profiler",
                             GPUTRACE_START="profiler-api")
    assert done.did["ranges"]["seen"] > 0
    assert not [r for r in trace.ranges() if "busy" in r["name"]]


BUILDS = [("cc", "-O0"), ("c++", "-xc++", "-O3", "-std=c++17")]


@pytest.mark.skipif(bool(SANITIZED), reason="one build of it is enough")
def test_nvtx_of_any_build(tmp_path):
    setup = (BUILD / "setup.mk").read_text(encoding="utf-8")
    include = setup.split("CUDA_INC := ")[1].splitlines()[0].split()
    users = [tmp_path / ("user%d.so" % i) for i in range(len(BUILDS))]
    builds = [subprocess.Popen(
        [*build, *("-I" + i for i in include), "-shared", "-fPIC", "-o", user,
         ROOT / "test/shim/user.c"]) for build, user in zip(BUILDS, users)]
    assert not any(build.wait() for build in builds)
    done, trace = late_trace(
        tmp_path, *(a for user in users for a in ("--user", user)))
    assert done.did["ranges"]["user after"] == len(BUILDS)
    assert trace.count("user_annotation")["user after"] == len(BUILDS)


def test_nvtx_2_in_use_before(tmp_path):
    library = shutil.copy(BUILD / "shim" / "nvtx2lib.so",
                          tmp_path / "libnvToolsExt.so.1")
    done, trace = late_trace(
        tmp_path, "--user", "libnvToolsExt.so.1",
        LD_LIBRARY_PATH="%s:%s" % (tmp_path, BUILD / "sim"))
    assert library and done.did["ranges"]["user after"] == 1
    assert trace.count("user_annotation")["user after"] == 1


def test_nvtx_is_not_wanted(tmp_path):
    out = tmp_path / "t.json"
    late("--user", USER, LIBRARY, GPUTRACE_OUT=out, GPUTRACE_TRACE="cuda")
    trace = Trace(out)
    assert trace.slices("kernel") and not trace.ranges()
