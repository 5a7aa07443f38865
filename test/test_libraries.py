# SPDX-License-Identifier: MIT
"""Calls of cuBLAS, cuDNN and NCCL: host/libraries on the simulated libraries.

What a slice must say is computed here from what the program says it passed.
"""
import collections
import json
import math
import re

import pytest
from tracing import (BUILD, LIBRARY, SANITIZED, Trace, judge, own_lines,
                     run as run_anywhere)

CATS = ("cublas", "cudnn", "nccl")
ALL = "cuda,nvtx,cublas,cudnn,nccl"
SIM, SHIM = BUILD / "sim" / "libraries", BUILD / "shim"
PATH = "%s:%s" % (BUILD / "sim", SIM)

TYPES = {0: "R_32F", 1: "R_64F", 2: "R_16F", 4: "C_32F", 5: "C_64F",
         14: "R_16BF", 28: "R_8F_E4M3"}
COMPUTE = {64: "16F", 68: "32F", 77: "32F_FAST_TF32"}
OPERATIONS = ["N", "T", "C", "CONJG"]
NCCL_TYPES = {0: ("Char", 1), 4: ("Long", 8), 6: ("Half", 2), 7: ("Float", 4),
              8: ("Double", 8), 9: ("BFloat16", 2)}
# What the simulated one chooses (test/sim/library_nccl.h).
ALGORITHMS = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
              "NVLS_TREE", "PAT"]
PROTOCOLS = ["LL", "LL128", "SIMPLE"]
NCCL_OPS = ["sum", "prod", "max", "min", "avg"]
# Elements that go in and out, of `count` and of the ranks together.
COLLECTIVES = {
    "ncclAllReduce": ("allreduce", lambda c, n: (c, c)),
    "ncclReduceScatter": ("reduce_scatter", lambda c, n: (c * n, c)),
    "ncclAllGather": ("allgather", lambda c, n: (c, c * n)),
    "ncclBroadcast": ("broadcast", lambda c, n: (c, c)),
    "ncclSend": ("send", lambda c, n: (c, None)),
    "ncclRecv": ("recv", lambda c, n: (None, c)),
}


def run(program, *args, **settings):
    return run_anywhere(program, *args, LD_LIBRARY_PATH=PATH, **settings)


def libraries(tmp_path, program, *args, trace=ALL, **settings):
    path = tmp_path / "t.json"
    done = run(program, *args, GPUTRACE_TRACE=trace, GPUTRACE_OUT=path,
               **settings)
    assert done.status == 0, done.err
    found = Trace(path)
    problems = [l for l in (judge(path) or "").splitlines()
                if re.search(r": [A-Z]\d+ (error|warning)", l)
                and " K002 " not in l]        # the names of our categories
    assert not problems, problems
    assert found.losses() == {}
    return done, found


def said(done):
    lines = [json.loads(l) for l in done.out.splitlines()
             if l.startswith("{")]
    return [l for l in lines if "call" in l]


def calls_of(trace):
    """The slices, without calls in calls and what no line is printed for."""
    slices = sorted(trace.slices(*CATS), key=lambda e: (e["start"],
                                                        -e["end"]))
    top, end = [], -1
    for e in slices:
        if e["start"] >= end:
            top.append(e)
            end = e["end"]
    return top


def without(members):
    return {k: v for k, v in members.items() if v is not None}


def gemm_args(line):
    types = [TYPES.get(line[x]) for x in "abc"]
    factor = 8 if types[0] and types[0][0] == "C" else 2
    if "groups" in line:
        products = [math.prod(g) for g in zip(line["m"], line["n"], line["k"],
                                              line["sizes"])]
        shape = {"groups": line["groups"], "batch": sum(line["sizes"])}
        flop = factor * sum(products)
    else:
        shape = {x: line.get(x) for x in ("m", "n", "k", "batch")}
        flop = factor * line["m"] * line["n"] * line.get("k", 1) * \
            line["batch"]
    return without({
        "domain": "cublas", **shape, "A type": types[0], "B type": types[1],
        "C type": types[2], "FLOP": flop if types[0] else None,
        "transA": OPERATIONS[line["transa"]] if "transa" in line else None,
        "transB": OPERATIONS[line["transb"]] if "transb" in line else None,
        "compute type": COMPUTE.get(line.get("compute"))})


