# SPDX-License-Identifier: MIT
"""What NCCL says itself, through its profiler plug-in interface.

The simulated NCCL (test/sim/library_nccl.h) calls the plug-in as the real one
does, of each version of the interface; what it chose is computed here from the
count that the program says it passed.
"""
import collections
import json
import os
import pathlib
import re

import pytest
from tracing import (BUILD, LIBRARY, SANITIZED, Trace, judge, own_lines,
                     run as run_anywhere)

SIM = BUILD / "sim" / "libraries"
PATH = "%s:%s" % (BUILD / "sim", SIM)
VERSIONS = [1, 2, 3, 4, 5, 6, 7, 9]
ALGORITHMS = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
              "NVLS_TREE", "PAT"]
PROTOCOLS = ["LL", "LL128", "SIMPLE"]
NAMES = {"AllReduce": "allreduce", "ReduceScatter": "reduce_scatter",
         "AllGather": "allgather", "Broadcast": "broadcast", "Send": "send",
         "Recv": "recv"}
TYPES = {0: ("Char", 1), 4: ("Long", 8), 6: ("Half", 2), 7: ("Float", 4),
         8: ("Double", 8), 9: ("BFloat16", 2)}


def run(program, *args, **settings):
    settings.setdefault("GPUTRACE_TRACE", "cuda,nvtx,nccl")
    return run_anywhere(program, *args, LD_LIBRARY_PATH=PATH, **settings)


def handle(tmp_path, *args, losses=None, **settings):
    path = tmp_path / "t.json"
    done = run("nccl_handle", *args, GPUTRACE_OUT=path, **settings)
    assert done.status == 0, done.err
    trace = Trace(path)
    problems = [l for l in (judge(path) or "").splitlines()
                if re.search(r": [A-Z]\d+ (error|warning)", l)
                and " K002 " not in l]        # the name of our category
    assert not problems, problems
    assert trace.losses() == (losses or {})
    return done, trace


def told(done):
    return [json.loads(l) for l in done.out.splitlines() if '"call"' in l]


def in_order(trace):
    return sorted(trace.slices("nccl"), key=lambda e: e["start"])


def is_p2p(line):
    return line["call"] in ("Send", "Recv")


def as_nccl_keeps(line):
    """Elements and type: NCCL counts bytes where nothing is added up."""
    dtype, size = TYPES[line["type"]]
    if line["call"] in ("AllGather", "Broadcast"):
        return line["count"] * size, "Char", 1
    return line["count"], dtype, size


def choice(line):
    count = line["count"]
    return {"algorithm": ALGORITHMS[count % 7],
            "protocol": PROTOCOLS[count % 3], "channels": count % 31 + 1}


