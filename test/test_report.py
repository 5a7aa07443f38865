# SPDX-License-Identifier: MIT
"""The tables of report that tell apart more than names.

What they must say is computed here, from the same file, with Python's json
and integers.
"""
import collections
import random
import re
import resource

import pytest
from test_tools import (GPU_WORK, TABLES, expected_summary, load, ns, report,
                        slice_of, slices, stats, union, write)
from tracing import ROOT, SANITIZED


def span(e):
    return ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])


def lane(e):
    return str(e["pid"]), str(e["tid"])


def calls_of(events):
    """The first call of each correlation, the outer one of two."""
    found = {}
    for e in slices(events):
        number = e.get("args", {}).get("correlation")
        if e["cat"] in TABLES["api"] and number:
            start, end = span(e)
            key = start, -end, e["cat"] != "cuda_runtime"
            if number not in found or key < found[number][0]:
                found[number] = key, e
    return {number: e for number, (_, e) in found.items()}


def linked(events, cats=("kernel",)):
    """Pairs of GPU operation and call."""
    calls = calls_of(events)
    for e in slices(events):
        if e["cat"] in cats and e["args"].get("correlation") in calls:
            yield e, calls[e["args"]["correlation"]]


def grouped(pairs):
    groups = collections.defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def check_rows(rows, groups, keys):
    """Rows are groups, their numbers those of the groups' values."""
    got = {tuple(r[k] for k in keys): r for r in rows}
    assert len(got) == len(rows) and got.keys() == groups.keys()
    for key, values in groups.items():
        want = dict(stats(values), count=len(values))
        assert want.items() <= got[key].items(), key
    return got


def three(numbers):
    return " ".join(map(str, numbers))


def check_shapes(got, events):
    check_rows(got["kernels_grid"], grouped(
        ((e["name"], three(e["args"].get("grid", [])),
          three(e["args"].get("block", []))), ns(e["dur"]))
        for e in slices(events) if e["cat"] == "kernel"),
        ("name", "grid", "block"))


def check_launches(got, events):
    keys = ("name", "api", "pid", "tid", "device")
    parts = [(k["name"], a["name"], *lane(a), k["args"]["device"], span(k),
              span(a)) for k, a in linked(events)]
    rows = check_rows(got["launches"], grouped(
        (tuple(p), max(k[1], a[1]) - a[0]) for *p, k, a in parts), keys)
    for prefix, value in [
            ("api_", lambda k, a: a[1] - a[0]),
            ("kernel_", lambda k, a: k[1] - k[0]),
            ("queue_", lambda k, a: k[0] - a[1])]:
        for key, all_values in grouped(
                (tuple(p), value(k, a)) for *p, k, a in parts).items():
            values = [v for v in all_values if prefix != "queue_" or v > 0]
            want = stats(values or [0])
            del want["total_ns"]
            row = {k[len(prefix):]: v for k, v in rows[key].items()
                   if k.startswith(prefix)}
            assert want.items() <= row.items(), (key, prefix)
            if prefix == "queue_":
                assert row["count"] == len(values)


def check_range_kernels(got, events):
    keys = ("name", "range", "pid", "tid")
    launches = grouped((lane(a), (span(a)[0], k)) for k, a in linked(events))
    values, instances = [], collections.defaultdict(set)
    for i, e in enumerate(slices(events)):
        if e["cat"] != "user_annotation":
            continue
        start, end = span(e)
        for at, k in launches[lane(e)]:
            if start <= at <= end:
                key = (k["name"], e["name"], *lane(e))
                values.append((key, ns(k["dur"])))
                instances[key].add(i)
    rows = check_rows(got["nvtx_kernels"], grouped(values), keys)
    assert {k: r["ranges"] for k, r in rows.items()} == \
        {k: len(v) for k, v in instances.items()}


def check_graph_launches(got, events):
    launches = grouped(
        ((k["args"]["graph id"], k["args"]["correlation"]), (k, a))
        for k, a in linked(events, GPU_WORK) if k["args"].get("graph id"))
    spans, api, ops = [], collections.Counter(), collections.Counter()
    for (graph, _), pairs in launches.items():
        name = "CUDA graph %d" % graph
        spans.append(((name,), max(span(k)[1] for k, _ in pairs) -
                      min(span(k)[0] for k, _ in pairs)))
        api[name] += ns(pairs[0][1]["dur"])
        ops[name] += len(pairs)
    rows = check_rows(got["graph_launches"], grouped(spans), ("name",))
    assert {k[0]: (r["api_ns"], r["gpu_ops"]) for k, r in rows.items()} == \
        {name: (api[name], n) for name, n in ops.items()}


