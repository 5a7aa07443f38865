# SPDX-License-Identifier: MIT
"""Things that do not go together (versions, stubs, copies, tools, GPUs): the
program runs on, and one line says what they are and what to do."""
import shutil

import pytest
from tracing import BUILD, LIBRARY, SANITIZED, Trace, run

STEPS = ["decode", "--steps", 2]


def advice(tmp_path, *args, traced=False, **settings):
    """The one line that gputrace says; the program is as it would be."""
    path = tmp_path / "t.json"
    done = run(*STEPS, *args, GPUTRACE_OUT=path, **settings)
    assert (done.status, done.out) == (0, "steps 2\n"), done.err
    assert path.exists() == traced
    lines = done.err.splitlines()
    # where there is a trace, the last line tells its path
    assert len(lines) == 1 + traced, done.err
    assert all(line.startswith("gputrace: ") for line in lines)
    if traced:
        assert Trace(path).slices("kernel")
    else:
        assert lines[0].startswith("gputrace: not tracing: ")
    return lines[0]


def says(line, *parts):
    for part in parts:
        assert part in line, line


@pytest.mark.parametrize("driver, cuda, package", [
    (12040, "12.4", "nvidia-cuda-cupti-cu12==12.4.*"),
    (11080, "11.8", "nvidia-cuda-cupti-cu11==11.8.*"),
])
def test_cupti_newer_than_the_driver(tmp_path, driver, cuda, package):
    """The simulated one gives 15 by itself: HPCToolkit/hpctoolkit#375."""
    line = advice(tmp_path, SIM_DRIVER_VERSION=driver)
    says(line, "NOT_INITIALIZED", "(15)", "CUDA 13.0", "libcupti.so.13",
         "CUDA " + cuda, "pip install " + package, "GPUTRACE_CUPTI")


def test_a_newer_minor_that_is_refused(tmp_path):
    line = advice(tmp_path, SIM_CUPTI_VERSION=26, SIM_DRIVER_VERSION=12040,
                  SIM_ERROR="cuptiActivityRegisterCallbacks=15")
    says(line, "CUDA 12.8", "CUDA 12.4", "nvidia-cuda-cupti-cu12==12.4.*")


def test_a_newer_minor_that_works(tmp_path):
    done = run(*STEPS, GPUTRACE_OUT=tmp_path / "t.json",
               SIM_CUPTI_VERSION=26, SIM_DRIVER_VERSION=12040)
    assert len(done.err.splitlines()) == 1 and "kernels" in done.err


def test_not_initialized_with_the_right_versions(tmp_path):
    line = advice(tmp_path, SIM_ERROR="cuptiActivityRegisterCallbacks=15")
    says(line, "(15)", "gputrace doctor")
    assert "newer" not in line


CODES = {
    35: ["CAP_SYS_ADMIN", "NVreg_RestrictProfilingToAdminUsers=0"],
    39: ["nsys", "run without it"], 40: ["virtual GPU"],
    41: ["confidential"], 42: ["mining"], 43: ["MIG"], 44: ["SLI"],
    45: ["WSL"], 14: ["another tool"], 999: ["gputrace doctor"],
}


@pytest.mark.parametrize("call", ["cuptiActivityRegisterCallbacks",
                                  "cuptiActivityEnable"])
@pytest.mark.parametrize("code", CODES)
def test_what_cupti_refuses(tmp_path, code, call):
    line = advice(tmp_path, SIM_ERROR="%s=%d" % (call, code))
    says(line, "(%d)" % code, *CODES[code])


@pytest.mark.parametrize("start", ["now", "profiler-api"])
def test_the_holder_is_named(tmp_path, start):
    done = run(*STEPS, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_START=start, SIM_SUBSCRIBER="Some Tool\x1b[1m 7")
    assert (done.status, done.out) == (0, "steps 2\n")
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    says(lines[0], "(39)", "Some Tool", "7 uses CUPTI", "run without it")
    assert "\x1b" not in done.err


def test_a_holder_without_a_name(tmp_path):
    """As compute-sanitizer (2025.3, seen on an H200)."""
    line = advice(tmp_path, SIM_SUBSCRIBER="<not provided>")
    says(line, "(39)", "compute-sanitizer", "run without it")
    assert "<" not in line


def test_the_holder_is_not_told_before_13_0(tmp_path):
    line = advice(tmp_path, SIM_SUBSCRIBER="Some Tool", SIM_CUPTI_VERSION=26)
    says(line, "(39)", "nsys", "run without it")


def copy(folder, name="libcupti.so.13"):
    folder.mkdir()
    return str(shutil.copy(BUILD / "sim" / name, folder / name))