def wanted(line, version):
    count, dtype, size = as_nccl_keeps(line)
    says_ranks = version >= 4
    ranks = line["ranks"] if says_ranks else None
    into = out = count
    if line["call"] == "ReduceScatter":
        into = count * ranks if ranks else None
    if line["call"] == "AllGather":
        out = count * ranks if ranks else None
    if line["call"] == "Send":
        out = None
    if line["call"] == "Recv":
        into = None
    whole = line["call"] not in ("ReduceScatter", "AllGather") or ranks
    args = {"domain": "nccl", "Collective name": NAMES[line["call"]],
            "dtype": dtype, "In msg nelems": into, "Out msg nelems": out,
            "bytes": max(into or 0, out or 0) * size if whole else None,
            "comm hash": hex(0xfeedc0de00000000 + line["ranks"])}
    if says_ranks:
        args.update({"Group size": ranks, "Rank": line["rank"],
                     "comm name": "tensor ?parallel?"})
    if line["call"] == "Broadcast":
        args["root"] = line["root"]
    if is_p2p(line):
        args["peer"] = line["root"]
        if version >= 4:
            args["channels"] = choice(line)["channels"]
    else:
        args.update(choice(line), Seq=3)
    return {k: v for k, v in args.items() if v is not None}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_of_the_interface(tmp_path, version):
    """Calls that no wrapper sees, by each layout; of a version that is not
    known yet NCCL takes the newest that is."""
    done, trace = handle(tmp_path, SIM_NCCL=version)
    lines, slices = told(done), in_order(trace)
    assert [e["name"] for e in slices] == [l["call"] for l in lines]
    plans = [e["args"].pop("plan") for e in slices]
    assert [e["args"] for e in slices] == [wanted(l, version) for l in lines]
    # The group of three is one kernel's, each other call another's.
    assert [plans.index(p) for p in plans] == [0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_an_nccl_before_the_interface(tmp_path):
    done, trace = handle(tmp_path, SIM_NCCL=0)
    assert not trace.slices("nccl") and len(trace.slices("kernel")) == 9
    assert not own_lines(done.err)[:-1]


@pytest.mark.parametrize("version", [1, 4, 5, 7])
def test_inside_what_the_wrapper_sees(tmp_path, version):
    """Each is told once, within the call that launches it."""
    path = tmp_path / "t.json"
    done = run("libraries", GPUTRACE_OUT=path, SIM_NCCL=version)
    assert done.status == 0, done.err
    slices = Trace(path).slices("nccl")
    wrappers = [e for e in slices if e["name"].startswith("nccl")]
    tasks = [e for e in slices if e not in wrappers]
    inside = collections.Counter()
    for t in tasks:
        around = [w for w in wrappers if w["tid"] == t["tid"] and
                  w["start"] <= t["start"] and t["end"] <= w["end"]]
        assert len(around) == 1
        inside[around[0]["name"]] += 1
        if around[0]["name"] == "ncclGroupEnd":
            continue
        assert around[0]["name"] == "nccl" + t["name"]
        both = ["Collective name", "peer"]
        if t["name"] not in ("AllGather", "Broadcast"):
            both += ["dtype", "In msg nelems", "Out msg nelems"]
        if version >= 4:
            both += ["Group size", "Rank", "bytes"]
        for key in both:
            if key in t["args"]:
                assert around[0]["args"][key] == t["args"][key]
    calls = collections.Counter(w["name"] for w in wrappers
                                if "bytes" in w["args"])
    # Four all-reduces wait for the group's end; one has no communicator.
    assert inside.pop("ncclGroupEnd") == 4
    calls["ncclAllReduce"] -= 5
    assert inside == calls


def test_on_the_thread_that_launches(tmp_path, gputrace):
    done, trace = handle(tmp_path, SIM_NCCL_THREAD=1)
    main = {e["tid"] for e in trace.api() if e["name"] == "cuInit"}
    assert main.isdisjoint(e["tid"] for e in trace.slices("nccl"))
    rows = reported(gputrace, trace)
    assert sum(r["count"] for r in rows) == len(told(done)) == \
        sum(r["kernel_count"] for r in rows)


# ---- What the report makes of it ----

def reported(gputrace, trace):
    done = gputrace("report", "-t", "nccl", "-f", "json", trace.path)
    assert done.status == 0, done.err
    return json.loads(done.out)["nccl"]


@pytest.mark.parametrize("version", [1, 4, 7])
def test_bandwidth_of_calls_that_no_wrapper_sees(gputrace, tmp_path, version):
    done, trace = handle(tmp_path, SIM_NCCL=version)
    rows = {(r["name"], r["kernel_count"]): r
            for r in reported(gputrace, trace)}
    group = rows.pop(("allreduce", 3))
    assert (group["count"], group["bytes"], group["algorithm"],
            group["channels"]) == (3, 4 * (13 + 14 + 15), "(several)", 16)
    for line in told(done)[:6]:
        n, args = line["ranks"], wanted(line, version)
        row = rows.pop((NAMES[line["call"]], 1))
        factors = {"AllReduce": 2 * (n - 1) / n, "AllGather": (n - 1) / n,
                   "ReduceScatter": (n - 1) / n}
        factor = factors.get(line["call"], 1)
        moved = args.get("bytes", 0)
        assert (row["count"], row["bytes"]) == (1, moved)
        assert row["channels"] == args.get("channels", 0)
        # Of a send NCCL names no algorithm, the kernel's name does.
        assert row["algorithm"] == " ".join(
            args.get(x, y) for x, y in (("algorithm", "kernel RING"),
                                        ("protocol", "LL")))
        # The number of ranks is told by newer ones alone.
        is_known = version >= 4 or line["call"] not in factors
        bus = moved * factor / row["total_ns"] if is_known else 0
        assert abs(row["busbw"] - bus) <= 0.00501
    assert not rows


def event(at, name, args=None, cat="nccl", dur=1, pid=1, tid=1):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
            "ts": at, "dur": dur, "args": args or {}}