def check(got, events):
    check_graph_launches(got, events)
    check_shapes(got, events)
    check_launches(got, events)
    check_range_kernels(got, events)
    assert expected_summary(events).items() <= got["summary"].items()


def made_up(seed, n=120):
    """Two processes, two GPUs, nested ranges, calls in calls, odd orders."""
    rng = random.Random(seed)
    events = []

    def add(cat, name, ts, dur, pid, tid, **args):
        events.append(dict(slice_of(cat, name, ts, dur, tid, **args),
                           pid=pid))
    for i in range(1, n):
        pid, tid, at = rng.choice([10, 11]), rng.randrange(2), 7 * i
        device = rng.randrange(2)
        add("cuda_runtime", rng.choice(["cudaLaunchKernel",
                                        "cudaLaunchKernelExC"]),
            at, rng.choice([0, 3, 5.5]), pid, tid, correlation=i)
        if rng.random() < .3:
            add("cuda_driver", "cuLaunchKernel", at, 0, pid, tid,
                correlation=i)
        for _ in range(rng.choice([0, 1, 1, 1, 3])):
            copy = rng.random() < .2
            add("gpu_memcpy" if copy else "kernel",
                "copy" if copy else rng.choice(["k1", "k2", "ncclX"]),
                at + rng.choice([0, 1, 9, 30]), rng.choice([0, 2, 8.125]),
                5000000 + device, rng.randrange(2), device=device, bytes=i,
                stream=rng.choice([7, 13]), correlation=i,
                **({"graph id": 1 + i % 2} if i % 3 == 0 else {}),
                **rng.choice([{}, {"grid": [i % 3, 1, 1],
                                   "block": [32, i % 2, 1]}]))
    for _ in range(n):
        start = rng.randrange(7 * n)
        add("user_annotation", "r%d" % rng.randrange(5), start,
            rng.choice([0, 7, 40, 300]), rng.choice([10, 11]),
            rng.randrange(2))
    rng.shuffle(events)
    return events


def test_real_traces(gputrace, real_trace):
    check(report(gputrace, real_trace), load(real_trace)["traceEvents"])


@pytest.mark.parametrize("seed", range(3))
def test_made_up_traces(gputrace, tmp_path, seed):
    events = made_up(seed)
    check(report(gputrace, write(tmp_path / "t.json", events)), events)


@pytest.mark.parametrize("by", ["all", "process", "device", "stream"])
def test_order_and_empty_processes_do_not_matter(gputrace, tmp_path, by):
    events = made_up(5)
    want = report(gputrace, "--by", by, write(tmp_path / "a.json", events))
    for seed in range(2):
        random.Random(seed).shuffle(events)
        more = events + [{"ph": "M", "name": "process_name", "pid": 99,
                          "tid": 99, "ts": 0, "args": {"name": "idle"}},
                         {"ph": "M", "name": "thread_name", "pid": 99,
                          "tid": 99, "ts": 0, "args": {"name": "idle"}}]
        path = write(tmp_path / "b.json", more[seed:] + more[:seed])
        assert report(gputrace, "--by", by, path) == want


def of_one_process(e, pid):
    """The process's own events and its GPU's: each has one, here."""
    return e["pid"] in (pid, 5000000 + pid % 2)


