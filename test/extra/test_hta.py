# SPDX-License-Identifier: MIT
"""report and diagnose against Holistic Trace Analysis, on the same files.

Where both define a number alike, they must agree: to the nanosecond, as far as
HTA's floating-point times allow.  Where they do not, the difference must be
the one that README.md beside this file explains.
"""
import collections
import gzip
import json
import math
import os
import random
import re

import pytest
from conftest import real_traces
from test_report import calls_of, linked, span
from test_tools import (GPU_WORK, load, ns, report, slice_of, slices, union,
                        write)
from tracing import run

try:
    from hta.trace_analysis import TraceAnalysis
except ImportError:
    if os.environ.get("GPUTRACE_EXTRA"):
        raise
    pytest.skip("no HTA (make check-extra)", allow_module_level=True)

REAL = {p.name: p for p in real_traces()}
DECODE = {"decode": ["--steps", 4, "--kernels", 40],
          "decode, 3 streams": ["--steps", 4, "--kernels", 40, "--streams", 3],
          "decode, graph": ["--steps", 4, "--kernels", 40, "--graph"]}
MADE_UP = ["made up 1", "made up 2"]
# The launch calls of which HTA makes rows.
KNOWN = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync",
         "cudaMemsetAsync")


# ---- The files ----

class Made:
    """One process that launches: times in whole us, which HTA keeps."""

    def __init__(self):
        self.events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 1,
                        "ts": 0, "args": {"name": "made up"}}]
        self.correlation = 0

    def launch(self, api, at, took, cat, name, start, dur, stream=7, device=0):
        self.correlation += 1
        self.events += [
            slice_of("cuda_driver" if api.startswith("cuL") else
                     "cuda_runtime", api, at, took,
                     correlation=self.correlation),
            dict(slice_of(cat, name, start, dur, device=device, context=1,
                          stream=stream, correlation=self.correlation),
                 pid=5000000 + device)]

    def work(self, name, start, dur, cat="kernel", **where):
        self.launch("cudaLaunchKernel", max(0, start - 5), 2, cat, name,
                    start, dur, **where)

    def write(self, path):
        return write(path, self.events)


KINDS = [("cudaLaunchKernel", "kernel", "gemm"),
         ("cudaLaunchKernelExC", "kernel", "norm"),
         ("cuLaunchKernelEx", "kernel", "attention"),
         ("cudaLaunchKernel", "kernel", "ncclDevKernel_AllReduce_Sum"),
         ("cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
         ("cudaMemsetAsync", "gpu_memset", "Memset (Device)")]
STREAM_OF = {"ncclDevKernel_AllReduce_Sum": [20]}


def made_up(seed):
    """Three streams that overlap, one of them of communication."""
    rng, made = random.Random(seed), Made()
    until, at = collections.Counter(), 100
    for _ in range(400):
        at += rng.choice([1, 2, 3, 40])
        took = rng.choice([1, 2, 9])
        api, cat, name = rng.choice(KINDS)
        stream = rng.choice(STREAM_OF.get(name, [7, 13]))
        start = max(at + rng.choice([1, took, took + 4, 60]),
                    until[stream] + rng.choice([0, 1, 50]))
        dur = rng.choice([1, 2, 8, 30])
        made.launch(api, at, took, cat, name, start, dur, stream)
        until[stream] = start + dur
        at += took
    return made


class File:
    def __init__(self, path):
        self.path = path
        self.events = load(path)["traceEvents"]
        self.work = sorted(
            (e for e in slices(self.events) if e["cat"] in GPU_WORK), key=span)
        self.first = span(self.work[0])[0]
        self.last = max(span(e)[1] for e in self.work)
        # overhead slices are no part of the wall time
        self.begin = min(span(e)[0] for e in slices(self.events)
                         if e["cat"] != "overhead")
        # What a sum over all GPU work can be off, in ns: HTA's times are
        # doubles of us, 1 ns apart in the files of the PyTorch profiler.
        step = math.ulp(self.last / 1000) * 1000
        self.slack = math.ceil(3 * step * len(self.work))

    def spans(self, choose=lambda e: True):
        return [span(e) for e in self.work if choose(e)]

    def streams(self):
        return {e["args"]["stream"] for e in self.work}

    def window(self, first=None, last=None):
        """The filter that makes the GPU's own time the wall time."""
        return "time=%dns..%dns" % ((first or self.first) - self.begin,
                                    (last or self.last) - self.begin)


@pytest.fixture(scope="module")
def made_file(tmp_path_factory):
    known, folder = {}, tmp_path_factory.mktemp("hta")

    def get(name):
        path = folder / (re.sub(r"\W+", "_", name) + ".json")
        if name in known:
            return known[name]
        if name in REAL:
            path = REAL[name]
        elif name in DECODE:
            done = run("decode", *DECODE[name], GPUTRACE_OUT=path)
            assert done.status == 0, done.err
        else:
            made_up(int(name.split()[-1])).write(path)
        return known.setdefault(name, File(path))
    return get


@pytest.fixture(params=[*REAL, *DECODE, *MADE_UP])
def file(request, made_file):
    return made_file(request.param)


@pytest.fixture
def hta(monkeypatch):
    def analysis(path, rounding=False, **options):
        monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", str(int(not rounding)))
        return TraceAnalysis(trace_files={0: str(path)}, trace_dir="",
                             **options)
    return analysis


def kernel_tables(analysis):
    return analysis.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=10 ** 6, duration_ratio=1.0,
        include_memory_kernels=True)


