# SPDX-License-Identifier: MIT
"""GPUTRACE_TRACE=nvml on the simulated libnvidia-ml.so.1, which says of the GPU
at bus N what follows from N (test/sim/nvml_sim.c); CUDA's device is N - 1."""
import os
import pathlib
import time

import pytest
from test_cpu import findings
from tracing import BUILD, SANITIZED, Trace, own_lines, run, start

SOURCES = "cuda,nvtx,nvml"


def traced(tmp_path, *args, program="busy", sources=SOURCES, **settings):
    path = tmp_path / "trace.json"
    done = run(program, *args, GPUTRACE_TRACE=sources, GPUTRACE_OUT=path,
               **settings)
    assert done.status == 0, done.err
    assert not findings(path)
    return done, Trace(path)


def counters(trace, device, name):
    """Each value, of the process that is named as the GPU's counters."""
    names = trace.labels("process_name")
    return [e["args"] for e in trace.events
            if e.get("ph") == "C" and e["name"] == name and
            names[e["pid"]].startswith("GPU %d " % device)]


def test_counters_of_each_gpu(tmp_path):
    _, trace = traced(tmp_path, "--seconds", 1, SIM_DEVICES=2)
    for device in 0, 1:
        bus = device + 1
        for name, value in {
                "utilization": {"GPU %": 10 * bus, "memory %": 5 * bus},
                "power limit": {"W": 700},
                "SM clock": {"MHz": 1900 + bus},
                "memory clock": {"MHz": 3200 + bus},
                "temperature": {"C": 40 + bus},
                "memory used by all": {"bytes": 1000 * bus}}.items():
            told = counters(trace, device, name)
            # 100 ms apart, on a machine that may be busy.
            assert 5 <= len(told) <= 20, (name, len(told))
            assert all(t == value for t in told), (name, told)
        assert {float(t["W"]) for t in counters(trace, device, "power")} == \
            {100.25 + bus}
    assert trace.losses() == {}
    assert not [n for n in trace.labels("thread_name").values()
                if "gputrace-nvml" in n]


def test_more_gpus_than_we_count(tmp_path):
    """Of 66 the last two are missing, and that is said."""
    done, trace = traced(tmp_path, "--seconds", 0.5, SIM_DEVICES=66)
    assert counters(trace, 63, "temperature")[0] == {"C": 104}
    assert not counters(trace, 64, "temperature")
    assert any("nothing from NVML of 2 of 66 GPUs" in l
               for l in own_lines(done.err)), done.err


def test_why_clocks_are_low(tmp_path):
    """4: power cap; 0x24: that and heat; 1: idle, which is no reason."""
    _, trace = traced(tmp_path, "--seconds", 2, SIM_NVML_REASONS="4,0x24,1,64")
    slices = sorted(trace.slices("gpu_clocks"), key=lambda e: e["start"])
    assert [e["name"] for e in slices[:3]] == [
        "GPU 0 clocks: software power cap",
        "GPU 0 clocks: software power cap, software thermal slowdown",
        "GPU 0 clocks: hardware thermal slowdown"]
    assert all(e["args"]["device"] == 0 and e["args"]["sampled"] is True
               for e in slices)
    first, second, third = slices[:3]
    assert first["end"] == second["start"]
    assert 0.3e9 < first["end"] - first["start"] < 1.2e9
    assert third["start"] - second["end"] > 0.3e9


def test_a_gpu_that_cannot_say_all(tmp_path):
    _, trace = traced(tmp_path, "--seconds", 0.5, SIM_NVML_LACKS=1)
    assert not counters(trace, 0, "utilization")
    assert not counters(trace, 0, "power")
    assert counters(trace, 0, "temperature")


@pytest.mark.parametrize("name, words", [
    ("nvmlInit_v2=9", "Driver Not Loaded"),
    ("nvmlDeviceGetHandleByPciBusId_v2=6", None),
])
def test_nvml_refuses(tmp_path, name, words):
    done, trace = traced(tmp_path, "--seconds", 0.3, SIM_ERROR=name)
    assert not counters(trace, 0, "temperature")
    said = [l for l in own_lines(done.err) if "of nvml: " in l]
    assert len(said) == bool(words) and (not words or words in said[0])


def cpu_of(pid, name):
    """ns on a CPU of the thread that is called so."""
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        if (task / "comm").read_text().strip() == name:
            return int((task / "schedstat").read_text().split()[0])
    return None


def test_no_nvml(tmp_path):
    """Where the library is not to be had: said once, and then all is quiet."""
    sim = tmp_path / "sim"
    sim.mkdir()
    for name in os.listdir(BUILD / "sim"):
        if "nvidia-ml" not in name:
            (sim / name).symlink_to(BUILD / "sim" / name)
    path = tmp_path / "trace.json"
    process = start("busy", "--seconds", 3, GPUTRACE_TRACE=SOURCES,
                    GPUTRACE_OUT=path, LD_LIBRARY_PATH=sim)
    time.sleep(2)
    used = cpu_of(process.pid, "gputrace-nvml")
    _, err = process.communicate(timeout=60)
    assert used is not None and used < 200e6
    assert process.returncode == 0
    said = [l for l in own_lines(err.decode()) if "of nvml: " in l]
    assert len(said) == 1 and "NVIDIA_DRIVER_CAPABILITIES" in said[0]
    assert not counters(Trace(path), 0, "temperature")


def test_many_windows_and_a_fork(tmp_path):
    done, trace = traced(tmp_path, "--windows", 50, "--fork", "--seconds", 0,
                         sources="cuda,nvtx,cpu,nvml",
                         GPUTRACE_START="profiler-api")
    before, after = done.did["descriptors"]
    # Where nothing is parted the writer's files are the program's, too.
    assert after <= before + (4 if SANITIZED else 1)
    assert counters(trace, 0, "temperature")
    said = [l for l in own_lines(done.err) if "got no CPU in time" not in l]
    assert len(said) == 1, done.err


def test_our_calls_are_not_the_programs(tmp_path):
    """With all calls recorded those of the nvml thread are not."""
    _, without = traced(tmp_path, "--seconds", 0.3, GPUTRACE_API="all",
                        sources="cuda,nvtx")
    _, trace = traced(tmp_path, "--seconds", 0.3, GPUTRACE_API="all")
    assert counters(trace, 0, "temperature")
    assert trace.count("cuda_driver") == without.count("cuda_driver")


def test_what_was_seen_is_in_the_file_of_a_killed_program(tmp_path):
    path = tmp_path / "trace.json"
    process = start("busy", "--seconds", 60, GPUTRACE_TRACE=SOURCES,
                    GPUTRACE_OUT=path, SIM_NVML_REASONS="4,4,4,4,4,4,4,4,4,4")
    time.sleep(4)
    process.kill()
    process.communicate(timeout=10)
    trace = Trace(path)
    assert counters(trace, 0, "power")
    assert trace.slices("gpu_clocks")