def collective_args(line):
    name, elements = COLLECTIVES[line["call"]]
    dtype, size = NCCL_TYPES[line["type"]]
    into, out = elements(line["count"], line["ranks"])
    return without({
        "domain": "nccl", "Collective name": name, "dtype": dtype,
        "In msg nelems": into, "Out msg nelems": out,
        "bytes": max(into or 0, out or 0) * size,
        "op": NCCL_OPS[line["op"]] if "op" in line else None,
        "root": line.get("root"), "peer": line.get("peer"),
        "Group size": line["ranks"], "Rank": line["rank"],
        "comm": hex(line["comm"])})


def same_calls(done, trace):
    lines = said(done)
    # The communicators' ends and the group print nothing.
    slices = [e for e in calls_of(trace) if e["name"] not in (
        "ncclCommInitAll", "ncclCommSplit", "ncclCommDestroy",
        "ncclGroupStart", "ncclGroupEnd") and
        e["args"].get("In msg nelems") != 10]
    lines = [l for l in lines if "questions" not in l]
    assert [e["name"] for e in slices] == [l["call"] for l in lines]
    return list(zip(lines, slices))


WAYS = {
    "linked": ["libraries"],
    "plugin": ["loader", SHIM / "libraries.so"],
    "plugin, library global": ["loader", "--global", SIM / "libcublas.so.13",
                               SHIM / "libraries.so"],
    "plugin, other library global": [
        "loader", "--global", SIM / "libcublas.so.11",
        SHIM / "libraries.so"],
}


@pytest.fixture(scope="module", params=WAYS, name="traced_calls")
def fixture_traced_calls(request, tmp_path_factory):
    """However the libraries came into the process."""
    return libraries(tmp_path_factory.mktemp("calls"), *WAYS[request.param])


def test_each_call_says_what_it_was_given(traced_calls):
    compared = collections.Counter()
    for line, e in same_calls(*traced_calls):
        compared[e["cat"]] += 1
        if e["cat"] == "cublas":
            assert e["args"] == gemm_args(line)
        elif line["call"] in COLLECTIVES:
            assert e["args"] == collective_args(line)
    assert compared == {"cublas": 12, "cudnn": 8, "nccl": 19}


def test_convolutions(traced_calls):
    found = [(l, e) for l, e in same_calls(*traced_calls) if "w" in l]
    assert len(found) == 3
    for line, e in found:
        # Each output element: a window over the channels of its group.
        flop = 2 * math.prod(line["y"]) * math.prod(line["w"][1:])
        assert e["args"]["FLOP"] == flop
        assert [e["args"][x] for x in ("x", "w", "y", "groups")] == \
            [line[x] for x in ("x", "w", "y", "groups")]
        assert e["args"]["pad"] == [1, 2] and e["args"]["stride"] == [2, 2]
        assert e["args"]["type"] == "HALF"
        assert e["args"]["compute type"] == "FLOAT"


def test_descriptors_of_cudnn(traced_calls):
    by_name = {e["name"]: e["args"] for e in calls_of(traced_calls[1])
               if e["cat"] == "cudnn"}
    assert by_name["cudnnMultiHeadAttnForward"]["heads"] == 12
    assert by_name["cudnnMultiHeadAttnForward"]["k max length"] == 256
    assert by_name["cudnnRNNForward"]["cell"] == "LSTM"
    assert by_name["cudnnRNNForward"]["hidden size"] == 48
    plans = [e["args"] for e in calls_of(traced_calls[1])
             if e["name"] == "cudnnBackendExecute"]
    assert [p.get("workspace bytes") for p in plans] == [65536, None]


def test_kernels_are_launched_inside(traced_calls):
    _, trace = traced_calls
    launches, inside = trace.launches(), collections.Counter()
    kernels = [launches[k["args"]["correlation"]]
               for k in trace.slices("kernel")]
    for e in calls_of(trace):
        inside[e["name"]] += sum(
            e["start"] <= l["start"] and l["end"] <= e["end"] and
            e["tid"] == l["tid"] for l in kernels)
    # cublasGemmEx: two each, none of the call that is refused.
    assert inside["cublasGemmEx"] == 3 * 2
    assert inside["cublasSgemmGroupedBatched"] == 3
    assert inside["cublasLtMatmul"] == inside["cublasSgemm_v2"] == 1
    assert inside["cudnnConvolutionForward"] == 1
    # Asked for by four calls, launched by the group's end.
    assert inside["ncclGroupStart"] == 0 and inside["ncclGroupEnd"] == 4
    assert sum(inside.values()) == len(kernels) - 1    # before the attach


