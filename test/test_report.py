# SPDX-License-Identifier: MIT
"""The tables of report that tell apart more than names.

What they must say is computed here, from the same file, with Python's json
and integers.
"""
import collections
import json
import random

import pytest
from test_tools import (GPU_WORK, TABLES, expected_summary, load, ns, report,
                        slice_of, slices, stats, write)


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


def check(got, events):
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