def temporal(analysis):
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    return {k: row[k + "(us)"] * 1000 for k in (
        "idle_time", "compute_time", "non_compute_time", "kernel_time")}


def near(got, want, slack):
    return abs(got - want) <= slack + 1e-3


# ---- Temporal breakdown ----

def test_temporal(gputrace, hta, file):
    got = temporal(hta(file.path))
    ours = report(gputrace, "-F", file.window(), file.path)["summary"]
    want = {"kernel_time": ours["wall_ns"], "idle_time": ours["gpu_idle_ns"],
            "compute_time": ours["compute_ns"],
            "non_compute_time": ours["gpu_busy_ns"] - ours["compute_ns"]}
    assert {k: v for k, v in want.items()
            if not near(got[k], v, file.slack)} == {}, got
    # Unfiltered, the wall time is that of all that was traced.
    whole = report(gputrace, file.path)["summary"]
    assert whole["gpu_busy_ns"] == ours["gpu_busy_ns"]
    assert near(whole["gpu_idle_ns"] - got["idle_time"],
                whole["wall_ns"] - (file.last - file.first), file.slack)


def test_gpus_of_one_file_are_one_for_hta(gputrace, hta, tmp_path):
    made = Made()
    for device, start, dur in [(0, 10, 40), (1, 30, 50), (0, 100, 10)]:
        made.work("k", start, dur, device=device)
    file = File(made.write(tmp_path / "t.json"))
    ours = report(gputrace, "-F", file.window(), file.path)
    got = temporal(hta(file.path))
    assert got["kernel_time"] - got["idle_time"] == 80000   # 10..80, 100..110
    assert ours["summary"]["gpu_busy_ns"] == 100000
    assert {d["device"]: d["busy_ns"] for d in ours["devices"]} == \
        {0: 50000, 1: 50000}


# ---- Kernel breakdown ----

def our_rows(gputrace, path):
    got = report(gputrace, path)
    return {r["name"]: r for table in ("kernels", "copies", "graphs")
            for r in got[table]}


COLUMNS = {"sum (us)": "total_ns", "max (us)": "max_ns", "min (us)": "min_ns",
           "mean (us)": "avg_ns", "stddev": "stddev_ns"}


def test_kernels(gputrace, hta, file):
    table = kernel_tables(hta(file.path))[1].set_index("name")
    ours = our_rows(gputrace, file.path)
    assert set(table.index) == set(ours)
    for name, row in ours.items():
        for their, our in COLUMNS.items():
            # whole ns, and what a double leaves of a few hundred us
            assert near(table.loc[name, their] * 1000, row[our], 0.51), name


def test_rounding_takes_up_to_two_us_of_each(gputrace, hta, file):
    """HTA's default: starts are rounded up, ends down."""
    table = kernel_tables(hta(file.path, rounding=True))[1].set_index("name")
    lost = 0
    for name, row in our_rows(gputrace, file.path).items():
        theirs = table.loc[name, "sum (us)"] * 1000
        assert row["total_ns"] - 2000 * row["count"] < theirs <= \
            row["total_ns"], name
        lost += row["total_ns"] - theirs
    whole = all(t % 1000 == 0 for s in file.spans() for t in s)
    assert (lost == 0) == whole