@pytest.mark.parametrize("seed", range(3))
def test_files_and_their_merge_do_not_matter(gputrace, tmp_path, seed):
    """Two processes, each with its own GPU: in one file, in two, or merged
    again from the two, the numbers are the same."""
    events = made_up(seed, 200)
    owner = {e["args"]["correlation"]: e["pid"] for e in events
             if e["pid"] < 5000000 and "correlation" in e["args"]}
    for e in events:
        e["tid"] += 1           # merge replaces 0, and names the lane
        if e["pid"] >= 5000000:
            e["args"]["device"] = owner[e["args"]["correlation"]] % 2
            e["pid"] = 5000000 + e["args"]["device"]
    events += [{"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
                "ts": 0, "args": {"name": "worker"}}
               for pid in (10, 11) for tid in (1, 2)]
    parts = [write(tmp_path / ("%d.json" % pid), [
        e for e in events if of_one_process(e, pid)],
        baseTimeNanoseconds=10 ** 18) for pid in (10, 11)]
    whole = write(tmp_path / "whole.json", events)
    merged = tmp_path / "merged.json"
    assert gputrace("merge", "-q", "-o", merged, *parts).status == 0
    want = report(gputrace, whole)
    check(want, events)
    for files in (parts, [merged]):
        got = report(gputrace, *files)
        for device in want["devices"] + got["devices"]:
            device["file"] = None
        assert got == want


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_loses_no_row(gputrace, tmp_path, seed):
    """Cut anywhere, calls and their work part, and a GPU becomes two: what
    tells of single slices stays."""
    events = made_up(seed)
    cut = random.Random(seed).randrange(1, len(events))
    want = report(gputrace, write(tmp_path / "t.json", events))
    got = report(gputrace, write(tmp_path / "a.json", events[:cut]),
                 write(tmp_path / "b.json", events[cut:]))
    for table in ("kernels", "kernels_grid", "api", "copies"):
        assert got[table] == want[table]
    for key in ("wall_ns", "kernel_count", "kernel_time_ns", "api_count"):
        assert got["summary"][key] == want["summary"][key]


def selected(events, device=None, stream=None, pattern=None, window=None):
    """What the filters leave, by their words in the manual."""
    spans = {id(e): span(e) for e in slices(events)}
    first = min(s for s, _ in spans.values())
    last = max(e for _, e in spans.values())
    low, high = window or (0, last - first + 1)
    inside = [(lane(e), spans[id(e)]) for e in slices(events)
              if e["cat"] == "user_annotation" and pattern and
              re.fullmatch(pattern, e["name"])]
    calls = calls_of(events)
    left = []
    for e in slices(events):
        start, end = (t - first for t in spans[id(e)])
        gpu = e["cat"] in GPU_WORK
        if start >= high or end <= low and start < low:
            continue
        if gpu and (device not in (None, e["args"]["device"]) or
                    stream not in (None, e["args"]["stream"])):
            continue
        at = calls.get(e["args"].get("correlation")) if gpu else e
        if pattern and not (at and any(
                lane(at) == on and s <= span(at)[0] <= t
                for on, (s, t) in inside)):
            continue
        left.append(e)
    return left


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("filters, want", [
    (["device=1"], {"device": 1}), (["stream=13"], {"stream": 13}),
    (["range=r[12]"], {"pattern": "r[12]"}),
    (["time=200us..400.5us"], {"window": (200000, 400500)}),
    (["time=0.0005s.."], {"window": (500000, 1 << 60)}),
    (["time=..100000ns", "device=0", "stream=7", "range=r*"],
     {"window": (0, 100000), "device": 0, "stream": 7, "pattern": "r.*"})])
def test_filters(gputrace, tmp_path, seed, filters, want):
    events = made_up(seed)
    path = write(tmp_path / "t.json", events)
    got = report(gputrace, *(x for f in filters for x in ("-F", f)), path)
    left = selected(events, **want)
    for table, cats in [("kernels", ("kernel",)), ("copies", ("gpu_memcpy",)),
                        ("api", ("cuda_runtime", "cuda_driver")),
                        ("nvtx", ("user_annotation",))]:
        check_rows(got[table], grouped(
            ((e["name"],), ns(e["dur"])) for e in left if e["cat"] in cats),
            ("name",))
    first, last = (f(span(e)[i] for e in slices(events))
                   for i, f in ((0, min), (1, max)))
    low, high = want.get("window", (0, 1 << 60))
    low, high = first + low, min(first + high, last)
    if "pattern" in want:
        low = max(low, min(span(e)[0] for e in left))
        high = min(high, max(span(e)[1] for e in left))
    gpus = grouped((e["args"]["device"], tuple(
        min(max(t, low), high) for t in span(e))) for e in left
        if e["cat"] in GPU_WORK)
    assert got["summary"]["wall_ns"] == high - low
    assert {d["device"]: d["busy_ns"] for d in got["devices"]
            if d["busy_ns"]} == \
        {d: union(spans) for d, spans in gpus.items() if union(spans)}
    if "device" in want:
        assert {d["device"] for d in got["devices"]} <= {want["device"]}