def test_a_call_in_a_call_is_nested(traced_calls):
    outer = [e for e in calls_of(traced_calls[1])
             if e["name"] == "cublasGemmEx" and "FLOP" in e["args"]]
    inner = traced_calls[1].slices("cublas", name="cublasLtMatmul")
    for e in outer:
        if e["args"]["m"] == 13:
            continue
        within = [i for i in inner if e["start"] <= i["start"] and
                  i["end"] <= e["end"]]
        assert [i["args"]["FLOP"] for i in within] == [e["args"]["FLOP"]]


def test_ranks_are_asked_for_once(traced_calls):
    """Of the communicator that was split off, by two questions."""
    last = [json.loads(l) for l in traced_calls[0].out.splitlines()
            if "questions" in l]
    assert [l["questions"] for l in last] == [2]
    group = [e["args"]["Rank"] for e in calls_of(traced_calls[1])
             if e["args"].get("In msg nelems") == 10 and
             "Rank" in e["args"]]
    assert group == [0, 1, 2, 3]


@pytest.mark.parametrize("way", WAYS)
def test_the_program_sees_no_difference(tmp_path, way):
    plain = run(*WAYS[way], traced=False)
    assert plain.status == 0, plain.err
    shown = [{k: v for k, v in l.items() if k not in ("comm", "plan")}
             for l in said(plain) if "questions" not in l]
    assert {l["status"] for l in shown} >= {0, 7, 2000}
    for trace in ("cuda", ALL):
        done, found = libraries(tmp_path, *WAYS[way], trace=trace)
        assert [{k: v for k, v in l.items() if k not in ("comm", "plan")}
                for l in said(done) if "questions" not in l] == shown
        assert bool(found.slices(*CATS)) == (trace == ALL)


@pytest.mark.parametrize("cat", CATS)
def test_each_source_alone(tmp_path, cat):
    _, trace = libraries(tmp_path, "libraries", trace="cuda," + cat)
    assert {e["cat"] for e in trace.slices(*CATS)} == {cat}


def test_two_versions_in_one_process(tmp_path):
    """Each plugin reaches its own: a handle of one is refused by the other."""
    done, trace = libraries(
        tmp_path, "loader", "%s,%s" % (SHIM / "libraries.so",
                                       SHIM / "libraries_old.so"),
        "--only", "cublas")
    assert re.findall(r'"cublas": (\d+)', done.out) == ["130000", "110000"]
    # 12 calls and the older one's 10, of which it refuses one each.
    assert collections.Counter(l["status"] for l in said(done)) == {
        0: 20, 7: 2}
    assert trace.count("cublas")["cublasDgemv_v2"] == 2


def test_a_plugin_is_closed_and_loaded_again(tmp_path):
    """And its libraries with it, if it were not for us."""
    plugin = str(SHIM / "libraries.so")
    done, trace = libraries(tmp_path, "loader", "--close",
                            ",".join([plugin] * 5), "--only", "cublas")
    assert collections.Counter(l["status"] for l in said(done)) == {
        0: 5 * 11, 7: 5}
    assert trace.count("cublas")["cublasDgemv_v2"] == 5


ABSENT = {"cublasZgemmBatched": 15, "cudnnRNNBackwardData_v8": 3000,
          "ncclAlltoAll": 5}


def test_a_function_that_the_library_lacks(tmp_path):
    """dlsym finds the wrapper: it says "not supported", by each library's
    number, and keeps errno."""
    lines = [json.loads(l) for l in run(
        "libraries", "--absent", traced=False).out.splitlines()]
    assert [(l["absent"], l["status"]) for l in lines if "absent" in l] == \
        [(name, None) for name in ABSENT]
    done, trace = libraries(tmp_path, "libraries", "--absent")
    lines = [json.loads(l) for l in done.out.splitlines()]
    assert [(l["absent"], l["status"], l["errno"]) for l in lines
            if "absent" in l] == [(n, s, 77) for n, s in ABSENT.items()]
    assert not set(trace.count(*CATS)) & set(ABSENT)