def launch(at, kernel):
    return [event(at, "cudaLaunchKernel", {"correlation": at},
                  "cuda_runtime"),
            event(at + 1, kernel, {"device": 0, "stream": 7,
                                   "correlation": at}, "kernel", pid=2, tid=7)]


def task(at, plan, **more):
    return event(at, "AllReduce", {
        "Collective name": "allreduce", "bytes": 8, "Group size": 2,
        "algorithm": "RING", "protocol": "LL", "plan": plan, **more})


def test_kernels_go_to_the_task_behind_them(gputrace, tmp_path):
    """NCCL's own alone, and none that a wrapper's call launched."""
    events = [
        *launch(10, "gemm"), *launch(20, "ncclDevKernel_A"), task(30, 1),
        *launch(40, "gemm"),
        event(50, "cublasGemmEx", {"FLOP": 9, "m": 1}, "cublas", 20),
        *launch(60, "gemm"),
        *launch(80, "ncclDevKernel_A"), task(90, 2), task(92, 2),
        # Groups are seen, what is in them is not.
        event(100, "ncclGroupStart"), event(110, "ncclGroupEnd", dur=50),
        *launch(120, "ncclDevKernel_A"), task(130, 3, bytes=16),
        *launch(140, "ncclDevKernel_A"), task(150, 4, bytes=16),
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = gputrace("report", "-f", "json", path)
    assert done.status == 0, done.err
    whole = json.loads(done.out)
    assert [(r["count"], r["kernel_count"]) for r in whole["library_calls"]] \
        == [(1, 1)]
    assert [(r["count"], r["kernel_count"], r["bytes"])
            for r in whole["nccl"]] == [(5, 4, 3 * 8 + 2 * 16)]


# ---- Who asks NCCL for it, and who does not ----

def plugin_of(done):
    return json.loads(done.out.splitlines()[-1])["plugin"]


def test_the_variable_names_this_library(tmp_path):
    done, _ = handle(tmp_path)
    assert os.path.samefile(plugin_of(done), LIBRARY)


@pytest.mark.parametrize("settings", [
    {"GPUTRACE_TRACE": "cuda,nvtx"}, {"GPUTRACE_NCCL_PLUGIN": "off"}],
    ids=["source not named", "off"])
def test_not_asked_for(tmp_path, settings):
    done, trace = handle(tmp_path, **settings)
    assert plugin_of(done) == "" and not trace.slices("nccl")


def test_a_process_without_cuda_is_left_alone():
    done = run("/usr/bin/env")
    assert done.status == 0 and "NCCL_" not in done.out


@pytest.mark.parametrize("way", ["environment", "program", "home", "file",
                                 "empty", "long"])
def test_a_plugin_of_the_user_stays(tmp_path, way):
    """Wherever NCCL would take it from."""
    line = "# mine\nNCCL_DEBUG=WARN\nNCCL_PROFILER_PLUGIN=other\n"
    (tmp_path / ".nccl.conf").write_text(line)
    args, settings = [], {"HOME": tmp_path / "nobody"}
    if way == "environment":
        settings["NCCL_PROFILER_PLUGIN"] = "other"
    elif way == "program":
        args = ["--own-plugin", "other"]
    elif way == "home":
        settings["HOME"] = tmp_path
    elif way == "empty":    # for NCCL it is not set, then
        settings.update(HOME=tmp_path, NCCL_CONF_FILE="")
    else:
        if way == "long":
            (tmp_path / ".nccl.conf").write_text("# mine\n" * 3000 + line)
        settings["NCCL_CONF_FILE"] = tmp_path / ".nccl.conf"
    done, trace = handle(tmp_path, *args, **settings)
    assert plugin_of(done) == ("other" if way in ("environment", "program")
                               else "")
    assert not trace.slices("nccl")


def test_a_file_that_is_a_pipe(tmp_path):
    """Nobody writes into it; cuInit does not wait."""
    os.mkfifo(tmp_path / "pipe")
    done, _ = handle(tmp_path, NCCL_CONF_FILE=tmp_path / "pipe")
    assert plugin_of(done)


def test_other_lines_of_a_file_do_not_count(tmp_path):
    path = tmp_path / "nccl.conf"
    path.write_text("#NCCL_PROFILER_PLUGIN=other\nNCCL_PROFILER_PLUGIN2=a\n"
                    "A=NCCL_PROFILER_PLUGIN=b")
    done, trace = handle(tmp_path, NCCL_CONF_FILE=path)
    assert plugin_of(done) and trace.slices("nccl")


def test_brought_by_the_driver(tmp_path):
    """No wrapper, but NCCL's own word; and it says so."""
    done, trace = handle(tmp_path, LD_PRELOAD="",
                         CUDA_INJECTION64_PATH=LIBRARY)
    assert len(trace.slices("nccl")) == 9
    assert [l for l in own_lines(done.err) if "2.23" in l]


# ---- As long as it lasts ----

def test_asleep_nothing_is_told():
    done = run("nccl_handle", "--calls", 50, GPUTRACE_START="off",
               GPUTRACE_CONTROL="off", GPUTRACE_SIGNAL="USR2")
    assert done.status == 0, done.err
    assert json.loads(done.out.splitlines()[-1])["told"] == 0


def test_a_window_opens_and_closes_meanwhile(tmp_path):
    """While it is open each call is there, and NCCL tells no others."""
    done, trace = handle(tmp_path, "--calls", 600, "--pause-us", 500,
                         GPUTRACE_START="delay:60ms",
                         GPUTRACE_DURATION="100ms")
    slices = in_order(trace)
    seqs = [e["args"]["In msg nelems"] for e in slices]
    assert 10 < len(seqs) < 500
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    kernels = len(trace.slices("kernel"))
    assert abs(kernels - len(seqs)) <= 5
    # v5: the group's call, the call, the group and the task.
    assert 0 <= json.loads(done.out.splitlines()[-1])["told"] - \
        4 * len(seqs) <= 8


def test_many_threads(tmp_path):
    threads, calls = 8, 60 if SANITIZED else 500
    _, trace = handle(tmp_path, "--threads", threads, "--calls", calls,
                      "--pause-us", 100, GPUTRACE_FLUSH="50ms")
    counted = collections.Counter(
        (e["tid"], e["args"]["In msg nelems"]) for e in trace.slices("nccl"))
    assert len(counted) == threads * calls and set(counted.values()) == {1}
    plans = {e["args"]["plan"] for e in trace.slices("nccl")}
    assert len(plans) == threads * calls


def test_more_communicators_than_are_kept(tmp_path):
    """Those beyond say less, and are counted."""
    _, trace = handle(tmp_path, "--comms", 600,
                      losses={"table full": 600 + 1 - 512})
    slices = in_order(trace)
    assert len(slices) == 9
    assert all("Group size" not in e["args"] and
               e["args"]["Rank"] == 5 if "Rank" in e["args"] else True
               for e in slices)
    assert all("comm hash" not in e["args"] for e in slices)


def test_communicators_come_and_go(tmp_path):
    """More than are kept at once, one after another: NCCL closes the plug-in
    with the last and opens it again."""
    _, trace = handle(tmp_path, "--threads", 64, "--calls", 2)
    assert len(trace.slices("nccl")) == 128
    assert all(e["args"]["Group size"] == 8 for e in trace.slices("nccl"))


def test_the_child_of_a_fork_tells_nothing(tmp_path):
    _, trace = handle(tmp_path, "--fork")
    assert [e["args"]["In msg nelems"] for e in in_order(trace)] == [4, 6]
    assert {e["pid"] for e in trace.slices("nccl")} == \
        {e["pid"] for e in trace.api()}
    assert len(list(pathlib.Path(tmp_path).glob("*.json"))) == 1