@pytest.mark.parametrize("bad", [
    "time=", "time=..", "time=5..6", "time=2ms..1ms", "time=1ms", "device=",
    "time=1.2.3s..", "time=-1ms..", "device=x", "stream=-1", "range=",
    "time=1ms..2ms "])
def test_filters_that_cannot_be(gputrace, real_trace, bad):
    done = gputrace("report", "-F", bad, real_trace)
    assert (done.status, done.out) == (2, "") and bad in done.err


@pytest.mark.parametrize("by, place", [
    ("process", lambda gpu, at: "process %d" % at["pid"]),
    ("device", lambda gpu, at: "GPU %d" % gpu["args"]["device"]),
    ("stream", lambda gpu, at: "GPU %d stream %d" %
     (gpu["args"]["device"], gpu["args"]["stream"]))])
def test_by(gputrace, tmp_path, by, place):
    events = made_up(8)
    got = report(gputrace, "--by", by, write(tmp_path / "t.json", events))
    for table, cats in [("kernels", ("kernel",)), ("copies", ("gpu_memcpy",))]:
        check_rows(got[table], grouped(
            ((e["name"], place(e, at)), ns(e["dur"]))
            for e, at in linked(events, cats)), ("name", "where"))
    for table, cat in [("nvtx", "user_annotation")] * (by == "process"):
        check_rows(got[table], grouped(
            ((e["name"], place(e, e)), ns(e["dur"])) for e in slices(events)
            if e["cat"] == cat), ("name", "where"))


def test_by_op_of_a_real_trace(gputrace):
    """Kineto links kernels and operators by External id: another way."""
    path = ROOT.parent / "shared/data/kineto_h200_cpu_cuda.json.gz"
    if not path.exists():
        pytest.skip("no shared data")
    events = load(path)["traceEvents"]
    ops = {e["args"]["External id"]: e["name"] for e in slices(events)
           if e["cat"] == "cpu_op"}
    want = grouped(((e["name"], ops[e["args"]["External id"]]), ns(e["dur"]))
                   for e in slices(events) if e["cat"] == "kernel")
    assert len({op for _, op in want}) > 8
    check_rows(report(gputrace, "--by", "op", path)["kernels"], want,
               ("name", "where"))


def around(events, of):
    """By looking at all: the slice that began last of those open."""
    def find(at):
        start = ns(at["ts"])
        open_ones = [e for e in events if of(e) and lane(e) == lane(at) and
                     span(e)[0] <= start < span(e)[1]]
        return max(open_ones, key=lambda e: (span(e)[0], -span(e)[1]),
                   default={"name": "(none)"})
    return find


@pytest.mark.parametrize("by, of", [
    ("range", lambda e: e["cat"] == "user_annotation"),
    ("op", lambda e: e["cat"] == "cpu_op"),
    ("module", lambda e: e["name"].startswith("nn.Module: ")),
    ("line", lambda e: e["name"].startswith("serve.py("))])
def test_by_what_is_around(gputrace, tmp_path, by, of):
    rng = random.Random(9)
    names = [("user_annotation", "step"), ("user_annotation", "forward"),
             ("cpu_op", "aten::add"), ("cpu_op", "aten::mm"),
             ("python_function", "nn.Module: Linear_0"),
             ("python_function", "serve.py(12): sample"),
             ("python_function", "serve.py(9): main"),
             ("python_function", "<built-in method item>")]
    events = []
    for i in range(300):
        events.append(dict(slice_of(*rng.choice(names), rng.randrange(3000),
                                    rng.randrange(200)),
                           tid=rng.randrange(1, 3)))
    for i in range(1, 200):
        at = rng.randrange(3000)
        events.append(dict(slice_of("cuda_runtime", "launch", at, 1,
                                    correlation=i), tid=rng.randrange(1, 4)))
        events.append(dict(slice_of("kernel", "k%d" % rng.randrange(3), at + 5,
                                    rng.randrange(9), device=0, stream=7,
                                    correlation=i), pid=5000000))
    find = around(slices(events), of)
    rows = report(gputrace, "-b", by, write(tmp_path / "t.json", events))
    calls = calls_of(events)
    check_rows(rows["api"], grouped(
        ((find(e)["name"],), ns(e["dur"])) for e in calls.values()),
        ("where",))
    check_rows(rows["kernels"], grouped(
        ((e["name"], find(at)["name"]), ns(e["dur"]))
        for e, at in linked(events)), ("name", "where"))