def test_rounding_makes_short_work_negative(gputrace, hta, tmp_path):
    made = Made()
    made.work("k", 10, 5)
    made.work("short", 20.3, 0.4)
    path = made.write(tmp_path / "a.json")
    table = kernel_tables(hta(path, rounding=True))[1].set_index("name")
    assert table.loc["short", "sum (us)"] == -1     # 21 to 20
    assert our_rows(gputrace, path)["short"]["total_ns"] == 400
    # As a copy, it makes the busy time shorter than the computation.
    made.work("Memset (Device)", 30.3, 0.4, cat="gpu_memset")
    made.work("k", 40, 5)
    path = made.write(tmp_path / "b.json")
    with pytest.raises(AssertionError):
        temporal(hta(path, rounding=True))
    assert report(gputrace, path)["summary"]["copy_ns"] == 400


def by_type(analysis, *types):
    """Time with all of these types at once, in ns."""
    table = kernel_tables(analysis)[0]
    return 1000 * sum(row["sum"] for _, row in table.iterrows()
                      if set(types) <= set(
                          row["kernel_type"].split(" overlapping ")))


SPLIT = {"compute_ns": ["COMPUTATION"], "comm_ns": ["COMMUNICATION"],
         "copy_ns": ["MEMORY"],
         "comm_hidden_ns": ["COMPUTATION", "COMMUNICATION"]}


def test_kinds(gputrace, hta, file):
    """HTA tells the time of each kind alone, and of each overlap."""
    analysis = hta(file.path)
    ours = report(gputrace, file.path)["summary"]
    whole = all(t % 1000 == 0 for s in file.spans() for t in s)
    for key, types in SPLIT.items():
        # each stretch, between two starts or ends, is cut to whole us
        cut = 0 if whole else 1000 * 2 * len(file.work)
        assert ours[key] - cut <= by_type(analysis, *types) <= \
            ours[key] + file.slack, key
    table = kernel_tables(analysis)[0]
    both = table[table["kernel_type"].str.contains("overlapping")]["sum"].sum()
    assert not whole or both * 1000 == ours["overlap_ns"] > 0


@pytest.mark.parametrize("name", MADE_UP)
def test_hidden_communication(gputrace, hta, made_file, name):
    file = made_file(name)
    ours = report(gputrace, file.path)["summary"]
    got = hta(file.path).get_comm_comp_overlap(visualize=False)
    share = 100 * ours["comm_hidden_ns"] / ours["comm_ns"]
    assert 0 < share < 100
    assert near(got.iloc[0]["comp_comm_overlap_pctg"], share, 0.005)


@pytest.mark.parametrize("name, theirs, ours", [
    ("ncclDevKernel_AllGather", "COMMUNICATION", "comm_ns"),
    ("nccl_copy", "COMPUTATION", "comm_ns"),
    ("MemcpyPeer_kernel", "MEMORY", "compute_ns"),
    ("void my_MemcpyBatch()", None, "compute_ns"),
    ("gridSync_k", None, "compute_ns")])
def test_kinds_by_name(gputrace, hta, tmp_path, name, theirs, ours):
    """HTA goes by the name alone, we by the category and the first word."""
    made = Made()
    made.work("k", 10, 5)
    made.work(name, 20, 3)
    path = made.write(tmp_path / "t.json")
    table = kernel_tables(hta(path))[1].set_index("name")
    assert (table.loc[name, "kernel_type"] if name in table.index else None) \
        == theirs
    summary = report(gputrace, path)["summary"]
    want = {"compute_ns": 5000, "comm_ns": 0, "copy_ns": 0}
    want[ours] += 3000
    assert want.items() <= summary.items()


def test_last_profiler_step(gputrace, hta, tmp_path):
    """HTA leaves out the last step, unless told; we take all of them."""
    made = Made()
    for i in range(4):
        made.events.append(slice_of("user_annotation", "ProfilerStep#%d" % i,
                                    100 * i, 90))
        made.work("k", 100 * i + 10, 10 + i)
    path = made.write(tmp_path / "t.json")
    every = kernel_tables(hta(path, include_last_profiler_step=True))[1]
    assert every["sum (us)"].sum() * 1000 == \
        our_rows(gputrace, path)["k"]["total_ns"] == 46000
    default = kernel_tables(hta(path))[1]["sum (us)"].sum() * 1000
    rows = report(gputrace, "-F", "range=ProfilerStep#[012]", path)["kernels"]
    assert default == rows[0]["total_ns"] == 33000


