# SPDX-License-Identifier: MIT
"""The library with CUPTI of CUDA 11.8, 12.4 and 12.8.

The simulated CUPTI has these versions' records (shorter than 13.0's: behind
each one the next begins), attributes and functions; test/sim/cupti_layout.c.
"""
import collections
import re

import pytest
from tracing import BUILD, LIBRARY, ROOT, traced

# Those that the host programs define, all of which each of them loads.
KERNELS = len(re.findall(r"\bKERNEL_[A-Z_]+,",
                         (ROOT / "test/host/gpu.h").read_text()))
VERSIONS = {"11.8": 18, "12.4": 22, "12.8": 26, "13.0": 130001}
PROGRAMS = {
    "decode": ["decode", "--verbose"],
    "decode with a graph": ["decode", "--verbose", "--graph"],
    "graph": ["graph", "--launches", 6],
    "copies": ["copies"],
    "events": ["events"],
    "memory": ["memory"],
}
# On the deny-list: EnableDriverApi leaves them out from 12.5 on only.
CHATTY = {"cuEventCreate", "cuEventDestroy_v2", "cuCtxSetCurrent",
          "cuDeviceGet"}
# What 12.0 ... 13.1 append to a record; the simulated GPU leaves it empty.
EMPTY = {"result", "copies", "max potential cluster", "priority",
         "device launched"}

versions = pytest.mark.parametrize("version", VERSIONS.values(),
                                   ids=VERSIONS.keys())
programs = pytest.mark.parametrize("program", PROGRAMS.values(),
                                   ids=PROGRAMS.keys())


@versions
@programs
def test_the_work_is_all_there(tmp_path, program, version):
    done, trace = traced(tmp_path, *program, SIM_CUPTI_VERSION=version)
    did, gpu = done.did, done.did["gpu"]
    assert trace.own["cupti"] == version
    assert trace.losses() == {}
    assert len(trace.slices("kernel")) == gpu.get("kernels", 0)
    assert len(trace.slices("gpu_memcpy")) == sum(did["copies"].values()) + \
        sum(gpu.get(way, 0) for way in ("HtoD", "DtoH", "DtoD"))
    assert len(trace.slices("gpu_memset")) == \
        sum(did["sets"].values()) + gpu.get("sets", 0)
    assert not CHATTY & set(trace.count("cuda_driver"))
    for event in trace.gpu_work() + trace.slices("cuda_sync"):
        assert not EMPTY & set(event["args"]), event


@versions
def test_a_graph_is_one_slice(tmp_path, version):
    done, trace = traced(tmp_path, "graph", "--launches", 6,
                         GPUTRACE_GRAPH="graph", SIM_CUPTI_VERSION=version)
    graphs = trace.slices("cuda_graph")
    assert len(graphs) == done.did["gpu"]["graph_launches"] == 6
    launches = trace.launches()
    assert {launches[g["args"]["correlation"]]["name"] for g in graphs} == \
        {"cuGraphLaunch"}
    assert len({g["args"]["graph id"] for g in graphs}) == 2
    assert not trace.slices("kernel")


@versions
def test_a_wait_names_the_record_it_waits_for(tmp_path, version):
    """Before 12.8 by the event's id alone."""
    done, trace = traced(tmp_path, "events", "--rounds", 4,
                         SIM_CUPTI_VERSION=version)
    records = {c["args"]["correlation"]: c
               for c in trace.api("cuEventRecord")}
    waits = trace.slices("cuda_sync", name="Stream Wait Event")
    assert len(waits) == done.did["syncs"]["Stream Wait Event"] == 4
    named = {w["args"]["wait_on_cuda_event_record_corr_id"] for w in waits}
    assert len(named) == 4
    for wait in waits:
        args = wait["args"]
        record = records[args["wait_on_cuda_event_record_corr_id"]]
        assert record["end"] <= wait["start"]
        assert args["wait_on_stream"] == record["args"]["event stream"]


@versions
def test_memory_as_counters(tmp_path, version):
    """What the program does: N MB from the GPU and back, then, round by
    round, 1 MB from each of two pools and back."""
    _, trace = traced(tmp_path, "memory", "--rounds", 3,
                      GPUTRACE_TRACE="cuda,nvtx,memory",
                      SIM_CUPTI_VERSION=version)
    counters = collections.defaultdict(list)
    for e in trace.events:
        if e.get("ph") == "C":
            counters[e["name"]] += e["args"].values()
    direct, pooled = [1, 0, 2, 0, 3, 0], [1, 2, 1, 0] * 3
    assert counters["allocated device memory"] == \
        [n << 20 for n in direct + pooled]
    assert counters["allocated pinned memory"] == [1 << 20, 0] * 3


@versions
def test_loading_is_overhead(tmp_path, version):
    """Compiling, once; loading each kernel, which 11.8 did not tell; asking
    for buffers, from 12.6 on."""
    _, trace = traced(tmp_path, "events", SIM_CUPTI_VERSION=version)
    overhead = trace.count("overhead")
    assert overhead["JIT PTX to cubin: compile"] == 1
    assert overhead["Lazy Function Loading"] == \
        (KERNELS if version >= 22 else 0)
    assert (overhead["Activity Buffer Request"] > 0) == (version >= 24)
    first = min(k["start"] for k in trace.slices("kernel"))
    for o in trace.slices("overhead", name="JIT PTX to cubin: compile") + \
            trace.slices("overhead", name="Lazy Function Loading"):
        assert o["start"] < o["end"] <= first
        assert o["args"].get("thread") == \
            (trace.own["pid"] if version >= 22 else None)


@versions
def test_the_program_asks_for_the_overhead(tmp_path, version):
    """From 12.3 on an overhead has the number of the call that it delays."""
    _, trace = traced(tmp_path, "events", GPUTRACE_API="all",
                      SIM_CUPTI_VERSION=version)
    launches = trace.launches()
    callers = collections.Counter(
        launches[o["args"]["call correlation"]]["name"]
        for o in trace.slices("overhead", name="Lazy Function Loading"))
    assert callers == (
        {"cuModuleGetFunction": KERNELS} if version >= 22 else {})


@pytest.mark.parametrize("driver, soname, version", [
    (13000, "libcupti.so.13", 130001), (12080, "libcupti.so.12", 26),
    (11080, "libcupti.so.11.8", 18)])
def test_the_newest_that_the_driver_takes(tmp_path, driver, soname, version):
    """CUPTI newer than the driver gives CUPTI_ERROR_NOT_INITIALIZED, the
    simulated one, too: it is of that version by its number alone."""
    sim = BUILD / "sim"
    folders = "%s:%s:%s" % (sim, sim / "12", sim / "11")
    done, trace = traced(tmp_path, "decode", SIM_DRIVER_VERSION=driver,
                         SIM_CUPTI_VERSION=version,
                         LD_LIBRARY_PATH=folders, GPUTRACE_LOG="info")
    assert soname in done.err
    assert trace.slices("kernel")


def test_the_one_in_the_process_before_a_newer_one(tmp_path):
    """A program that is linked to CUPTI has made its choice."""
    copy = BUILD / "sim" / "12" / "libcupti.so.12"
    done, trace = traced(tmp_path, "decode", GPUTRACE_LOG="info",
                         LD_PRELOAD="%s:%s" % (LIBRARY, copy))
    assert "libcupti.so.12" in done.err
    assert trace.slices("kernel")