def test_by_the_line_of_a_call(gputrace, tmp_path):
    """The call's own wins over the function around it; an operator tells its
    module."""
    events = [slice_of("python_function", "serve.py(1): main", 0, 99),
              slice_of("cpu_op", "aten::item", 1, 90, module="Sampler_0"),
              slice_of("cuda_runtime", "cudaStreamSynchronize", 5, 7,
                       correlation=1, line="serve.py:3 sample"),
              slice_of("cuda_runtime", "cudaStreamSynchronize", 15, 7,
                       correlation=2)]
    path = write(tmp_path / "t.json", events)
    assert [r["where"] for r in report(gputrace, "-b", "line", path)["api"]] \
        == ["serve.py(1): main", "serve.py:3 sample"]
    assert [r["where"] for r in report(gputrace, "-b", "module", path)["api"]
            ] == ["Sampler_0"]


def test_gpus_of_one_number(gputrace, tmp_path):
    """In a merged trace: those of two hosts."""
    path = write(tmp_path / "t.json", [
        dict(slice_of("kernel", "k", 1, 2, device=gpu, stream=7), pid=pid)
        for gpu, pid in [(0, 5000000), (0, 5000008), (1, 5000009)]])
    rows = report(gputrace, "-b", "device", path)["kernels"]
    assert {r["where"] for r in rows} == \
        {"GPU 0 of 5000000", "GPU 0 of 5000008", "GPU 1"}
    where = report(gputrace, "-b", "stream", path, path)["kernels"]
    assert "GPU 1 stream 7 file 1" in {r["where"] for r in where}


def test_styles_of_ranges(gputrace, tmp_path):
    path = write(tmp_path / "t.json", [
        slice_of("user_annotation", "r", 0, 9), dict(
            slice_of("user_annotation", "r", 2, 4), tid=5000001)])
    rows = report(gputrace, path)["nvtx"]
    assert {(r["style"], r["total_ns"], r["self_ns"]) for r in rows} == \
        {("PushPop", 9000, 9000), ("StartEnd", 4000, 4000)}


@pytest.mark.parametrize("window", [None, (100, 300)])
def test_memory(gputrace, tmp_path, window):
    rng = random.Random(4)
    events, total = [slice_of("cpu_op", "all", 0, 400)], collections.Counter()
    want = {}
    for at in range(400):
        key = rng.choice([10, 11]), rng.choice(["CPU", "GPU 0", "GPU 1"])
        size = rng.choice([512, 4096, -512, -100, 0])
        failed = rng.random() < 0.1     # and takes nothing
        size = 2 ** 40 if failed else size
        total[key] += 0 if failed else size
        kind = {"CPU": (0, -1), "GPU 0": (1, 0), "GPU 1": (1, 1)}[key[1]]
        events.append({
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "ts": at,
            "name": "[OutOfMemory]" if failed else "[memory]",
            "pid": key[0], "tid": 1, "args": {
                "Total Reserved": 2 ** 30 + at, "Bytes": size, "Addr": 1,
                "Total Allocated": total[key], "Device Id": kind[1],
                "Device Type": kind[0]}})
        if window and not window[0] <= at < window[1]:
            continue
        row = want.setdefault(key, [0] * 7)
        row[0] = max(row[0], total[key])
        row[1] = max(row[1], 2 ** 30 + at)
        row[6] += failed
        size = 0 if failed else size
        row[2 if size > 0 else 4] += size != 0
        row[3 if size > 0 else 5] += abs(size)
    rng.shuffle(events)
    got = report(gputrace, *(("-F", "time=100us..300us") if window else ()),
                 write(tmp_path / "t.json", events))["memory"]
    keys = ("peak_bytes", "reserved_peak_bytes", "alloc_count", "alloc_bytes",
            "free_count", "free_bytes", "oom_count")
    assert {(int(r["pid"]), r["name"]): [r[k] for k in keys] for r in got} \
        == want and len(got) == 6