@pytest.mark.parametrize("other", [[], ["--global", SIM / "libnccl.so.2"]],
                         ids=["alone", "beside another"])
def test_a_copy_in_the_caller_itself(tmp_path, other):
    """As the loader would without us: its own where no other is in the global
    scope, else that one, to which its communicator is nothing."""
    plugin = SHIM / "own_nccl.so"
    args = [*other, "%s" % plugin]
    plain = run("loader", *args, traced=False)
    word = [l for l in plain.out.splitlines() if "own" in l]
    first = SHIM / "libraries.so"
    args = [*other, "%s,%s" % (first, plugin), "--only", "cublas"]
    done, trace = libraries(tmp_path, "loader", *args)
    assert [l for l in done.out.splitlines() if '"own"' in l] == word
    if not other:
        assert word == ['{"own": 1, "status": 0}']
        assert [e["args"]["Rank"] for e in trace.slices("nccl")] == [1]


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("way", ["linked", "plugin"])
def test_beside_another_wrapper(tmp_path, order, way):
    shim = SHIM / "cublas_wrapper.so"
    preload = [str(LIBRARY), str(shim)]
    if order == "before":
        preload.reverse()
    done, trace = libraries(tmp_path, *WAYS[way],
                            LD_PRELOAD=" ".join(preload))
    assert "cublas_wrapper: 4 calls" in done.err
    assert trace.count("cublas")["cublasGemmEx"] == 4


def test_where_the_library_came_too_late(tmp_path):
    """Not preloaded but brought by the driver: the program's calls do not
    pass through it, and it says so once for each.  NCCL tells itself."""
    done, trace = libraries(tmp_path, "libraries", LD_PRELOAD="",
                            CUDA_INJECTION64_PATH=LIBRARY)
    assert not trace.slices("cublas", "cudnn") and trace.slices("kernel")
    assert not [n for n in trace.count("nccl") if n.startswith("nccl")]
    lines = [l for l in own_lines(done.err) if "LD_PRELOAD" in l]
    assert [l.split()[1] for l in lines] == ["cublas:", "cudnn:", "nccl:"]


def test_many_threads(tmp_path):
    threads, rounds = 8, 40 if SANITIZED else 200
    _, trace = libraries(tmp_path, "libraries", "--threads", threads,
                         "--rounds", rounds, GPUTRACE_FLUSH="50ms")
    assert trace.count("cublas")["cublasGemmEx"] == threads * rounds
    tids = {e["tid"] for e in trace.slices("cublas", name="cublasGemmEx")}
    assert len(tids) == threads


def test_windows_open_and_close_meanwhile(tmp_path):
    """A slice is whole, or cut by the window's end, and nothing else."""
    done = run("libraries", "--threads", 4, "--rounds", 2000,
               GPUTRACE_TRACE=ALL, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_START="delay:20ms", GPUTRACE_DURATION="50ms")
    assert done.status == 0, done.err
    for path in tmp_path.glob("*.json"):
        trace = Trace(path)
        nested = trace.slices("cublas", name="cublasLtMatmul")
        outer = trace.slices("cublas", name="cublasGemmEx")
        assert nested and outer
        for e in nested[:2000]:
            assert e["args"]["m"] == 64


# ---- What the report makes of it ----

def kernels_of(trace, unit):
    """What was launched on that thread between two times."""
    start, end, tid = unit
    launches = trace.launches()
    return [k for k in trace.slices("kernel") if
            launches[k["args"]["correlation"]]["tid"] == tid and
            start <= launches[k["args"]["correlation"]]["start"] < end]


