# SPDX-License-Identifier: MIT
"""`gputrace report -t ops`: PyTorch's key_averages().table(), against another
computation on a trace of PyTorch's own profiler from a real GPU."""
import collections
import gzip
import json
import re
import subprocess

import pytest
from tracing import BUILD, ROOT, ns

DATA = ROOT.parent / "shared/data/kineto_h200_cpu_cuda.json.gz"
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
CPU = {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"}


def report(path, *args):
    done = subprocess.run([BUILD / "gputrace", "report", "-f", "json", "-t",
                           "ops", *args, path], capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)


def load(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        text = file.read()
    found = [e for e in json.loads(text, parse_float=str)["traceEvents"]
             if e.get("ph") == "X"]
    for e in found:
        e["start"] = ns(e["ts"])
        e["end"] = e["start"] + ns(e["dur"])
    return found


def parents(slices):
    """{index: index of the shortest slice of its thread that holds it}"""
    found = {}
    for i, a in enumerate(slices):
        holders = [(b["end"] - b["start"], -k) for k, b in enumerate(slices)
                   if k != i and b["tid"] == a["tid"] and
                   b["start"] <= a["start"] and a["end"] <= b["end"] and
                   (b["end"] - b["start"], -k) > (a["end"] - a["start"], -i)]
        if holders:
            found[i] = -min(holders)[1]
    return found


def merge_overloads(slices, of, self_gpu):
    """What is the only one inside one of its name, one by one."""
    gone, found = set(), True
    while found:
        inside = collections.defaultdict(list)
        for i, k in of.items():
            if i not in gone:
                inside[k].append(i)
        found = [(k, i[0]) for k, i in inside.items() if len(i) == 1 and
                 slices[k]["name"] == slices[i[0]]["name"]][:1]
        for k, i in found:
            gone.add(i)
            self_gpu[k] += self_gpu.pop(i, 0)
            for j in inside[i]:
                of[j] = k
    return gone


def key_averages(events):
    """{name: [self CPU, CPU, self GPU, GPU, calls]}, kernels by External id;
    each operator is looked for among all others."""
    slices = [e for e in events if e["cat"] in CPU]
    of = parents(slices)
    self_gpu = collections.Counter()
    by_id = {e["args"]["External id"]: i for i, e in enumerate(slices)
             if e["cat"] == "cpu_op"}
    for e in events:
        if e["cat"] in GPU and e["args"].get("External id") in by_id:
            self_gpu[by_id[e["args"]["External id"]]] += e["end"] - e["start"]
    gone = merge_overloads(slices, of, self_gpu)
    inside, gpu = collections.Counter(), collections.Counter()
    for i, e in enumerate(slices):
        if i in of and i not in gone:
            inside[of[i]] += e["end"] - e["start"]
        up = None if i in gone else i
        while up is not None:
            gpu[up] += self_gpu[i]
            up = of.get(up)
    rows = collections.defaultdict(lambda: [0] * 5)
    for i, e in enumerate(slices):
        if i in gone:
            continue
        name = re.sub(r"^ProfilerStep#.*", "ProfilerStep*", e["name"])
        took = e["end"] - e["start"]
        for k, value in enumerate((took - inside[i], took, self_gpu[i],
                                   gpu[i], 1)):
            rows[name][k] += value
    return dict(rows)


def as_rows(got):
    return {r["name"]: [r["self_cpu_ns"], r["cpu_ns"], r["self_gpu_ns"],
                        r["gpu_ns"], r["count"]] for r in got["ops"]}


@pytest.mark.skipif(not DATA.exists(), reason="no %s" % DATA)
def test_key_averages(tmp_path):
    events = load(DATA)
    # The first third: each slice is looked for in all.
    last = sorted(e["end"] for e in events if e["cat"] == "cpu_op")
    last = last[len(last) // 3]
    kept = [e for e in events if e["end"] <= last or e["cat"] in GPU]
    launched = {e["args"]["correlation"] for e in kept
                if e["cat"] in CPU and "correlation" in e["args"]}
    kept = [e for e in kept if e["cat"] not in GPU or
            e["args"]["correlation"] in launched]
    path = tmp_path / "part.json"
    path.write_text(json.dumps({"traceEvents": [
        {**e, "ts": 0, "dur": 0} for e in kept]}))
    text = path.read_text()
    for e in kept:      # times as they were written, digit by digit
        text = text.replace('"ts": 0, "dur": 0', '"ts": %s, "dur": %s' %
                            (e["ts"], e["dur"]), 1)
    path.write_text(text)
    got, want = report(path), key_averages(kept)
    assert as_rows(got) == want
    assert got["ops_total"] == {
        "self_cpu_ns": sum(row[0] for row in want.values()),
        "self_gpu_ns": sum(e["end"] - e["start"] for e in kept
                           if e["cat"] in GPU)}


def op(name, start, dur, cat="cpu_op", tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid,
            "ts": start, "dur": dur, "args": args}


def test_worked_out_on_paper(tmp_path):
    """Steps are one row; what crosses is inside nothing; a call inside a call
    launches for the operator."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [
        op("ProfilerStep#1", 0, 100, "user_annotation"),
        op("ProfilerStep#2", 200, 50, "user_annotation"),
        op("outer", 10, 60), op("inner", 20, 30), op("outer", 210, 10),
        op("crossing", 60, 20), op("inner", 12, 5, tid=2),
        op("cudaLaunchKernel", 22, 10, "cuda_runtime", correlation=7),
        op("cuLaunchKernel", 24, 2, "cuda_driver", correlation=7),
        op("k", 40, 500, "kernel", 3, device=0, stream=3, correlation=7),
        op("k", 600, 11, "kernel", 3, device=0, stream=3, correlation=8),
    ]}))
    us = 1000
    assert as_rows(report(path)) == {
        "ProfilerStep*": [(100 - 60 - 20 + 50 - 10) * us, 150 * us, 0,
                          500 * us, 2],
        "outer": [(60 - 30 + 10) * us, 70 * us, 0, 500 * us, 2],
        "inner": [(30 - 10 + 5) * us, 35 * us, 500 * us, 500 * us, 2],
        "crossing": [20 * us, 20 * us, 0, 0, 1],
        "cudaLaunchKernel": [8 * us, 10 * us, 0, 0, 1],
        "cuLaunchKernel": [2 * us, 2 * us, 0, 0, 1]}
    assert report(path)["ops_total"] == {"self_cpu_ns": 155 * us,
                                         "self_gpu_ns": 511 * us}
    late = as_rows(report(path, "-F", "time=190us..240us"))
    assert late == {"ProfilerStep*": [40 * us, 50 * us, 0, 0, 1],
                    "outer": [10 * us, 10 * us, 0, 0, 1]}


def test_overloads_are_one(tmp_path):
    """aten::sum that calls aten::sum alone; one that does more is two."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [
        op("sum", 0, 100), op("sum", 10, 80), op("fill", 20, 5),
        op("sum", 200, 100), op("sum", 210, 50), op("fill", 270, 5),
        op("cudaLaunchKernel", 30, 10, "cuda_runtime", correlation=7),
        op("k", 40, 7, "kernel", 3, device=0, stream=3, correlation=7),
    ]}))
    us = 1000
    assert as_rows(report(path)) == {
        "sum": [(100 - 5 - 10 + 100 - 55 + 50) * us, 250 * us, 7 * us, 7 * us,
                3],
        "fill": [10 * us, 10 * us, 0, 0, 2],
        "cudaLaunchKernel": [10 * us, 10 * us, 0, 0, 1]}


def test_without_operators(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [
        op("step", 0, 100, "user_annotation")]}))
    got = report(path)
    assert got["ops"] == [] and "ops_total" not in got