# ---- Idle time ----

def idle_of(hta, file):
    """{stream: {category: ns}}"""
    table = hta(file.path).get_idle_time_breakdown(ranks=[0],
                                                   visualize=False)[0]
    found = collections.defaultdict(collections.Counter)
    for _, row in table.iterrows():
        found[row["stream"]][row["idle_category"]] = row["idle_time"] * 1000
    return found


KERNEL_WAIT_NS = 30 * 1000      # documented as 30 ns, compared with us


def expected_idle(file, stream):
    """By HTA's words: the gap before each operation in its stream, negative
    where they overlap, goes to host_wait if its launch began in the gap."""
    calls, work = calls_of(file.events), [
        e for e in file.work if e["args"]["stream"] == stream]
    want, overlap, until = collections.Counter(), 0, span(work[0])[1]
    for before, e in zip(work, work[1:]):
        gap = span(e)[0] - span(before)[1]
        call = calls.get(e["args"].get("correlation"))
        want["host_wait" if call and span(call)[0] > span(before)[1] else
             "kernel_wait" if gap < KERNEL_WAIT_NS else "other"] += gap
        overlap += max(0, span(e)[0] - until) - gap
        until = max(until, span(e)[1])
    return want, overlap


def test_idle(gputrace, hta, file):
    got = idle_of(hta, file)
    assert got.keys() == file.streams()
    slack = file.slack + 15             # three numbers with two decimals
    for stream, categories in got.items():
        want, overlap = expected_idle(file, stream)
        for category in ("host_wait", "kernel_wait", "other"):
            assert near(categories[category], want[category], slack), stream
        spans = file.spans(lambda e: e["args"]["stream"] == stream)
        window = file.window(min(spans)[0], max(e for _, e in spans))
        ours = report(gputrace, "-F", "stream=%d" % stream, "-F", window,
                      file.path)["summary"]
        assert near(sum(categories.values()) + overlap, ours["gpu_idle_ns"],
                    slack)


def test_idle_of_a_gpu_is_not_that_of_its_streams(gputrace, hta, made_file):
    """Of several streams, one may idle while the GPU does not."""
    file = made_file(MADE_UP[0])
    ours = report(gputrace, "-F", file.window(), file.path)["summary"]
    per_stream = sum(sum(c.values()) for c in idle_of(hta, file).values())
    assert per_stream > 2 * ours["gpu_idle_ns"] > 0
    assert ours["gpu_idle_ns"] == \
        file.last - file.first - union(file.spans())


def diagnosed_gaps(gputrace, file, tmp_path):
    """The finding `gaps` of diagnose, with the GPU's own time as its window:
    that of a range put there."""
    raw = file.path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    call = next(iter(calls_of(file.events).values()))
    us = ["%d.%03d" % divmod(t, 1000)
          for t in (file.first, file.last - file.first)]
    text = re.sub(
        r'("traceEvents":\s*\[)', r'\1{"ph":"X","cat":"user_annotation",'
        r'"name":"window","pid":%s,"tid":%s,"ts":%s,"dur":%s,"args":{}},'
        % (call["pid"], call["tid"], *us), raw.decode(), count=1)
    path = tmp_path / "window.json"
    path.write_text(text)
    done = gputrace("diagnose", "--format", "json", "--step", "window",
                    "--idle", "0", path)
    assert done.status == 0, done.err
    found = {f["id"]: f["evidence"] for f in json.loads(done.out)["findings"]}
    return found["gaps"]


LAUNCH_LATENCY_NS = 20000