def test_rates_of_matrix_products(gputrace, traced_calls):
    _, trace = traced_calls
    done = gputrace("report", "-t", "library_calls", "-f", "json", trace.path)
    assert done.status == 0, done.err
    rows = {(r["name"], r["shape"]): r
            for r in json.loads(done.out)["library_calls"]}
    calls = [e for e in calls_of(trace) if "FLOP" in e["args"]]
    compared = 0
    for e in calls:
        kernels = kernels_of(trace, (e["start"], e["end"], e["tid"]))
        if not kernels:
            assert e["args"]["m"] == 13          # refused
            continue
        a = e["args"]
        shape = "x".join(str(a[x]) for x in "mnk" if x in a) \
            if e["cat"] == "cublas" else "x [%s] w [%s] groups 2" % (
                ",".join(map(str, a["x"])), ",".join(map(str, a["w"])))
        if a.get("groups", 1) > 1 and e["cat"] == "cublas":
            shape = "groups %d" % a["groups"]
        if a.get("batch", 1) > 1:
            shape += " batch %d" % a["batch"]
        if "transA" in a:
            shape += " " + a["transA"] + a.get("transB", "")
        shape += " " + (a.get("A type") or a["type"])
        row = rows[e["name"], shape]
        ns = sum(k["end"] - k["start"] for k in kernels)
        assert (row["count"], row["kernel_count"]) == (1, len(kernels))
        assert row["total_ns"] == ns
        assert abs(row["tflops"] - a["FLOP"] / ns / 1000) <= 0.00501
        compared += 1
    # cublasLtMatmul in the one call whose types are not known.
    assert compared == len(rows) - 1 == 13


def test_bandwidth_of_collectives(gputrace, traced_calls):
    """busbw by the formulas of nccl-tests, from what the program said."""
    _, trace = traced_calls
    done = gputrace("report", "-t", "nccl", "-f", "json", trace.path)
    rows = {(r["name"], r["shape"]): r for r in json.loads(done.out)["nccl"]}
    wanted, chosen = collections.defaultdict(lambda: [0, 0, 0, 0]), {}
    for line, e in same_calls(*traced_calls):
        if line["call"] not in COLLECTIVES:
            continue
        n, (dtype, size) = line["ranks"], NCCL_TYPES[line["type"]]
        name, elements = COLLECTIVES[line["call"]]
        factor = {"allreduce": 2 * (n - 1) / n, "allgather": (n - 1) / n,
                  "reduce_scatter": (n - 1) / n}.get(name, 1)
        moved = max(x or 0 for x in elements(line["count"], n)) * size
        kernels = kernels_of(trace, (e["start"], e["end"], e["tid"]))
        of = dtype + (" " + NCCL_OPS[line["op"]] if "op" in line else "") + \
            ", ranks: %d" % n
        # NCCL's own word; of what it does not choose, the kernel's name.
        chosen[name, of] = "kernel RING LL" if name in ("send", "recv") else \
            ALGORITHMS[line["count"] % 7] + " " + \
            PROTOCOLS[line["count"] % 3]
        for i, x in enumerate((1, moved, moved * factor,
                               max(k["end"] for k in kernels) -
                               min(k["start"] for k in kernels))):
            wanted[name, of][i] += x
    group = rows.pop(("allreduce", "Float max, ranks: 4"))
    assert (group["count"], group["kernel_count"], group["bytes"]) == \
        (4, 4, 4 * 40)
    assert rows.keys() == wanted.keys()
    for key, (count, moved, bus, ns) in wanted.items():
        row = rows[key]
        assert (row["count"], row["bytes"], row["total_ns"]) == \
            (count, moved, ns)
        assert abs(row["algbw"] - moved / ns) <= 0.00501
        assert abs(row["busbw"] - bus / ns) <= 0.00501
        assert row["algorithm"] == chosen[key]


def test_report_without_libraries(gputrace, tmp_path):
    _, trace = libraries(tmp_path, "libraries", trace="cuda")
    done = gputrace("report", trace.path)
    assert "cuBLAS" not in done.out and "NCCL" not in done.out
    whole = json.loads(gputrace("report", "-f", "json", trace.path).out)
    assert whole["library_calls"] == whole["nccl"] == []


