# SPDX-License-Identifier: MIT
"""The command: record, report, open, options, manual.

What a report must say is computed here, from the same file, with Python's
json and exact fractions.
"""
import bisect
import collections
import csv
import fcntl
import gzip
import io
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from tracing import BUILD, ROOT

GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_graph")
TABLES = {"kernels": ("kernel",), "api": ("cuda_runtime", "cuda_driver"),
          "copies": ("gpu_memcpy", "gpu_memset"), "graphs": ("cuda_graph",),
          "nvtx": ("user_annotation",)}
COMMANDS = ["record", "report", "diagnose", "diff", "merge", "check", "ps",
            "doctor", "open"]


def load(path):
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    return json.loads(raw, parse_float=Decimal)


def ns(us):
    return int((Decimal(us) * 1000).quantize(Decimal(1), ROUND_HALF_UP))


def half_up(x):
    return math.floor(Fraction(x) + Fraction(1, 2))


def stats(values, unit="ns"):
    """count and statistics of integers, halves rounded up."""
    v, n, total = sorted(values), len(values), sum(values)
    middle = Fraction(v[(n - 1) // 2] + v[n // 2], 2)
    mean = Fraction(total, n)
    variance = sum((x - mean) ** 2 for x in v) / (n - 1) if n > 1 else 0
    # round(sqrt(v)) = floor((sqrt(4 v) + 1) / 2), by an integer root
    deviation = (math.isqrt(math.floor(4 * Fraction(variance))) + 1) // 2
    numbers = {"total": total, "avg": half_up(mean), "median": half_up(middle),
               "min": v[0], "max": v[-1], "stddev": deviation}
    return {k + "_" + unit: x for k, x in numbers.items()}


def slices(events):
    return [e for e in events if e["ph"] == "X" and e["cat"] != "Trace"]


def union(intervals):
    busy, until = 0, -1
    for start, end in sorted(intervals):
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return busy


def shared(kinds):
    """Time with two kinds of work at once; communication while computing."""
    edges = sorted({t for k in kinds.values() for span in k for t in span})
    one = {k: merged(v) for k, v in kinds.items()}
    both = hidden = 0
    for at, until in zip(edges, edges[1:]):
        now = {k for k, (starts, ends) in one.items()
               if bisect.bisect_right(starts, at) >
               bisect.bisect_right(ends, at)}
        both += (until - at) * (len(now) > 1)
        hidden += (until - at) * ({"comm", "compute"} <= now)
    return both, hidden


def merged(intervals):
    starts, ends = [], []
    for start, end in sorted(intervals):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def expected_rows(events, cats):
    groups = collections.defaultdict(list)
    for e in slices(events):
        if e["cat"] in cats:
            groups[e["name"]].append(e)
    total = sum(ns(e["dur"]) for g in groups.values() for e in g)
    rows = {}
    for name, group in groups.items():
        row = stats([ns(e["dur"]) for e in group])
        row.update(count=len(group), name=name)
        row["share"] = half_up(Fraction(row["total_ns"] * 10 ** 6,
                                        total or 1)) / 10 ** 6
        if "gpu_memcpy" in cats:
            row.update(stats([e["args"]["bytes"] for e in group
                              if "bytes" in e["args"]], "bytes"))
        rows[name] = row
    return rows


def expected_summary(events):
    # The tracer's own work is not the program's time.
    spans = [(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in slices(events)
             if e["cat"] != "overhead"]
    work = collections.defaultdict(lambda: collections.defaultdict(list))
    for e in slices(events):
        if e["cat"] in GPU_WORK:
            kind = ("copy" if "mem" in e["cat"] else
                    "comm" if e["name"].startswith("nccl") and
                    e["cat"] == "kernel" else "compute")
            span = ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])
            work[e["args"]["device"]][kind].append(span)
    wall = max(e for _, e in spans) - min(s for s, _ in spans)
    busy = sum(union(sum(d.values(), [])) for d in work.values())
    kernels = [ns(e["dur"]) for e in slices(events) if e["cat"] == "kernel"]
    both = [shared(d) for d in work.values()]
    calls = collections.defaultdict(list)
    for e in slices(events):
        if e["cat"] in TABLES["api"]:
            calls[e["pid"], e["tid"]].append(
                (ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
    api = [union(c) for c in calls.values()]
    overhead = [ns(e["dur"]) for e in slices(events)
                if e["cat"] == "overhead"]
    kinds = {k: sum(union(d[k]) for d in work.values())
             for k in ("compute", "comm", "copy")}
    return dict({k + "_ns": n for k, n in kinds.items()}, wall_ns=wall,
                gpu_busy_ns=busy,
                gpu_idle_ns=wall * max(1, len(work)) - busy,
                kernel_count=len(kernels), kernel_time_ns=sum(kernels),
                overlap_ns=sum(o for o, _ in both),
                comm_hidden_ns=sum(h for _, h in both), api_ns=sum(api),
                api_busiest_ns=max(api, default=0),
                api_count=sum(map(len, calls.values())),
                overhead_ns=sum(overhead))


def report(gputrace, *args):
    done = gputrace("report", "--format", "json", *args)
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out)


def write(path, events, **header):
    path.write_text(json.dumps(dict(header, traceEvents=events)))
    return path


def slice_of(cat, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid,
            "ts": ts, "dur": dur, "args": args}


# ---- report ----

def test_real_traces(gputrace, real_trace):
    events = load(real_trace)["traceEvents"]
    got = report(gputrace, real_trace)
    assert got["schema"] == 1
    for table, cats in TABLES.items():
        rows = {r["name"]: r for r in got[table]}
        want = expected_rows(events, cats)
        assert len(rows) == len(got[table]) and rows.keys() == want.keys()
        for name, row in want.items():
            assert row.items() <= rows[name].items(), name
        times = [r["total_ns"] for r in got[table]]
        assert times == sorted(times, reverse=True)
    want = expected_summary(events)
    assert want.items() <= got["summary"].items()
    assert sum(r["count"] for r in got["kernels"]) == want["kernel_count"]


def test_order_and_form_of_events_do_not_matter(gputrace, real_trace,
                                                tmp_path):
    trace = load(real_trace)
    events = json.loads(json.dumps(trace["traceEvents"], default=str))
    for e in events:
        for key in ("ts", "dur"):
            if key in e:
                e[key] = float(e[key])
    want = report(gputrace, write(tmp_path / "a.json", events))
    random.Random(7).shuffle(events)
    array = tmp_path / "b.json"
    array.write_text(json.dumps(events, indent=3))
    assert report(gputrace, array) == want


def test_two_files_are_aligned_by_their_bases(gputrace, tmp_path):
    a = write(tmp_path / "a.json", [
        slice_of("kernel", "k", 10, 5, device=0, stream=7)],
        baseTimeNanoseconds=1790857026000000000)
    b = write(tmp_path / "b.json", [
        slice_of("kernel", "k", 10, 7, device=0, stream=7)],
        baseTimeNanoseconds=1790857026000001000)
    got = report(gputrace, a, b)
    assert got["summary"]["wall_ns"] == 1000 + 7000
    assert got["summary"]["gpu_busy_ns"] == 5000 + 7000
    assert [d["file"] for d in got["devices"]] == [0, 1]
    assert got["kernels"][0]["count"] == 2


@pytest.mark.parametrize("text, want", [
    ("0", 0), ("1", 1000), ("1.5", 1500), ("0.001", 1), ("0.0005", 1),
    ("0.00049999999999999999999", 0), ("1e3", 1000000), ("2.5E-3", 3),
    ("25e-1", 2500), ("1790857026000000.123", 1790857026000000123),
    ("1.790857026000000123e15", 1790857026000000123),
    ("1790857026000000123e-3", 1790857026000000123),
    ("000.5", None), ("5116305776701.735000", 5116305776701735),
    ("0.00000000000000000000000000001e29", 1000), ("0e999999999", 0),
])
def test_times_are_exact(gputrace, tmp_path, text, want):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a",'
                    '"pid":1,"tid":1,"ts":0,"dur":0},{"ph":"X","cat":'
                    '"cpu_op","name":"a","pid":1,"tid":1,"ts":%s,"dur":0}]}'
                    % text)
    if want is None:
        assert gputrace("report", path).status == 3
    else:
        assert report(gputrace, path)["summary"]["wall_ns"] == want


@pytest.mark.parametrize("values", [
    [0], [1, 2], [1, 1, 1, 2], [5, 1, 4, 2, 3], [0, 0, 10 ** 15],
    [2 ** 40 + i * i for i in range(1001)], [256] * 999 + [255],
    [random.Random(3).randrange(10 ** 9) for _ in range(5000)],
], ids=range(8))
def test_statistics_are_exact(gputrace, tmp_path, values):
    path = write(tmp_path / "t.json", [
        slice_of("kernel", "k", i, v // 1000 if v % 1000 == 0 else v / 1000)
        for i, v in enumerate(values)])
    row = report(gputrace, path)["kernels"][0]
    assert stats(values).items() <= row.items()


def innermost(ranges):
    """Self times by the definition, moment by moment."""
    edges = sorted({t for s, e, _ in ranges for t in (s, e)})
    total = collections.Counter()
    for at, until in zip(edges, edges[1:]):
        running = [(s, -e, i) for i, (s, e, _) in enumerate(ranges)
                   if s <= at and e >= until]
        if running:
            total[ranges[max(running)[2]][2]] += until - at
    return total


def projected(ranges, launches):
    """(projection, operations) of each range: nsys' definition."""
    found = collections.defaultdict(list)
    for start, end, name in ranges:
        inside = [op for at, *op in launches if start <= at <= end]
        if inside:
            found[name].append((max(e for _, e in inside) -
                                min(s for s, _ in inside), len(inside)))
    return found


def nesting(ranges):
    """[level, children] of each range, by who lies around whom."""
    order = sorted(ranges, key=lambda r: (r[0], -r[1], r[2]))
    found = [[r, 0, 0] for r in order]
    for i, (start, end, _) in enumerate(order):
        around = [j for j in range(i)
                  if order[j][0] <= start and order[j][1] >= end]
        found[i][1] = len(around)
        if around:
            found[around[-1]][2] += 1
    return found


def hundredths(numbers):
    mean = Fraction(sum(numbers), len(numbers))
    return "%.2f" % (Decimal(int(mean * 100 + Fraction(1, 2))) / 100)


@pytest.mark.parametrize("seed", range(6))
def test_ranges(gputrace, tmp_path, seed):
    """Nested, equal, empty and crossing ranges, and work launched in them."""
    rng = random.Random(seed)
    ranges, launches, events = [], [], []
    for i in range(60):
        start, length = rng.randrange(300), rng.choice([0, 1, 5, 40, 200])
        ranges.append((start, start + length, "r%d" % rng.randrange(9)))
    for i in range(80):
        at, start = rng.randrange(320), rng.randrange(400)
        launches.append((at, start, start + rng.randrange(9)))
    for start, end, name in ranges:
        events.append(slice_of("user_annotation", name, start, end - start))
    for i, (at, start, end) in enumerate(launches):
        events.append(slice_of("cuda_runtime", "cudaLaunchKernel", at, 1,
                               correlation=i + 1))
        events.append(slice_of("kernel", "k", start, end - start, tid=9,
                               device=0, stream=7, correlation=i + 1))
    # another thread, whose launches are in no range
    events.append(slice_of("cuda_runtime", "cudaLaunchKernel", 5, 1, tid=2,
                           correlation=999))
    events.append(slice_of("kernel", "k", 900, 1, device=0, correlation=999))
    rng.shuffle(events)
    got = report(gputrace, write(tmp_path / "t.json", events))
    want = innermost(ranges)
    # equal ranges of different names share their time by the file's order
    twins = collections.Counter((s, e) for s, e, _ in ranges)
    assert sum(r["self_ns"] for r in got["nvtx"]) == 1000 * sum(want.values())
    for row in got["nvtx"]:
        if all(twins[s, e] == 1 for s, e, n in ranges if n == row["name"]):
            alone = {(s, e) for s, e, n in ranges if n == row["name"]}
            assert alone
            assert row["self_ns"] == 1000 * want[row["name"]]
    projections = projected(ranges, launches)
    assert {r["name"] for r in got["nvtx_gpu"]} == projections.keys()
    for row in got["nvtx_gpu"]:
        times = [1000 * t for t, _ in projections[row["name"]]]
        assert stats(times).items() <= row.items()
        ops = [n for _, n in projections[row["name"]]]
        assert row["gpu_ops"] == sum(ops)
        with_work = [(level, children) for (start, end, name), level, children
                     in nesting(ranges) if name == row["name"] and
                     any(start <= at <= end for at, *_ in launches)]
        for key, numbers in (("avg_gpu_ops", ops),
                             ("avg_level", [w[0] for w in with_work]),
                             ("avg_children", [w[1] for w in with_work])):
            assert "%.2f" % row[key] == hundredths(numbers), key


def test_ranges_that_only_the_tracer_could_place(gputrace, tmp_path):
    """Start/end ranges stand on lanes of their own, without launches."""
    gpu = dict(device=0, context=1, stream=7)
    path = write(tmp_path / "t.json", [
        slice_of("user_annotation", "request", 0, 90, tid=5000000),
        slice_of("user_annotation", "request", 100, 30, tid=5000000),
        slice_of("gpu_user_annotation", "request", 10, 50, tid=4,
                 **{"GPU operations": 3}, **gpu),
        slice_of("gpu_user_annotation", "elsewhere", 10, 5, tid=4, **gpu)])
    got = report(gputrace, path)
    rows = {r["name"]: r for r in got["nvtx_gpu"]}
    assert dict(stats([50000]), count=1, gpu_ops=3, range_ns=120000).items() \
        <= rows["request"].items()
    assert dict(stats([5000]), count=1, gpu_ops=0, range_ns=0).items() <= \
        rows["elsewhere"].items()
    assert [r["name"] for r in got["nvtx"]] == ["request"]


def test_streams_and_communication(gputrace, tmp_path):
    work = dict(device=0, context=1)
    path = write(tmp_path / "t.json", [
        slice_of("kernel", "a", 0, 10, stream=7, **work),
        slice_of("kernel", "b", 5, 10, stream=8, **work),
        slice_of("kernel", "ncclDevKernel_AllReduce", 12, 10, stream=9,
                 **work),
        slice_of("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 40, 5,
                 stream=9, bytes=100, **work),
        slice_of("kernel", "on another GPU", 0, 3, device=1, stream=7),
        slice_of("cpu_op", "aten::mm", 0, 50)])
    got = report(gputrace, path)
    assert expected_summary(load(path)["traceEvents"]).items() <= \
        got["summary"].items()
    assert got["summary"]["gpu_busy_ns"] == 22000 + 5000 + 3000
    assert got["summary"]["comm_ns"] == 10000
    assert {d["device"]: d["busy_ns"] for d in got["devices"]} == \
        {0: 27000, 1: 3000}


@pytest.mark.parametrize("seed", range(4))
def test_what_lies_over_what(gputrace, tmp_path, seed):
    rng = random.Random(seed)
    events = []
    for _ in range(200):
        cat, name = rng.choice([("kernel", "k"), ("gpu_memcpy", "c"),
                                ("kernel", "ncclAllReduce"),
                                ("cuda_graph", "g")])
        events.append(slice_of(cat, name, rng.randrange(900),
                               rng.choice([0, 1, 9, 30]), bytes=1,
                               device=rng.randrange(2)))
    for _ in range(100):
        events.append(slice_of("cuda_runtime", "cudaFree",
                               rng.randrange(900), rng.choice([0, 3, 20]),
                               tid=rng.randrange(3)))
    events.append(slice_of("overhead", "flush", 5000, 7))
    got = report(gputrace, write(tmp_path / "t.json", events,
                                 gputrace={"own_ns": 12345}))["summary"]
    want = expected_summary(events)
    assert want.items() <= got.items() and want["overlap_ns"] > 1000
    assert got["own_ns"] == 12345


@pytest.mark.parametrize("work, verdict, idle", [
    ([], "no GPU work", 100.0),
    ([("kernel", "k", 0, 28)], "CPU-bound", 72.0),
    ([("kernel", "k", 0, 60)], "mixed", 40.0),
    ([("kernel", "k", 0, 96)], "GPU-bound", 4.0),
    ([("kernel", "k", 0, 30), ("kernel", "nccl", 20, 50)],
     "communication-bound", 30.0),
    ([("kernel", "k", 0, 50), ("kernel", "nccl", 0, 60)], "mixed", 40.0),
    ([("kernel", "k", 0, 30), ("gpu_memcpy", "c", 30, 50)], "copy-bound",
     20.0)])
def test_verdict(gputrace, tmp_path, work, verdict, idle):
    path = write(tmp_path / "t.json", [
        slice_of(cat, name, at, dur, tid=9, device=0)
        for cat, name, at, dur in work] + [
        slice_of("cuda_runtime", "cudaLaunchKernel", 0, 75),
        slice_of("cuda_driver", "cuLaunchKernel", 10, 40),
        slice_of("cpu_op", "all", 0, 100)])
    assert report(gputrace, path)["summary"]["verdict"] == verdict
    assert "the GPU was idle %.1f %% of the time: %s (busiest thread: 75.0 %% " \
        "in CUDA calls)" % (idle, verdict) in gputrace("report", path).out


def test_odd_events_are_taken(gputrace, tmp_path):
    path = write(tmp_path / "t.json", [
        slice_of("kernel", "no args", 1, 2), {"ph": "X"}, {}, [], 5, "x",
        {"ph": "X", "cat": "kernel", "ts": 4, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": 5, "ts": "4", "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "neg", "ts": 4, "dur": -1},
        slice_of("kernel", "deep", 1, 0, a=[[{"b": {"c": [1, [2]]}}]]),
        dict(slice_of("cuda_runtime", "cudaFree", 1, 1), pid="Spans",
             tid="x")], gputrace={"losses": {"ring full": 3, "none": 0}})
    done = gputrace("report", "--format", "json", path)
    got = json.loads(done.out)
    assert done.status == 0 and "3 events without a usable time" in done.err
    assert {r["name"] for r in got["kernels"]} == {"no args", "deep",
                                                    "(no name)"}
    assert got["summary"]["losses"] == {"ring full": 3}
    assert got["threads"] == [{"api_ns": 1000, "api_calls": 1, "ranges": 0,
                               "pid": "Spans", "tid": "x", "name": ""}]


def test_many_causes_of_loss(gputrace, tmp_path):
    path = write(tmp_path / "t.json", [], gputrace={
        "losses": {"cause %d" % i: 2 for i in range(100000)}})
    got = report(gputrace, path)["summary"]["losses"]
    assert sum(got.values()) == 200000 and len(got) <= 101
    assert got["cause 0"] == 2


def test_names_are_kept_byte_by_byte(gputrace, tmp_path):
    names = ['a"b\\c', "tab\there", "\u00e9\u4e2d\U0001f600", "esc\x1b[31m",
             "comma, \"quoted\"\nline", "=1+1", " "]
    path = write(tmp_path / "t.json",
                 [slice_of("kernel", n, 1, i + 1)
                  for i, n in enumerate(names)])
    assert [r["name"] for r in report(gputrace, path)["kernels"]] == \
        names[::-1]
    done = gputrace("report", "--format", "csv", "--table", "kernels", path)
    rows = list(csv.DictReader(io.StringIO(done.out, newline="")))
    assert [r["Name"] for r in rows] == names[::-1]
    assert [int(r["Total Time (ns)"]) for r in rows] == \
        [1000 * (i + 1) for i in range(len(names))][::-1]
    for extra in ([], ["--wide"]):
        table = gputrace("report", *extra, path).out
        assert "\x1b" not in table and "\\x1b[31m" in table


def test_invalid_utf8_in_a_name(gputrace, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents":[{"ph":"X","cat":"kernel","name":'
                     b'"a\xff\xc3(\xed\xa0\x80b","ts":1,"dur":1}]}')
    assert report(gputrace, path)["kernels"][0]["name"] == \
        "a\ufffd\ufffd(\ufffd\ufffd\ufffdb"


def test_sort_top_filter(gputrace, real_trace):
    everything = report(gputrace, real_trace)
    got = report(gputrace, "--top", 3, real_trace)
    assert got["kernels"] == everything["kernels"][:3]
    assert got["summary"] == everything["summary"]
    got = report(gputrace, real_trace, "-F", "cuda*Launch*")
    assert got["api"] == [r for r in everything["api"]
                          if re.match("cuda.*Launch.*", r["name"])]
    for key, column in [("count", "count"), ("avg", "avg_ns"),
                        ("median", "median_ns"), ("max", "max_ns"),
                        ("min", "min_ns"), ("stddev", "stddev_ns")]:
        rows = report(gputrace, "--sort", key, real_trace)["kernels"]
        assert rows == sorted(everything["kernels"],
                              key=lambda r: (-r[column], r["name"].encode()))
    rows = report(gputrace, "-s", "name", real_trace)["kernels"]
    names = [r["name"].encode() for r in rows]
    assert names == sorted(names)


def test_tables_for_people(gputrace, tmp_path):
    path = write(tmp_path / "t.json", [
        slice_of("kernel", "k" * 300, 1, 1234567.891),
        slice_of("gpu_memset", "Memset (Device)", 1, 2, bytes=1234567)])
    out = gputrace("report", path).out
    assert "1,234,567,891" in out and "1.235" in out and "k" * 80 not in out
    assert "k" * 300 in gputrace("report", "--wide", path).out
    heads = ["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)",
             "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)", "Name"]
    line = next(l for l in out.splitlines() if "Instances" in l)
    assert re.split("  +", line.strip()) == heads
    done = gputrace("report", "--format", "csv", "-t", "kernels,api", path)
    assert [l for l in done.out.splitlines() if l[:1] == "#"] == \
        ["# kernels", "# api"]


# ---- hostile and broken files ----

SMALL = {"schemaVersion": 1, "traceEvents": [
    slice_of("kernel", "k\u00e9", 1.5, 2, a=[1, {"b": None}]),
    {"ph": "i", "s": "t", "name": "\n", "pid": 1, "tid": 1, "ts": 3}],
    "traceName": "x"}


@pytest.mark.parametrize("command", ["check", "report"])
def test_cut_files(gputrace, tmp_path, command, real_trace):
    whole = json.dumps(SMALL, ensure_ascii=False).encode()
    path = tmp_path / "t.json"
    for at in range(len(whole)):
        if at % 97 and command == "report" and at % 7:
            continue
        path.write_bytes(whole[:at])
        done = gputrace(command, path)
        assert done.status == 3, at     # check may have found something
        assert command == "check" or not done.out
        assert re.search(r"t\.json: byte %d: " % at, done.err), (at, done.err)
    whole = gzip.decompress(real_trace.read_bytes())
    for at in range(97, len(whole), 97 * 499):
        path.write_bytes(whole[:at])
        done = gputrace(command, path)
        assert done.status == 3 and "byte %d:" % at in done.err, at


@pytest.mark.parametrize("command", ["check", "report"])
def test_cut_gzip_files(gputrace, tmp_path, command, real_trace):
    whole = real_trace.read_bytes()
    path = tmp_path / "t.json.gz"
    for at in range(2, len(whole), len(whole) // 12):
        path.write_bytes(whole[:at])
        done = gputrace(command, path)
        assert done.status == 3, at
        assert command == "check" or not done.out
        assert "byte" in done.err and "cut" in done.err, done.err
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xff
    path.write_bytes(damaged)
    assert gputrace(command, path).status == 3


BROKEN = {
    "empty": (b"", 0), "space": (b" \n ", 3), "text": (b"hello", 0),
    "number": (b"42", 0), "binary": (bytes(range(256)), 0),
    "word": (b'{"traceEvents":[{"a":nul}]}', 24),
    "no colon": (b'{"traceEvents" []}', 15),
    "no comma": (b'{"traceEvents":[{} {}]}', 19),
    "single quotes": (b"{'traceEvents':[]}", 1),
    "leading zero": (b'{"traceEvents":[{"ts":01}]}', 23),
    "plus": (b'{"traceEvents":[{"ts":+1}]}', 22),
    "no digits": (b'{"traceEvents":[{"ts":1.}]}', 24),
    "bad escape": (b'{"traceEvents":[{"a":"\\x"}]}', 23),
    "half escape": (b'{"traceEvents":[{"a":"\\u12"}]}', 26),
    "text behind": (b'{"traceEvents":[]} x', 19),
    "second document": (b'{"traceEvents":[]}{}', 18),
    "wrong bracket": (b'{"traceEvents":[{]}', 17),
    "comment": (b'{"traceEvents":[/**/]}', 16),
}


@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize("name", BROKEN)
def test_no_json(gputrace, tmp_path, command, name):
    content, at = BROKEN[name]
    if name != "number":
        with pytest.raises(ValueError):     # Python sees it in the same way
            json.loads(content)
    path = tmp_path / "t.json"
    path.write_bytes(content)
    done = gputrace(command, path)
    assert done.status == 3
    assert command == "check" or not done.out
    assert done.err.startswith("gputrace: %s: byte %d: " % (path, at))
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["{}", '{"a": [{"traceEvents": []}]}\n',
                                  '{"traceEvents": {}}'])
def test_no_trace(gputrace, tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    done = gputrace("report", path)
    assert (done.status, done.out) == (3, "")
    assert "byte %d: " % len(text) in done.err and "traceEvents" in done.err
    assert gputrace("check", path).status == 1


@pytest.mark.parametrize("command", ["check", "report"])
def test_no_file(gputrace, tmp_path, command):
    for path, why in [(tmp_path, "directory"), (tmp_path / "x", "No such"),
                      (tmp_path / "\u00e9" / "x", "No such")]:
        done = gputrace(command, path)
        assert (done.status, done.out) == (3, "") and why in done.err


@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize("brackets", ["[]", '{"a":|}'])
def test_nesting(gputrace, tmp_path, command, brackets):
    left, right = brackets[:-1].strip("|"), brackets[-1]
    path = tmp_path / "t.json"
    for depth, good in [(100, True), (10 ** 6, False)]:
        path.write_text('{"traceEvents":[{"args":{"x":%s1%s}}]}' %
                        (left * depth, right * depth))
        done = gputrace(command, path)
        assert (done.status != 3) == good
        assert good or "nested too deeply" in done.err
    path.write_text("[" * 10 ** 6)
    assert gputrace(command, path).status == 3


@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize("filling", [b" ", b"a", b"[[[["])
def test_gzip_bomb(gputrace, tmp_path, command, filling):
    """A gigabyte from a megabyte, in 256 MB of address space."""
    path = tmp_path / "t.json.gz"
    with gzip.open(path, "wb", 1) as packed:
        packed.write(b'{"traceEvents":[{"a":"x"},')
        packed.write(b'{"b":"' if filling == b"a" else b"")
        for _ in range(1000 if filling == b" " else 200):
            packed.write(filling * (2 ** 20 // len(filling)))
        packed.write(b'{"a":"y"}]}' if filling == b" " else b"")
    if os.environ.get("SAN"):   # a sanitizer reserves terabytes
        limit = ""
    else:
        limit = "ulimit -v 262144; "
    done = subprocess.run(
        ["sh", "-c", limit + 'exec "$0" "$@"', BUILD / "gputrace", command,
         path], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (3 if filling != b" " else
                               1 if command == "check" else 0), done.stderr
    assert "memory" not in done.stderr


def test_several_gzip_members(gputrace, tmp_path, real_trace):
    raw = gzip.decompress(real_trace.read_bytes())
    path = tmp_path / "t.json.gz"
    cuts = [0, 1, 5000, 5001, len(raw) // 2, len(raw)]
    path.write_bytes(b"".join(gzip.compress(raw[a:b])
                              for a, b in zip(cuts, cuts[1:])))
    assert report(gputrace, path) == report(gputrace, real_trace)
    path.write_bytes(path.read_bytes() + b"\0" * 512)   # padding
    assert report(gputrace, path) == report(gputrace, real_trace)
    path.write_bytes(path.read_bytes() + b"rubbish")
    assert gputrace("report", path).status == 3


def test_standard_input(gputrace, real_trace):
    with real_trace.open("rb") as stream:
        done = gputrace("report", "-f", "json", "-", stdin=stream)
    assert json.loads(done.out) == report(gputrace, real_trace)


def test_full_disk(gputrace, real_trace):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BUILD / "gputrace", "report", real_trace],
                              stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)
    assert done.returncode == 3 and "No space" in done.stderr


# ---- record ----

@pytest.fixture
def installed(tmp_path):
    """The command in a folder of its own, as `make install` places it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    shutil.copy(BUILD / "gputrace", tmp_path / "bin")
    return tmp_path


def run_installed(installed, *args, **env):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith("GPUTRACE_") and k != "LD_PRELOAD"}
    return subprocess.run([installed / "bin" / "gputrace", *args], text=True,
                          capture_output=True, check=False,
                          env=dict(clean, **env))


def child_env(done):
    assert done.returncode == 0, done.stderr
    return dict(l.split("=", 1) for l in done.stdout.splitlines() if "=" in l)


def test_record_sets_the_variables(installed):
    library = installed / "lib" / "libgputrace.so"
    shutil.copy(BUILD / "libgputrace.so", library)
    env = child_env(run_installed(
        installed, "record", "-o", "x-%p.json", "--max-size=1M", "--api",
        "all", "--", "env", GPUTRACE_FLUSH="2s"))
    own = {k: v for k, v in env.items() if k.startswith("GPUTRACE_")}
    assert own == {"GPUTRACE_OUT": "x-%p.json", "GPUTRACE_MAX_SIZE": "1M",
                   "GPUTRACE_API": "all", "GPUTRACE_FLUSH": "2s"}
    assert os.path.samefile(env["LD_PRELOAD"], library)
    # what was preloaded stays; the program's own options are its own
    libc = "libc.so.6"
    env = child_env(run_installed(installed, "record", "env", "-u", "HOME",
                                  LD_PRELOAD=libc, HOME="/x"))
    first, second = env["LD_PRELOAD"].split(":")
    assert second == libc and os.path.samefile(first, library)
    assert "HOME" not in env


@pytest.mark.parametrize("out, why", [
    ("missing/t.json", "does not exist: make it first"),
    ("file/t.json", "nothing can be written in"),
    ("%h/t.json", None), ("t.json", None), ("/t.json", None)])
def test_record_into_a_folder_that_is_not_there(installed, tmp_path, out, why):
    """Said before the program runs, not after its hours."""
    (tmp_path / "file").write_text("")
    shutil.copy(BUILD / "libgputrace.so", installed / "lib")
    done = subprocess.run([installed / "bin/gputrace", "record", "-o", out,
                           "--", "echo", "ran"], cwd=tmp_path, text=True,
                          capture_output=True, check=False)
    assert (done.returncode, done.stdout) == \
        ((3, "") if why else (0, "ran\n")), done.stderr
    assert not why or (why in done.stderr and done.stderr.count("\n") == 1)


def test_record_finds_the_library_beside_itself(installed):
    library = installed / "bin" / "libgputrace.so"
    shutil.copy(BUILD / "libgputrace.so", library)
    env = child_env(run_installed(installed, "record", "env"))
    assert os.path.samefile(env["LD_PRELOAD"], library)


def test_record_without_a_library(installed):
    done = run_installed(installed, "record", "env")
    assert (done.returncode, done.stdout) == (3, "")
    assert "libgputrace.so" in done.stderr and "--library" in done.stderr
    done = run_installed(installed, "record", "--library", "/no/x.so", "env")
    assert done.returncode == 3 and "/no/x.so" in done.stderr


def test_record_programs(gputrace):
    done = gputrace("record", "sh", "-c", "exit 42")
    assert done.status == 42
    done = gputrace("record", "/no/such/program")
    assert done.status == 3 and "/no/such/program" in done.err
    done = gputrace("record", "--flush", "soon", "env")
    assert done.status == 2 and "--flush" in done.err and "soon" in done.err
    assert gputrace("record").status == 2
    assert gputrace("record", "--nonsense", "1", "env").status == 2


# ---- open ----

@pytest.fixture
def serve(tmp_path):
    """Starts `gputrace open`; ends it after the test.  One test at a time:
    there is one port."""
    started = []
    turn = open("/tmp/gputrace-test-port-9001", "w", encoding="ascii")
    fcntl.flock(turn, fcntl.LOCK_EX)

    def start(*args):
        server = subprocess.Popen(
            [BUILD / "gputrace", "open", *args], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(server)
        link = server.stdout.readline()
        return server, link
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", 9001))
    except OSError:
        pytest.skip("another program uses port 9001")
    finally:
        probe.close()
    yield start
    for server in started:
        server.kill()
        server.communicate()
    turn.close()


def fetch(url, method="GET", origin="https://ui.perfetto.dev"):
    request = urllib.request.Request(url, method=method,
                                     headers={"Origin": origin})
    return urllib.request.urlopen(request, timeout=10)


def test_open_serves_the_file(serve, tmp_path, real_trace):
    path = tmp_path / "a b\u00e9.json.gz"
    shutil.copy(real_trace, path)
    server, link = serve(path)
    url = re.search(r"https://ui\.perfetto\.dev/#!/\?url=(\S+)", link)[1]
    assert url == "http://127.0.0.1:9001/a%20b%C3%A9.json.gz"
    idle = socket.create_connection(("127.0.0.1", 9001))  # asks for nothing
    with fetch(url) as answer:
        assert answer.read() == real_trace.read_bytes()
        assert answer.headers["Access-Control-Allow-Origin"] == \
            "https://ui.perfetto.dev"
        assert "Content-Encoding" not in answer.headers
    with fetch(url, "HEAD") as answer:
        assert int(answer.headers["Content-Length"]) == path.stat().st_size
        assert answer.read() == b""
    with fetch(url, "OPTIONS") as answer:
        assert answer.status == 204
        assert "GET" in answer.headers["Access-Control-Allow-Methods"]
    for bad, method, status in [
            ("/", "GET", 404), ("/etc/passwd", "GET", 404),
            ("/../a%20b%C3%A9.json.gz", "GET", 404),
            ("/a%20b%C3%A9.json.gz", "POST", 405)]:
        with pytest.raises(urllib.error.HTTPError) as error:
            fetch("http://127.0.0.1:9001" + bad, method)
        assert error.value.code == status
    idle.close()
    server.send_signal(signal.SIGINT)
    assert server.wait(10) == 0


def test_open_listens_on_loopback_only(serve, real_trace):
    serve(real_trace)
    listening = [l.split() for l in open("/proc/net/tcp", encoding="ascii")
                 if ":2329 " in l.split("  ")[-1] or ":2329" in l]
    local = [l[1] for l in listening if l[3] == "0A"]
    assert local == ["0100007F:2329"]       # 127.0.0.1:9001


def test_open_busy_port(serve, gputrace, real_trace):
    serve(real_trace)
    done = gputrace("open", real_trace)
    assert (done.status, done.out) == (3, "")
    assert "9001" in done.err and "busy" in done.err


def test_open_ends_behind_the_fetch(serve, real_trace):
    server, link = serve(real_trace)
    with fetch(link.split("url=")[1].strip()) as answer:
        answer.read()
    start = time.monotonic()
    assert server.wait(20) == 0
    assert time.monotonic() - start > 1     # a second fetch would have worked


def test_open_keep(serve, real_trace):
    server, link = serve("--keep", real_trace)
    with fetch(link.split("url=")[1].strip()) as answer:
        answer.read()
    time.sleep(4)
    assert server.poll() is None
    server.terminate()
    assert server.wait(10) == 0


def test_open_what_is_no_file(gputrace, tmp_path):
    assert gputrace("open", tmp_path / "x").status == 3
    assert gputrace("open", tmp_path).status == 3
    assert gputrace("open").status == 2


# ---- options, help, manual ----

def test_usage_errors(gputrace):
    for args in ([], ["nonsense"], ["explain", "x"], ["--nonsense"],
                 *([c, "--nonsense"] for c in COMMANDS),
                 *([c, "-Z"] for c in COMMANDS),
                 *([c] for c in COMMANDS if c not in ("doctor", "ps")),
                 ["help", "nonsense"],
                 ["report", "--format", "xml", "x"], ["report", "--top"],
                 ["report", "--top", "-3", "x"], ["report", "-n", "0", "x"],
                 ["report", "--wide=1", "x"], ["report", "-t", "no", "x"],
                 ["report", "--sort", "size", "x"], ["open", "a", "b"],
                 ["check", "--profile", "chrome", "x"]):
        done = gputrace(*args)
        assert (done.status, done.out) == (2, ""), args
        assert "gputrace" in done.err


def test_help_and_version(gputrace):
    done = gputrace("--help")
    assert (done.status, done.err) == (0, "")
    for command in COMMANDS:
        assert re.search(r"^  %s " % command, done.out, re.M)
        for flag in ("--help", "-h"):
            text = gputrace(command, flag)
            assert (text.status, text.err) == (0, "")
            assert text.out.startswith("usage: gputrace %s " % command)
        assert gputrace("help", command).out == text.out
    assert gputrace("help").out == done.out
    done = gputrace("--version")
    assert done.status == 0 and re.fullmatch(r"gputrace \d[\d.]*\n", done.out)


def manual():
    return (ROOT / "tools" / "gputrace.1").read_text()


def test_manual_names_every_option(gputrace):
    text = manual()
    for command in COMMANDS:
        part = text.split(".Ss gputrace " + command)[1]
        part = re.split(r"\n\.S[hs] ", part)[0]
        for option in re.findall(r"--([a-z-]+)",
                                 gputrace(command, "--help").out):
            named = "Fl Fl " + option in part or option == "help"
            variable = ".It Ev GPUTRACE_" + option.upper().replace("-", "_")
            assert named or command == "record" and variable in text, option


def test_manual_names_every_setting():
    table = (ROOT / "inject" / "settings.h").read_text()
    settings = re.findall(r'X\(\w+, "(GPUTRACE_\w+)"', table)
    assert len(settings) > 5
    assert re.findall(r"^\.It Ev (GPUTRACE_\w+)", manual(), re.M) == settings


def test_help_names_every_default(gputrace):
    """record --help, from the table of the settings."""
    text = gputrace("record", "--help").out
    assert max(map(len, text.splitlines())) <= 80
    table = (ROOT / "inject" / "settings.h").read_text()
    defaults = re.findall(
        r'X\(\w+, "GPUTRACE_\w+", "([\w-]+)", \w+, "([^"]*)"', table)
    assert len(defaults) > 5
    for option, default in defaults:
        part = re.search(r"--%s VALUE(.*?)(?=\n  |\Z)" % option,
                         text.replace("\n" + 30 * " ", " "), re.S).group(1)
        assert ("(default %s)" % default in part) == bool(default), option


def test_manual_is_well_formed():
    path = ROOT / "tools" / "gputrace.1"
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    elif shutil.which("groff"):
        done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-wmac", path],
                              capture_output=True, text=True, check=False)
        assert "GPUTRACE(1)" in done.stdout and not done.stderr, done.stderr
    else:
        pytest.skip("neither mandoc nor groff")
