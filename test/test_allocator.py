# SPDX-License-Identifier: MIT
"""PyTorch's caching allocator in the source `torch`, on the simulated one by
the names of two versions, against the allocator's own counts."""
import collections
import itertools
import json
import shutil
import subprocess

import pytest
from tracing import BUILD, LIBRARY, judge, own_lines, run, traced

TRACE = {"GPUTRACE_TRACE": "cuda,torch"}
NAMES = ["c10", "c10_old"]
CUDA = 1        # c10::DeviceType
CAPACITY = 1 << 30


def folder(name):
    return BUILD / "sim" / name


def allocated(tmp_path, name, *args, **settings):
    return traced(tmp_path, "allocator", folder(name), *args,
                  **{**TRACE, **settings})


def told(trace, name="[memory]"):
    """By device, in the order of time."""
    by_device = collections.defaultdict(list)
    for event in sorted((e for e in trace.events if e["ph"] == "i"),
                        key=lambda e: e["start"]):
        if event["name"] == name:
            by_device[event["args"]["Device Id"]].append(event)
    return by_device


def counted(trace, device):
    return sorted((e for e in trace.events if e["ph"] == "C" and
                   e["name"] == "PyTorch memory" and
                   e["pid"] == 5100000 + device), key=lambda e: e["start"])


def check_device(events, did):
    """All of what the allocator did, and each total after what it did."""
    args = [e["args"] for e in events]
    sizes = [a["Bytes"] for a in args]
    assert sum(s > 0 for s in sizes) == did["allocations"]
    assert sum(s < 0 for s in sizes) == did["frees"]
    assert sum(s for s in sizes if s > 0) == did["allocated in all"]
    assert -sum(s for s in sizes if s < 0) == did["freed in all"]
    assert [a["Total Allocated"] for a in args] == \
        list(itertools.accumulate(sizes))
    assert args[-1]["Total Allocated"] == did["allocated"]
    assert args[-1]["Total Reserved"] == did["reserved"]
    assert max(a["Total Allocated"] for a in args) == did["peak"]
    assert max(a["Total Reserved"] for a in args) == did["reserved peak"]
    assert {a["Device Type"] for a in args} == {CUDA}
    # An address is free, then taken, then free.
    held = {}
    for a in args:
        assert (a["Addr"] in held) == (a["Bytes"] < 0)
        if a["Bytes"] > 0:
            held[a["Addr"]] = a["Bytes"]
        else:
            assert held.pop(a["Addr"]) == -a["Bytes"]
    assert sum(held.values()) == did["allocated"]


def check_program(did):
    """The program, and libc10's own function behind ours, had all calls."""
    assert did["did"]["errors"] == did["told"]["errors"] == 0
    devices = did["device 0"], did["device 1"]
    files = 1 if did["did"].get("kept") else 0
    assert did["told"]["usage"] == files + sum(
        d["allocations"] + d["frees"] for d in devices)
    assert did["told"]["failed"] == sum(d["failed"] for d in devices)
    assert did["told"]["bytes"] == 12345 * files + sum(
        d["allocated"] for d in devices)


@pytest.mark.parametrize("name", NAMES)
def test_each_allocation(tmp_path, name):
    done, trace = allocated(tmp_path, name, "steps", 20)
    check_program(done.did)
    events = told(trace)
    assert set(events) == {0, 1}        # the file is no GPU's
    for device in 0, 1:
        check_device(events[device], done.did["device %d" % device])
    assert trace.losses() == {} and not judge(trace.path)
    assert not [l for l in own_lines(done.err) if "[memory]" in l]


def test_one_that_does_not_fit(tmp_path):
    done, trace = allocated(tmp_path, "c10", "steps", 2)
    [event] = told(trace, "[OutOfMemory]")[1]
    device = done.did["device 1"]
    assert event["args"] == {
        "Device Id": 1, "Device Type": CUDA, "Bytes": CAPACITY + 512,
        "Total Allocated": device["allocated"],
        "Total Reserved": device["reserved"]}
    assert device["failed"] == 1 and not told(trace, "[OutOfMemory]")[0]


def test_counters(tmp_path):
    """The same totals at the same times, beside the GPU."""
    _, trace = allocated(tmp_path, "c10", "steps", 20)
    for device in 0, 1:
        events = sorted(told(trace)[device] +
                        told(trace, "[OutOfMemory]")[device],
                        key=lambda e: e["start"])
        assert [(c["start"], c["args"]) for c in counted(trace, device)] == [
            (e["start"], {"reserved bytes": e["args"]["Total Reserved"],
                          "allocated bytes": e["args"]["Total Allocated"]})
            for e in events]