def flame(tid, stacks):
    """Slices of one thread's samples, 10 us apart: those of equal frames in
    the same place are one, inner ones come first."""
    events, open_frames = [], []

    def close(depth, now):
        while len(open_frames) > depth:
            name, since, nr = open_frames.pop()
            events.append(slice_of("sample", name, since, now - since, tid,
                                   thread=7, samples=nr))

    for i, stack in enumerate([*stacks, []]):
        same = 0
        while same < min(len(stack), len(open_frames)) and \
                stack[same] == open_frames[same][0]:
            open_frames[same][2] += 1
            same += 1
        close(same, 10 * i)
        open_frames += [[name, 10 * i, 1] for name in stack[same:]]
    return events


def test_sampled_stacks(gputrace, tmp_path):
    """From the stacks themselves; a function that calls itself is there
    once."""
    rng = random.Random(11)
    events, own, whole = [], collections.Counter(), collections.Counter()
    paths = collections.Counter()
    for tid in (5000001, 5000002):
        stacks = [[rng.choice("ab"), *rng.choices("abcd", k=rng.randrange(4))]
                  for _ in range(300)]
        events += flame(tid, stacks)
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": tid,
                       "args": {"name": "t;%d" % tid}})
        for stack in stacks:
            own[stack[-1]] += 1
            whole.update(set(stack))
            paths[";".join(["t:%d" % tid, *stack])] += 1
    path = write(tmp_path / "t.json", events)
    rows = report(gputrace, path)["stacks"]
    assert {r["name"]: (r["self_samples"], r["total_samples"])
            for r in rows} == {name: (own[name], whole[name])
                               for name in whole}
    for r in rows:
        assert abs(r["share"] - own[r["name"]] / 600) < 1e-5
    done = gputrace("report", "--format", "collapsed", path)
    assert done.out.splitlines() == sorted(
        "%s %d" % pair for pair in paths.items())


def test_samples_that_cannot_be(gputrace, tmp_path):
    """More inside than around; and deeper than the report goes: then they are
    those of the last one."""
    most = 2 ** 63 - 1
    events = [slice_of("sample", "outer", 0, 100, 5, samples=1)]
    events += [slice_of("sample", "inner", at, 2, 5, samples=most)
               for at in (1, 4, 8)]
    rows = report(gputrace, write(tmp_path / "t.json", events))["stacks"]
    assert {r["name"]: (r["self_samples"], r["total_samples"])
            for r in rows} == {"inner": (most, most), "outer": (0, 1)}
    events = [slice_of("sample", "f%d" % i, i, 1000 - 2 * i, 5, samples=1)
              for i in range(300)]
    rows = report(gputrace, write(tmp_path / "t.json", events))["stacks"]
    assert len(rows) == 256
    assert [r["name"] for r in rows if r["self_samples"]] == ["f255"]


@pytest.mark.skipif(bool(SANITIZED), reason="its shadow is beyond any bound")
def test_more_than_fits_in_memory(gputrace, tmp_path):
    """Arrays beyond the bound lie in files: 25 MB of them in a process that
    may have 12 MB of memory of its own, and the same answer to the digit."""
    events = []
    for i in range(150000):
        events += [slice_of("cuda_runtime", "cudaLaunchKernel", 10 * i, 1,
                            correlation=i + 1),
                   slice_of("kernel", "k%d" % (i % 5), 10 * i + 2, i % 7,
                            tid=9, device=0, stream=7, correlation=i + 1)]
    path = write(tmp_path / "t.json", events)
    want = gputrace("report", "--format", "json", path)
    assert want.status == 0, want.err

    def poor(**env):
        return gputrace("report", "--format", "json", path, env=env,
                        preexec_fn=lambda: resource.setrlimit(
                            resource.RLIMIT_DATA, (12 << 20, 12 << 20)))

    assert poor().status != 0
    got = poor(GPUREPORT_MEMORY="1M", TMPDIR=str(tmp_path))
    assert (got.status, got.err) == (0, "")
    assert got.out == want.out
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    got = gputrace("report", "--format", "json", path,
                   env=dict(GPUREPORT_MEMORY="1M",
                            TMPDIR=str(tmp_path / "no such folder")))
    assert got.status == 0 and got.out == want.out
    assert got.err.count("\n") == 1 and "no such folder" in got.err