ODD = [
    {"FLOP": -5}, {"FLOP": "many"}, {"FLOP": 1e30}, {"FLOP": [1]},
    {"FLOP": 9223372036854775807, "m": "x" * 5000, "n": [[]] * 99,
     "k": "\u0000\ud83d\"\\\n", "batch": -1, "A type": {"a": 1}},
    {"FLOP": 12, "x": list(range(500)), "w": "w" * 300, "groups": 1e9,
     "type": "%s%n"}, {}, None, [], 7,
    {"Collective name": "allreduce", "bytes": 9223372036854775807,
     "Group size": 9223372036854775807, "dtype": "x" * 999, "op": []},
    {"Collective name": "", "bytes": 1, "Group size": 1},
    {"Collective name": 5, "bytes": -1, "Group size": 0},
    {"Collective name": "allreduce", "plan": 1, "algorithm": "%s\u202e\"" * 99,
     "protocol": [], "channels": 1e30, "bytes": 1e30, "Group size": -1},
    {"Collective name": "allreduce", "plan": 9223372036854775807,
     "algorithm": 7, "channels": 65536, "bytes": 4},
    {"Collective name": "x", "plan": -1, "algorithm": "RING", "channels": -5},
]


def launching(at, cat, name, args, dur=1):
    """A call of a library, the launch in it and its kernel."""
    return [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": at,
         "dur": 8, "args": args},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel",
         "pid": 1, "tid": 1, "ts": at + 1, "dur": 1,
         "args": {"correlation": at}},
        {"ph": "X", "cat": "kernel", "name": "nccl_RING_TREE_LL128", "pid": 2,
         "tid": 7, "ts": at + 2, "dur": dur,
         "args": {"device": 0, "stream": 7, "correlation": at}}]


def test_report_of_what_no_library_says(gputrace, tmp_path):
    """No crash, no number that is none; whatever is open or never opened."""
    events, at = [], 0
    for args in ODD:
        for cat, name in (("cublas", "f"), ("cudnn", "\u202e"),
                          ("nccl", "ncclAllReduce"),
                          ("nccl", "ncclGroupEnd"),
                          ("nccl", "ncclGroupStart"),
                          ("cublas", "g" * 5000)):
            at += 10
            events += launching(at, cat, name, args, 0 if at % 20 else 1)
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    for form in ("table", "csv", "json"):
        done = gputrace("report", "-f", form, path)
        assert done.status == 0, done.err
    whole = json.loads(done.out, parse_constant=pytest.fail)
    assert whole["library_calls"] and whole["nccl"]
    for row in whole["library_calls"] + whole["nccl"]:
        assert len(row["shape"]) < 640
        assert all(v >= 0 for v in row.values() if not isinstance(v, str))


def test_report_of_work_without_a_shape(gputrace, tmp_path):
    """FLOP and nothing else, after one whose shape begins with a space."""
    events = []
    for at in range(20, 80, 20):
        events += launching(at, "cudnn", "f", {"FLOP": 9, "x": [1]})
        events += launching(at + 10, "cudnn", "f", {"FLOP": 9})
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = gputrace("report", "-t", "library_calls", "-f", "json", path)
    assert done.status == 0, done.err
    assert {r["shape"]: r["count"] for r in json.loads(done.out)[
        "library_calls"]} == {"x [1]": 3, "": 3}


def nccl_range(at, name, args, dur=8, comm="18364758544493064720", tid=1):
    """What NCCL says to NVTX, in the slice that host/payloads has."""
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1,
            "tid": tid, "ts": at, "dur": dur,
            "args": dict(args, domain="NCCL",
                         **{"NCCL communicator ID": comm})}


def nccl_table(gputrace, tmp_path, events):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = gputrace("report", "-t", "nccl", "-f", "json", path)
    assert done.status == 0, done.err
    return {(r["name"], r["shape"]): r for r in json.loads(done.out)["nccl"]}


SIZE, OP = "Message size [bytes]", "Reduction operation"


def collective(at, name, args, **more):
    """NCCL's range around a launch whose kernel takes 2 us."""
    launch = launching(at, "cublas", "", {}, 2)[1:]
    return [nccl_range(at, name, args, **more)] + launch