def test_report(tmp_path):
    done, trace = allocated(tmp_path, "c10", "steps", 20)
    text = subprocess.run(
        [BUILD / "gputrace", "report", "-f", "json", "-t", "memory",
         trace.path], capture_output=True, text=True, check=True).stdout
    rows = {r["name"]: r for r in json.loads(text)["memory"]}
    assert set(rows) == {"GPU 0", "GPU 1"}
    for device in 0, 1:
        row, did = rows["GPU %d" % device], done.did["device %d" % device]
        assert [row[k] for k in ("peak_bytes", "reserved_peak_bytes",
                                 "alloc_count", "alloc_bytes", "free_count",
                                 "free_bytes", "oom_count")] == \
            [did[k] for k in ("peak", "reserved peak", "allocations",
                              "allocated in all", "frees", "freed in all",
                              "failed")]


@pytest.mark.parametrize("name", NAMES)
def test_many_threads(tmp_path, name):
    """In the order of the allocator's lock."""
    done, trace = allocated(tmp_path, name, "busy", 100, 8)
    check_program(done.did)
    assert trace.losses() == {}
    for device in 0, 1:
        events = told(trace)[device]
        check_device(events, done.did["device %d" % device])
        assert len({e["tid"] for e in events}) == 8


def test_windows(tmp_path):
    """What happens between them is the program's own."""
    done, trace = allocated(tmp_path, "c10", "windows", 20,
                            GPUTRACE_START="profiler-api")
    check_program(done.did)
    for device in 0, 1:
        assert len(told(trace)[device]) == 20 * 6
        assert done.did["device %d" % device]["allocations"] == 2 * 20 * 3


def test_forks(tmp_path):
    """A child's allocations are not its parent's."""
    done, trace = allocated(tmp_path, "c10", "fork", 10)
    check_program(done.did)
    assert done.did["did"]["children"] == 10
    assert sum(map(len, told(trace).values())) == done.did["told"]["usage"]
    assert [p.name for p in tmp_path.iterdir() if p.suffix] == ["trace.json"]


def test_what_does_not_fit_is_counted(tmp_path):
    done, trace = allocated(tmp_path, "c10", "burst", 50000, 1,
                            GPUTRACE_BUFFER="16M")
    losses = trace.losses()
    check_program(done.did)
    assert set(losses) == {"ring full"}
    assert sum(map(len, told(trace).values())) + losses["ring full"] == \
        done.did["told"]["usage"] == 100200


def test_without_a_function_behind(tmp_path):
    """Nobody to pass it on to: recorded, and that is all."""
    done, trace = allocated(tmp_path, "c10_none", "steps", 3)
    assert done.did["told"]["usage"] == done.did["told"]["failed"] == 0
    for device in 0, 1:
        check_device(told(trace)[device], done.did["device %d" % device])


def test_without_the_source(tmp_path):
    done, trace = allocated(tmp_path, "c10", "steps", 3,
                            GPUTRACE_TRACE="cuda,nvtx")
    check_program(done.did)
    assert "[memory]" not in trace.text
    assert "PyTorch memory" not in trace.text


def test_not_asked_for(tmp_path):
    done, trace = allocated(tmp_path, "c10", "steps", 3,
                            GPUTRACE_TORCH_MEMORY="off")
    check_program(done.did)
    assert "[memory]" not in trace.text


def test_a_library_that_came_late(tmp_path):
    """The allocator is bound past it: one line, and nothing else is lost."""
    out = tmp_path / "trace.json"
    done = run("allocator", folder("c10"), "steps", 3, traced=False,
               CUDA_INJECTION64_PATH=LIBRARY, GPUTRACE_OUT=out, **TRACE)
    assert done.status == 0, done.err
    check_program(done.did)
    lines = [l for l in own_lines(done.err) if "no [memory] events" in l]
    assert len(lines) == 1 and "LD_PRELOAD" in lines[0]
    assert "[memory]" not in out.read_text()


@pytest.mark.parametrize("start", ["now", "off"])
def test_under_the_loader_s_lock(tmp_path, start):
    """It is told under its own lock: who takes the loader's there waits for a
    library's constructor that allocates."""
    done = run("allocator", folder("c10"), "constructor",
               BUILD / "shim" / "constructor.so", GPUTRACE_START=start,
               GPUTRACE_OUT=tmp_path / "t.json", timeout=20, **TRACE)
    assert done.status == 0, done.err
    check_program(done.did)


def test_names():
    """The C++ names are those of the functions that PyTorch declares
    (c10/core/Allocator.h, 2.0 and 1.13)."""
    if not shutil.which("c++filt"):
        pytest.skip("no c++filt")
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY],
                             capture_output=True, text=True, check=True)
    names = subprocess.run(["c++filt"], input=symbols.stdout,
                           capture_output=True, text=True, check=True).stdout
    assert {l.split(" T ")[1] for l in names.splitlines() if "c10::" in l} == {
        "c10::report%sToProfiler(%slong, %s, %s, c10::Device)" % (
            what, pointer, total, total)
        for what, pointer in (("MemoryUsage", "void*, "), ("OutOfMemory", ""))
        for total in ("long", "unsigned long")}