def expected_causes(file):
    """Sums over the gaps of the one stream, by where the launching call was
    when the gap began: `queued`, over; `began`, not over; `late`, before its
    start.  `tail` is what came long after a call of the latter two."""
    calls, seen = calls_of(file.events), set()
    sums, until = collections.Counter(), file.first
    for e in file.work:
        start, end = span(e)
        number = e["args"].get("correlation")
        if start > until and number not in calls:
            sums["unknown"] += start - until
        elif start > until:
            call = span(calls[number])
            where = "queued" if call[1] <= until or number in seen else \
                "began" if call[0] <= until else "late"
            sums[where] += start - until
            tail = start - max(call[1], until)
            if where != "queued" and tail > LAUNCH_LATENCY_NS:
                sums["tail"] += tail
        seen.add(number)
        until = max(until, end)
    return sums


@pytest.mark.parametrize("name", [*REAL, "decode", "decode, graph"])
def test_diagnosed_idle(gputrace, hta, made_file, tmp_path, name):
    file = made_file(name)
    stream, = file.streams()
    gaps = diagnosed_gaps(gputrace, file, tmp_path)
    idle, overlap = idle_of(hta, file)[stream], expected_idle(file, stream)[1]
    slack, want = file.slack + 15, expected_causes(file)
    assert gaps["window_ns"] == file.last - file.first
    assert near(gaps["gpu_idle_ns"], sum(idle.values()) + overlap, slack)
    # HTA's host wait is the gaps in which the launch began.  For us the call
    # is to blame, too, if it only ended there, but not for a long time after.
    assert near(idle["host_wait"], want["late"], slack)
    assert near(idle["kernel_wait"] + idle["other"] + overlap,
                want["queued"] + want["began"] + want["unknown"], slack)
    assert sum(gaps[k] for k in (
        "launch_ns", "host_ns", "sync_ns", "copy_ns")) == \
        want["late"] + want["began"] - want["tail"]
    assert gaps["queued_ns"] == want["queued"] + want["tail"]
    assert gaps["unknown_ns"] == want["unknown"]


# ---- Launches ----

def test_launches(gputrace, hta, file):
    table = hta(file.path).get_cuda_kernel_launch_stats(
        ranks=[0], visualize=False)[0]
    pairs = {k["args"]["correlation"]: (k, a)
             for k, a in linked(file.events, GPU_WORK)}
    known = {n for n, (_, a) in pairs.items() if a["name"] in KNOWN}
    assert set(table["correlation"]) == known and len(table) == len(known)
    rows = collections.defaultdict(list)
    for _, row in table.iterrows():
        k, a = pairs[row["correlation"]]
        if k["cat"] == "kernel":
            rows[k["name"], a["name"]].append(row)
    ours = {(r["name"], r["api"]): r
            for r in report(gputrace, file.path)["launches"]}
    assert {key for key in ours if key[1] in KNOWN} == rows.keys()
    slack = file.slack / len(file.work) + 1
    for key, group in rows.items():
        row, n = ours[key], len(group)
        delays = [1000 * r["launch_delay"] for r in group]
        assert row["count"] == n
        assert near(row["api_avg_ns"], 1000 * sum(
            r["cpu_duration"] for r in group) / n, 1), key
        assert near(row["kernel_avg_ns"], 1000 * sum(
            r["gpu_duration"] for r in group) / n, 1), key
        # HTA's delay is 0 where the kernel began before the call ended; ours
        # is over the others.
        assert near(row["queue_avg_ns"] * row["queue_count"], sum(delays),
                    slack * n), key
        assert abs(row["queue_count"] - sum(d > slack for d in delays)) <= \
            sum(0 < d <= slack for d in delays), key


def test_launches_of_copies(gputrace, hta, file):
    """HTA counts copies among the launches; ours are in `copies`, `api`."""
    table = hta(file.path).get_cuda_kernel_launch_stats(
        ranks=[0], visualize=False)[0].set_index("correlation")
    copies = {k["args"]["correlation"]: a["name"] for k, a in
              linked(file.events, ("gpu_memcpy", "gpu_memset"))}
    rows = table[table.index.isin([n for n, api in copies.items()
                                   if api in KNOWN])]
    kernels = hta(file.path).get_cuda_kernel_launch_stats(
        ranks=[0], visualize=False, include_memory_events=False)[0]
    assert len(table) - len(kernels) == len(rows)
    if not set(copies.values()) <= set(KNOWN):
        return
    ours = report(gputrace, file.path)["copies"]
    assert near(1000 * rows["gpu_duration"].sum(),
                sum(r["total_ns"] for r in ours), file.slack)