def test_collectives_by_nccls_own_ranges(gputrace, tmp_path):
    """Where the calls did not pass by us: sizes are NCCL's, of allgather and
    reduce_scatter each rank's part; busbw by the formulas of nccl-tests."""
    events = [nccl_range(10, "ncclCommInitRank", {"No. of ranks": 4})]
    events += collective(20, "ncclAllReduce", {SIZE: 8000, OP: "Sum"})
    events += collective(40, "ncclAllReduce", {SIZE: 4000, OP: "Sum"})
    events += collective(60, "ncclAllGather", {SIZE: 1000})
    events += collective(80, "ncclReduceScatter", {SIZE: 500, OP: "Max"})
    events += collective(100, "ncclBroadcast", {SIZE: 300, "Root": 1})
    events += collective(120, "ncclAllReduce", {SIZE: 600, OP: "Sum"}, comm=7)
    events += collective(140, "ncclNew", {SIZE: 600})
    rows = nccl_table(gputrace, tmp_path, events)
    got = {key: (r["count"], r["total_ns"], r["bytes"], r["algbw"],
                 r["busbw"]) for key, r in rows.items()}
    assert got == {
        ("allreduce", "Sum, ranks: 4"): (2, 4000, 12000, 3, 4.5),
        ("allgather", "ranks: 4"): (1, 2000, 4000, 2, 1.5),
        ("reduce_scatter", "Max, ranks: 4"): (1, 2000, 2000, 1, 0.75),
        ("broadcast", "ranks: 4"): (1, 2000, 300, 0.15, 0.15),
        ("allreduce", "Sum, ranks: ?"): (1, 2000, 600, 0.3, 0),
        ("ncclNew", "ranks: 4"): (1, 2000, 600, 0.3, 0)}


def test_a_call_and_nccls_own_range_are_one(gputrace, tmp_path):
    """The call's slice is around the range, alone and in a group."""
    said = {"Collective name": "allreduce", "bytes": 8000, "Group size": 4,
            "dtype": "Float", "op": "sum"}

    def call(at, name, args, dur=10):
        return {"ph": "X", "cat": "nccl", "name": name, "pid": 1, "tid": 1,
                "ts": at, "dur": dur, "args": args}

    events = [call(19, "ncclAllReduce", said)]
    events += collective(20, "ncclAllReduce", {SIZE: 8000, OP: "Sum"})
    for at in (40, 60):
        events += [call(at, "ncclGroupStart", {}, 2),
                   nccl_range(at + .5, "ncclGroupStart", {}, 1),
                   call(at + 3, "ncclAllReduce", said, 2),
                   nccl_range(at + 3.5, "ncclAllReduce",
                              {SIZE: 8000, OP: "Sum"}, 1),
                   call(at + 6, "ncclGroupEnd", {}, 11)]
        events += collective(at + 7, "ncclGroupEnd", {})
    rows = nccl_table(gputrace, tmp_path, events)
    assert {key: (r["count"], r["kernel_count"]) for key, r in rows.items()
            } == {("allreduce", "Float sum, ranks: 4"): (3, 3)}


def test_a_group_by_nccls_own_ranges(gputrace, tmp_path):
    events = [nccl_range(10, "ncclCommInitAll", {"No. of devices": 2})]
    events += [nccl_range(20, "ncclGroupStart", {}, 1),
               nccl_range(22, "ncclAllReduce", {SIZE: 10, OP: "Sum"}, 1),
               nccl_range(24, "ncclAllReduce", {SIZE: 20, OP: "Sum"}, 1)]
    events += collective(26, "ncclGroupEnd", {})
    rows = nccl_table(gputrace, tmp_path, events)
    assert {key: (r["count"], r["bytes"]) for key, r in rows.items()} == {
        ("allreduce", "Sum, ranks: 2"): (2, 30)}


@pytest.mark.parametrize("args", [
    {SIZE: -1}, {SIZE: "4"}, {SIZE: 1e99}, {SIZE: 2 ** 63 - 1, OP: [1]},
    {SIZE: 1, OP: "x" * 5000, "No. of ranks": 2 ** 40},
    {SIZE: 1, OP: "x" * 39 + "\u00e9" * 2},
    {SIZE: 1, OP: "\ud83d\ude00\u0000%s\"" * 20, "No. of ranks": 0},
    {"domain": [], SIZE: 1}])
def test_odd_ranges_of_nccl(gputrace, tmp_path, args):
    events = collective(20, "ncclAllReduce", args)
    events[0]["args"].update(args)
    for row in nccl_table(gputrace, tmp_path, events).values():
        assert row["busbw"] == 0 and row["bytes"] > 0
        assert len(row["shape"]) < 96