def test_the_stub_of_the_toolkit(tmp_path):
    stub = copy(tmp_path / "stubs", "libcuda.so.1")
    line = advice(tmp_path, SIM_ERROR="cuptiActivityRegisterCallbacks=999",
                  LD_LIBRARY_PATH="%s:%s" % (tmp_path / "stubs",
                                             BUILD / "sim"))
    says(line, stub, "LD_LIBRARY_PATH")


@pytest.mark.skipif("address" in SANITIZED, reason="globals of one name twice")
def test_two_copies(tmp_path):
    one, two = copy(tmp_path / "one"), copy(tmp_path / "two")
    line = advice(tmp_path, traced=True,
                  LD_PRELOAD=":".join([str(LIBRARY), one, two]))
    says(line, "two copies", one, two)


def test_another_copy_than_the_programs_is_not_used(tmp_path):
    one, two = copy(tmp_path / "one"), copy(tmp_path / "two")
    line = advice(tmp_path, traced=True, GPUTRACE_CUPTI=two,
                  LD_PRELOAD="%s:%s" % (LIBRARY, one))
    says(line, "GPUTRACE_CUPTI=" + two, "not used", one)


def test_the_programs_own_copy_is_no_news(tmp_path):
    one = copy(tmp_path / "one")
    done = run(*STEPS, GPUTRACE_OUT=tmp_path / "t.json", GPUTRACE_CUPTI=one,
               LD_PRELOAD="%s:%s" % (LIBRARY, one))
    assert len(done.err.splitlines()) == 1 and "kernels" in done.err


@pytest.mark.parametrize("cupti, capability, driver, cuda, package", [
    (22, 120, 13000, "12.4", "nvidia-cuda-cupti==13.0.*"),
    (26, 103, 12090, "12.8", "nvidia-cuda-cupti-cu12==12.9.*"),
    (130001, 70, 13000, "13.0", "nvidia-cuda-cupti-cu12==12.9.*"),
], ids=["Blackwell on 12.4", "B300 on 12.8", "Volta on 13.0"])
def test_a_gpu_that_cupti_does_not_know(tmp_path, cupti, capability, driver,
                                        cuda, package):
    """parca-dev/parcagpu#24: it silently records nothing."""
    line = advice(tmp_path, traced=True, SIM_CUPTI_VERSION=cupti,
                  SIM_CAPABILITY=capability, SIM_DRIVER_VERSION=driver,
                  SIM_DEVICES=2)
    says(line, "CUDA " + cuda, "capability %d.%d" % (capability // 10,
                                                     capability % 10))
    says(line, "pip install " + package, "GPUTRACE_CUPTI")


@pytest.mark.parametrize("cupti", [13, 17], ids=["11.0", "11.7"])
def test_a_cupti_from_before_11_8(tmp_path, cupti):
    """It has all functions, and ends the program (seen on an H200)."""
    line = advice(tmp_path, SIM_CUPTI_VERSION=cupti)
    says(line, "older than CUDA 11.8", "libcupti", "GPUTRACE_CUPTI")


@pytest.mark.parametrize("cupti, capability", [(18, 90), (26, 120),
                                               (130001, 121), (130001, 75)])
def test_a_gpu_that_cupti_knows(tmp_path, cupti, capability):
    done = run(*STEPS, GPUTRACE_OUT=tmp_path / "t.json",
               SIM_CUPTI_VERSION=cupti, SIM_CAPABILITY=capability)
    assert len(done.err.splitlines()) == 1 and "kernels" in done.err


def test_a_debugger(tmp_path):
    """Beside cuda-gdb every call of CUPTI succeeds and nothing comes (seen on
    an H200): the debugger is named.  With kernels there is nothing to say."""
    def debugged(**settings):
        done = run("debug", BUILD / "host" / "decode", "--steps", 2,
                   GPUTRACE_OUT=tmp_path / "t.json", **settings)
        assert (done.status, done.out) == (0, "steps 2\n"), done.err
        return [line for line in done.err.splitlines() if "debugs" in line]
    line, = debugged(SIM_NO_KERNELS=1)
    says(line, "no kernels", "(debug)", "cuda-gdb")
    assert debugged() == []


def test_a_debugger_that_the_kernel_does_not_tell(tmp_path):
    """It is the parent (cuda-gdb on an H200; gVisor tells of no tracer)."""
    gdb = tmp_path / "cuda-gdb"
    shutil.copy("/bin/sh", gdb)
    done = run(gdb, "-c", '"$@"; exit $?', gdb, BUILD / "host" / "decode",
               "--steps", 2, GPUTRACE_OUT=tmp_path / "t.json",
               SIM_NO_KERNELS=1)
    assert (done.status, done.out) == (0, "steps 2\n"), done.err
    line, = [line for line in done.err.splitlines() if "debugs" in line]
    says(line, "no kernels", "(cuda-gdb)")
