# SPDX-License-Identifier: MIT
"""gputrace diff: what changed, and what is noise.

Traces are made here, with known distributions and seeds; every number of the
result is computed again from the same files: sums per step, medians, blocks,
the exact test of Mann and Whitney (by counting orders), Holm's correction.
"""
import bisect
import collections
import csv
import functools
import io
import json
import math
import random
from fractions import Fraction

import pytest
from tracing import GPU_WORK, ROOT, SANITIZED, Trace, run

BASE = 1790857026000000000
KINETO = ROOT.parent / "shared" / "data"
NAMES = ["gemm", "attention", "rope", "norm"]
ONE = 10 ** 6
SETTINGS = {"GPUTRACE_API": "essential", "GPUTRACE_OUT": "x"}


# ---- Traces ----

class Maker:
    """Writes slices with times of whole ns."""

    def __init__(self):
        self.events, self.correlation = [], 0

    def add(self, cat, name, start, end, gpu=False, **args):
        self.events.append(
            '{"ph":"X","cat":"%s","name":"%s","pid":%d,"tid":%d,'
            '"ts":%d.%03d,"dur":%d.%03d,"args":%s}' % (
                cat, name, 5000000 if gpu else 1, 7, start // 1000,
                start % 1000, (end - start) // 1000, (end - start) % 1000,
                json.dumps(args)))

    def work(self, name, called, start, end, cat="kernel", device=0):
        self.correlation += 1
        self.add("cuda_driver", "cuLaunchKernel", called, called + 2000,
                 correlation=self.correlation)
        self.add(cat, name, start, end, gpu=True, device=device, stream=7,
                 correlation=self.correlation)

    def write(self, path, **more):
        head = {"schemaVersion": 1, "baseTimeNanoseconds": BASE,
                "deviceProperties": [{"id": 0, "name": "H200"}],
                "gputrace": dict({"version": "1", "driver": 13000,
                                  "cupti": 130001, "settings": SETTINGS,
                                  "host": path.name}, **more)}
        path.write_text('%s,"traceEvents":[%s]}' % (
            json.dumps(head)[:-1], ",\n".join(self.events)))
        return path


def add_cpu_side(maker, rng, step, start, polls):
    """An operator inside another, and a blocking call in three steps of
    four."""
    inner = start + round(4000 * rng.lognormvariate(0, 0.1))
    maker.add("cpu_op", "aten::linear", start, inner + 2000)
    maker.add("cpu_op", "aten::addmm", start + 500, inner)
    if step % 4 != 3:
        maker.add("osrt", "poll", start, start + round(
            polls * rng.lognormvariate(0, 0.1)), thread=9)


def program(path, seed, steps=60, slow=None, held=0, step="step", polls=0,
            **more):
    """Steps of launches and kernels: kernels vary by 2 % (and a run as a
    whole by 0.3 %, as clocks do), the CPU by 20 % with a long tail.  With
    polls, as long, also what the sources torch and osrt see."""
    rng, maker, now = random.Random(seed), Maker(), 10 ** 9
    cpu_rng = random.Random(seed)
    run_factor = rng.gauss(1, 0.003)
    for i in range(steps):
        begin, gpu = now, now + 5000
        if rng.random() < held:
            now += rng.randrange(10 ** 5, 10 ** 6)
        if polls:
            add_cpu_side(maker, cpu_rng, i, now, polls)
        now += round(20000 * rng.lognormvariate(0, 0.2))
        for k in range(8):
            name = NAMES[k % 4]
            called, now = now, now + round(3000 * rng.lognormvariate(0, .2))
            time = 10000 * (1 + k % 4) * run_factor * rng.gauss(1, 0.02)
            gpu = max(gpu, now + 1000)
            end = gpu + round(time * (slow or {}).get(name, 1))
            maker.work(name, called, gpu, end)
            gpu = end + 500
        if i % 10 == 3:
            maker.work("rare", now, gpu, gpu + rng.randrange(9000, 11000))
            gpu += 12000
        maker.work("Memcpy DtoH (Device -> Pageable)", now, gpu, gpu + 900,
                   "gpu_memcpy")
        maker.add("cuda_driver", "cuStreamSynchronize", now + 3000,
                  gpu + 4000)
        maker.add("user_annotation", "sample", now + 2500, gpu + 4500)
        now = gpu + 5000
        if step:
            maker.add("user_annotation", step.replace("#", "#%d" % i), begin,
                      now)
        now += 1000
    maker.add("cuda_driver", "cuCtxDestroy", now, now + 5000000)
    return maker.write(path, **more)


def diff(gputrace, a, b, *args, status=0):
    done = gputrace("diff", "--format", "json", *args, a, b)
    assert done.status == status, done.err
    return json.loads(done.out)


def rows(got, table):
    return {r["name"]: r for r in got[table]}


TABLES = ("kernels", "copies", "api", "nvtx", "ops", "osrt")


def significant(got):
    found = [r["name"] for t in TABLES for p in ("", "_added", "_removed")
             for r in got[t + p] if r["significant"]]
    found += [r["name"] for r in got["metrics"]
              if r["state"] not in ("same", "untested")]
    assert got["verdict"]["significant"] == len(found)
    return found


# ---- The same, computed here ----

def half_up(x):
    return math.floor(Fraction(x) + Fraction(1, 2))


def median(values):
    v, n = sorted(values), len(values)
    return half_up(Fraction(v[(n - 1) // 2] + v[n // 2], 2))


def mean(values):
    return half_up(Fraction(sum(values), len(values)))


def blocks(values, of):
    k = min(12, len(values))
    edges = [i * len(values) // k for i in range(k + 1)]
    return [of(values[a:b]) for a, b in zip(edges, edges[1:])]


@functools.lru_cache(None)
def orders(m, n, pairs):
    """How many orders of m and n values have so many pairs: by the last."""
    if pairs < 0:
        return 0
    if not m or not n:
        return pairs == 0
    return orders(m - 1, n, pairs) + orders(m, n - 1, pairs - m)


def rank_p(a, b):
    if min(len(a), len(b)) < 6:
        return 1
    most = max(sum(y > x for x in a for y in b),
               sum(x > y for x in a for y in b))
    above = sum(orders(len(a), len(b), k)
                for k in range(most, len(a) * len(b) + 1))
    return min(1, 2 * above / math.comb(len(a) + len(b), len(a)))


def part(a, b):
    if not a:
        return 1000 * ONE if b else 0
    x = Fraction(b - a, a) * ONE
    return min(1000 * ONE, half_up(x) if x > 0 else -half_up(-x))


def judge(a, b, by_mean):
    """(typical of A, of B, p) before the correction."""
    means = [blocks(v, mean) for v in (a, b)]
    p, typical = rank_p(*means), [median(v) for v in means]
    if not by_mean:
        medians = [blocks(v, median) for v in (a, b)]
        p = max(p, rank_p(*medians))
        if (typical[1] < typical[0]) != (median(medians[1]) <
                                         median(medians[0])):
            p = 1
        typical = [median(a), median(b)]
    return (*typical, p)


def corrected(ps):
    out, least = {}, 0
    for i, (name, p) in enumerate(sorted(ps.items(), key=lambda x: x[1])):
        least = max(least, min(1, p * (len(ps) - i)))
        out[name] = least
    return out


def union(events, first=0, last=1 << 62):
    """Time between two moments in which at least one of them runs."""
    total, until = 0, first
    for start, end in sorted((e["start"], e["end"]) for e in events):
        end = min(end, last)
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


class Side:
    """A trace by steps: which are those of the range `step`."""

    def __init__(self, path, step="step"):
        trace = Trace(path)
        ranges = sorted((e["start"], e["end"]) for e in trace.ranges()
                        if e["name"].split("#")[0] == step)
        self.starts = [s for s, _ in ranges]
        self.ends = [*self.starts[1:], ranges[-1][1]]
        calls = {e["args"].get("correlation"): e["start"]
                 for e in trace.api()}
        work = trace.gpu_work()
        self.work = [(self.step(calls.get(e["args"]["correlation"],
                                          e["start"])), e) for e in work]
        self.entries = {
            "kernels": [x for x in self.work if x[1]["cat"] == "kernel"],
            "copies": [x for x in self.work if x[1]["cat"] != "kernel"],
            "api": [(self.step(e["start"]), e) for e in trace.api()],
            "nvtx": [(self.step(e["start"]), e) for e in trace.ranges()],
            "ops": [(self.step(e["start"]), e)
                    for e in trace.slices("cpu_op")],
            "osrt": [(self.step(e["start"]), e)
                     for e in trace.slices("osrt")]}
        self.devices = {e["args"]["device"] for e in work}
        self.times = [e - s for s, e in zip(self.starts, self.ends)]

    def step(self, at):
        i = bisect.bisect_right(self.starts, at) - 1
        return i if i >= 0 and at < self.ends[i] else None

    def busy(self):
        """By launch, a union for each GPU."""
        return [sum(union([e for s, e in self.work if s == step and
                           e["args"]["device"] == device])
                    for device in self.devices)
                for step in range(len(self.starts))]

    def idle(self):
        """By time."""
        return [len(self.devices) * (t - s) - sum(
                    union([e for _, e in self.work
                           if e["args"]["device"] == device], s, t)
                    for device in self.devices)
                for s, t in zip(self.starts, self.ends)]

    def names(self, table):
        """{name: (sums of each step, steps that have it, count, total)}"""
        found = collections.defaultdict(
            lambda: [[0] * len(self.starts), set(), 0, 0])
        for step, e in self.entries[table]:
            row, time = found[e["name"].split("#")[0]], e["end"] - e["start"]
            if step is not None:
                row[0][step] += time
                row[1].add(step)
            row[2] += 1
            row[3] += time
        return found


def check_row(row, a, b, p):
    assert (row["a_ns"], row["b_ns"]) == (a, b)
    assert row["change_ns"] == b - a
    assert round(row["change"] * ONE) == part(a, b)
    assert abs(row["p"] - p) <= 1.01 / ONE


def check_table(got, table, sides):
    a, b = (s.names(table) for s in sides)
    want, ps = {}, {}
    for name in a.keys() & b.keys():
        regular = all(len(s[name][1]) >= 0.6 * len(s[name][0])
                      for s in (a, b))
        want[name] = judge(a[name][0], b[name][0], not regular)
        ps[name] = want[name][2]
    ps = corrected(ps)
    assert rows(got, table).keys() == want.keys()
    for name, row in rows(got, table).items():
        check_row(row, want[name][0], want[name][1], ps[name])
        assert (row["a_total_ns"], row["b_total_ns"], row["a_count"],
                row["b_count"]) == (a[name][3], b[name][3], a[name][2],
                                    b[name][2])
    assert rows(got, table + "_added").keys() == b.keys() - a.keys()
    assert rows(got, table + "_removed").keys() == a.keys() - b.keys()


@pytest.mark.parametrize("seed, steps, slow, step", [
    (1, (60, 60), {}, "step"), (2, (30, 47), {"norm": 1.05}, "step"),
    (3, (6, 200), {"gemm": 1.3}, "ProfilerStep#"),
    (4, (13, 12), {"rope": 0.9}, "step#"),
])
def test_numbers(gputrace, tmp_path, seed, steps, slow, step):
    a = program(tmp_path / "a.json", seed, steps[0], held=0.1, step=step,
                polls=9000)
    b = program(tmp_path / "b.json", -seed, steps[1], slow, step=step,
                polls=12000)
    got = diff(gputrace, a, b)
    assert [s["steps"] for s in got["sides"]] == list(steps)
    sides = [Side(p, step.rstrip("#")) for p in (a, b)]
    if "#" in step:     # "step#0", the first, is the name of all
        for r in got["nvtx"]:
            r["name"] = r["name"].split("#")[0]
    values = {"step time": [s.times for s in sides],
              "GPU busy": [s.busy() for s in sides],
              "GPU idle": [s.idle() for s in sides]}
    want = {k: judge(*v, False) for k, v in values.items()}
    ps = corrected({k: w[2] for k, w in want.items()})
    for name, row in rows(got, "metrics").items():
        check_row(row, want[name][0], want[name][1], ps[name])
    for table in TABLES:
        check_table(got, table, sides)
    assert len(got["ops"]) == 2 and len(got["osrt"]) == 1


def test_what_must_be_asked_for(gputrace, tmp_path):
    """Operators and blocking calls: a side that has none did not ask."""
    a = program(tmp_path / "a.json", 1, polls=9000)
    b = program(tmp_path / "b.json", 2, polls=90000)
    poll, = diff(gputrace, a, b)["osrt"]
    assert poll["state"] == "slower" and poll["significant"]
    text = gputrace("diff", "--all", a, b).out
    assert "Operators" in text and "Blocking calls" in text
    bare = program(tmp_path / "c.json", 2)
    for pair in ((a, bare), (bare, a)):
        got = diff(gputrace, *pair)
        assert not any(got[t + p] for t in ("ops", "osrt")
                       for p in ("", "_added", "_removed"))


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_streams_of_two_gpus(gputrace, tmp_path, seed):
    """Work that runs late, long, beside other work, and outside of steps."""
    def chaos(path, rng):
        maker = Maker()
        for i in range(20):
            maker.add("user_annotation", "step", 10000 + 1000 * i,
                      10800 + 1000 * i)
        for _ in range(150):
            called = rng.randrange(9000, 31000)
            start = called + rng.choice([1, 10, 3000])
            maker.work(rng.choice("ab"), called, start,
                       start + rng.choice([0, 5, 100, 5000]),
                       device=rng.randrange(2))
        rng.shuffle(maker.events)
        return maker.write(path)

    paths = [chaos(tmp_path / n, random.Random(n + str(seed)))
             for n in ("a.json", "b.json")]
    got, sides = diff(gputrace, *paths), [Side(p) for p in paths]
    for name, of in (("GPU busy", Side.busy), ("GPU idle", Side.idle)):
        row = rows(got, "metrics")[name]
        assert [row["a_ns"], row["b_ns"]] == [median(of(s)) for s in sides]
    for table in ("kernels", "api"):
        check_table(got, table, sides)


# ---- Verdicts ----

@pytest.mark.parametrize("held", [0, 0.2])
def test_equal_runs_show_no_change(gputrace, tmp_path, held):
    """10 of 10, also where the program is held up now and then."""
    first = program(tmp_path / "a.json", 100, held=held)
    for seed in range(10):
        again = program(tmp_path / "b.json", seed, held=held)
        got = diff(gputrace, first, again, "--fail-over", "5%")
        assert significant(got) == []
    done = gputrace("diff", first, again)
    assert "no significant change" in done.out and done.err == ""


def test_a_slower_kernel_is_found(gputrace, tmp_path):
    """5 %, 10 of 10, and no other kernel is blamed."""
    first = program(tmp_path / "a.json", 100)
    for seed in range(10):
        name = NAMES[seed % 4]
        again = program(tmp_path / "b.json", seed, slow={name: 1.05})
        got = diff(gputrace, first, again)
        changed = [r for r in got["kernels"] if r["significant"]]
        assert [(r["name"], r["state"]) for r in changed] == \
            [(name, "slower")]
        assert 0.035 < changed[0]["change"] < 0.065
        assert got["kernels"][0] == changed[0]          # first of all
        back = diff(gputrace, again, first)["kernels"]
        assert (back[0]["name"], back[0]["state"]) == (name, "faster")


def steps_of(path, times, call=None):
    """Steps of given lengths, in each one call of call() ns."""
    maker, now = Maker(), 10 ** 9
    for time in times:
        maker.add("user_annotation", "step", now, now + time)
        if call:
            maker.add("cuda_runtime", "cudaFree", now, now + call())
        now += time
    return maker.write(path)


def test_held_up_and_catching_up_is_noise(gputrace, tmp_path):
    """Most steps are shorter than before, and the program is slower."""
    rng = random.Random(5)
    even = [rng.randrange(99000, 101000) for _ in range(120)]
    uneven = [rng.randrange(49000, 51000) if i % 6 else
              rng.randrange(600000, 700000) for i in range(120)]
    a, b = (steps_of(tmp_path / n, t)
            for n, t in (("a.json", even), ("b.json", uneven)))
    assert median(uneven) < median(even) and mean(uneven) > mean(even)
    for files in ((a, b), (b, a)):
        assert significant(diff(gputrace, *files, "--fail-over", "5")) == []


@pytest.mark.parametrize("spared, status", [(5, 0), (30, 1)])
def test_a_loaded_machine_is_noise(gputrace, tmp_path, spared, status):
    """A neighbour lengthens four steps of five, and not the shortest; what
    the program itself does spares hardly a step."""
    rng = random.Random(5)
    before = [rng.randrange(99000, 101000) for _ in range(120)]
    after = [t + 20000 * bool(i % spared) for i, t in enumerate(before)]
    a, b = (steps_of(tmp_path / n, t)
            for n, t in (("a.json", before), ("b.json", after)))
    got = diff(gputrace, a, b, "--fail-over", "5%", status=status)
    assert significant(got) == ["step", "step time"] * status


@pytest.mark.parametrize("call, step, found", [
    (4000, 0, 0), (8000, 0, 0), (25000, 0, 1),      # of 100000
    (1000, 9000, 0), (4000, 9000, 0), (8000, 9000, 1),
])
def test_a_call_must_matter_for_the_step(gputrace, tmp_path, call, step,
                                         found):
    rng = random.Random(6)
    a = steps_of(tmp_path / "a.json", [100000] * 60,
                 lambda: rng.randrange(4900, 5100))
    b = steps_of(tmp_path / "b.json", [100000 + step] * 60,
                 lambda: call + rng.randrange(4900, 5100))
    got = diff(gputrace, a, b)
    assert significant(got) == ["cudaFree"] * found + \
        ["step", "step time"] * bool(step)
    assert got["api"][0]["p"] < 0.001


def test_idle_time_counts_as_a_part_of_the_step(gputrace, tmp_path):
    """1 % of a step idle or 2 %: twice as much, and no matter."""
    def loop(path, idle):
        maker, now = Maker(), 10 ** 9
        for i in range(60):
            maker.add("user_annotation", "step", now, now + 100000)
            maker.work("k", now, now + idle + i % 7, now + 100000)
            now += 100000
        return maker.write(path)

    a = loop(tmp_path / "a.json", 1000)
    for idle, state in ((2000, "same"), (9000, "slower")):
        got = diff(gputrace, a, loop(tmp_path / "b.json", idle))
        row = rows(got, "metrics")["GPU idle"]
        assert row["state"] == state and row["change"] > 0.9
        assert row["p"] < 0.01


def test_fail_over(gputrace, tmp_path):
    first = program(tmp_path / "a.json", 1)
    slow = program(tmp_path / "b.json", 2, slow=dict.fromkeys(NAMES, 1.08))
    for limit, status in (("5%", 1), ("5", 1), ("0.5%", 1), ("12%", 0)):
        done = gputrace("diff", "--fail-over", limit, first, slow)
        assert done.status == status
        assert ("GPU busy time is" in done.err) == bool(status)
        assert ("step time is" in done.err) == bool(status)
        assert done.out
    assert gputrace("diff", "-x", "5%", slow, first).status == 0
    for bad in ("", "x", "-1", "5%%", "1.2.3", ".", "%"):
        assert gputrace("diff", "-x", bad, first, slow).status == 2


def test_too_few_steps_for_a_test(gputrace, tmp_path):
    """Then all steps of B must be above all of A."""
    a = program(tmp_path / "a.json", 1, steps=4)
    b = program(tmp_path / "b.json", 2, steps=4, slow={"norm": 1.5})
    c = program(tmp_path / "c.json", 3, steps=4, held=0.5,
                slow={"norm": 1.005})
    done = gputrace("diff", "-x", "5%", a, b)
    assert done.status == 1 and "fewer than 6 steps" in done.out
    assert {r["state"] for r in diff(gputrace, a, b)["metrics"]} == \
        {"untested"}
    assert gputrace("diff", "-x", "5%", a, c).status == 0
    # names are tested by their single operations
    assert "norm" in significant(diff(gputrace, a, b))
    got = rows(diff(gputrace, a, b), "kernels")["norm"]
    assert 0.45 < got["change"] < 0.55 and got["a_count"] == 8


def test_without_steps(gputrace, tmp_path):
    """Kernels in no order: wall time is what there is."""
    def kernels(path, seed, longer):
        rng, maker, now = random.Random(seed), Maker(), 10 ** 9
        for _ in range(300):
            time = round(rng.gauss(10000, 100) * longer)
            maker.work(rng.choice("abcdefgh"), now, now + 3000, now + 3000 + time)
            now += 4000 + time
        return maker.write(path)

    a = kernels(tmp_path / "a.json", 1, 1)
    b = kernels(tmp_path / "b.json", 2, 1.1)
    done = gputrace("diff", "-x", "5%", a, b)
    assert done.status == 1 and "wall time is" in done.err
    got = diff(gputrace, a, b)
    assert [s["source"] for s in got["sides"]] == ["none: the whole file"] * 2
    spans = [max(e["end"] for e in t.slices()) - min(
        e["start"] for e in t.slices()) for t in map(Trace, (a, b))]
    assert [s["wall_ns"] for s in got["sides"]] == spans
    assert rows(got, "metrics")["step time"]["b_ns"] == spans[1]
    assert sorted(significant(got)) == list("abcdefgh")
    assert gputrace("diff", "-x", "5%", a, a).status == 0


def test_added_and_removed(gputrace, tmp_path):
    a = program(tmp_path / "a.json", 1)
    b = program(tmp_path / "b.json", 1)
    b.write_text(b.read_text().replace('"gemm"', '"gemm_v2"')
                 .replace('"rare"', '"scarce"'))
    got = diff(gputrace, a, b)
    for table, name, other in (("kernels_added", "gemm_v2", "scarce"),
                               ("kernels_removed", "gemm", "rare")):
        found = rows(got, table)
        assert found[name]["significant"] and found.keys() == {name, other}
        assert not found[other]["significant"]
    assert significant(got) == ["gemm_v2", "gemm"]
    text = gputrace("diff", a, b).out
    assert "Kernels: only in B" in text and "Kernels: only in A" in text
    assert "scarce" not in text
    assert "scarce" in gputrace("diff", "--all", a, b).out


def test_what_was_recorded_differently_is_said_first(gputrace, tmp_path):
    a = program(tmp_path / "a.json", 1)
    b = program(tmp_path / "b.json", 1, driver=12080, settings=dict(
        SETTINGS, GPUTRACE_API="all", GPUTRACE_OUT="y"))
    b.write_text(b.read_text().replace('"H200"', '"H100"'))
    got = diff(gputrace, a, b)
    assert {r["name"]: (r["a"], r["b"]) for r in got["differences"]} == {
        "GPU": ("1 x H200", "1 x H100"), "driver": ("13000", "12080"),
        "GPUTRACE_API": ("essential", "all")}
    assert list(got)[:2] == ["schema", "differences"]
    text = gputrace("diff", a, b).out.splitlines()
    assert text[0].startswith("Recorded differently")
    assert diff(gputrace, a, a)["differences"] == []
    assert gputrace("diff", a, a).out.startswith("Traces")


def test_the_range_that_is_a_step(gputrace, tmp_path):
    a, b = (program(tmp_path / ("%d.json" % i), i) for i in range(2))
    got = diff(gputrace, a, b, "--step", "sample")
    assert [s["source"] for s in got["sides"]] == ["sample"] * 2
    times = Side(a, "sample").times
    assert rows(got, "metrics")["step time"]["a_ns"] == median(times)
    done = gputrace("diff", "--step", "nothing", a, b)
    assert done.status == 3 and "no range of the name nothing" in done.err
    # without ranges, by the kernels that repeat
    a, b = (program(tmp_path / ("%d.json" % i), i, step=None)
            for i in range(2))
    got = diff(gputrace, a, b)
    assert [s["source"] for s in got["sides"]] == ["repeating kernels"] * 2


def test_formats(gputrace, tmp_path):
    a = program(tmp_path / "a.json", 1)
    b = program(tmp_path / "b.json", 2, slow={"gemm": 0.8, "norm": 1.2})
    got = diff(gputrace, a, b)
    text = gputrace("diff", "-f", "csv", a, b).out
    part_of = text.split("# kernels\n")[1].split("\n\n")[0]
    lines = list(csv.DictReader(io.StringIO(part_of)))
    assert [r["Name"] for r in lines] == [r["name"] for r in got["kernels"]]
    assert [int(r["Change (ns)"]) for r in lines] == \
        [r["change_ns"] for r in got["kernels"]]
    assert [r["Change (%)"] for r in lines] == [
        "%.1f" % (half_up(Fraction(round(abs(r["change"]) * ONE), 1000)) /
                  10 * (1 if r["change"] >= 0 else -1))
        for r in got["kernels"]]
    assert {r["name"]: r["state"] for r in got["kernels"][:2]} == {
        "norm": "slower", "gemm": "faster"}
    table = gputrace("diff", "-n", 1, a, b).out
    assert "norm" in table and "gemm" not in table.split("CUDA API")[0]
    assert "and 1 more" in table
    assert "attention" not in table
    wide = diff(gputrace, a, b, "--min-change", "30%")
    assert significant(wide) == []


# ---- Real ones ----

def test_real_traces(gputrace, real_trace):
    """A trace is equal to itself; totals are those of report."""
    got = diff(gputrace, real_trace, real_trace, "-x", "0%")
    assert significant(got) == [] and got["differences"] == []
    table = json.loads(gputrace("report", "-f", "json", real_trace).out)
    operators = {s["name"] for s in Trace(real_trace).slices("cpu_op")}
    for name in TABLES:     # the table of operators has the API's calls, too
        want = {r["name"]: (r.get("total_ns", r.get("cpu_ns")), r["count"])
                for r in table.get(name, [])
                if name != "ops" or r["name"] in operators}
        assert {r["name"]: (r["b_total_ns"], r["b_count"])
                for r in got[name]} == want


def test_repeated_runs(gputrace, tmp_path):
    """Three runs on the simulated GPU, and one with longer kernels."""
    paths = [tmp_path / ("%d.json" % i) for i in range(4)]
    for path in paths:
        longer = path == paths[-1]
        done = run("decode", "--steps", 60, "--kernels", 30, "--kernel-us",
                   21 if longer else 20, GPUTRACE_OUT=path)
        assert done.status == 0, done.err
    for a, b in ((0, 1), (1, 2), (2, 0)):
        got = diff(gputrace, paths[a], paths[b])
        assert [s["steps"] for s in got["sides"]] == [60, 60]
        gpu = [r for t in ("kernels", "copies", "kernels_added",
                           "kernels_removed") for r in got[t]]
        assert gpu and not any(r["significant"] for r in gpu)
        assert rows(got, "metrics")["GPU busy"]["state"] == "same"
        if not SANITIZED:       # the CPU's times are another program's
            assert significant(got) == []
    got = diff(gputrace, paths[0], paths[3])
    assert rows(got, "metrics")["GPU busy"]["state"] == "slower"
    kernels = [r for r in got["kernels"] if r["significant"]]
    assert len(kernels) == len(got["kernels"])
    assert all(0.045 < r["change"] < 0.055 for r in kernels)


def test_broken_files(gputrace, tmp_path):
    good = program(tmp_path / "a.json", 1, steps=8)
    refused = 0
    for path in sorted((ROOT / "test/fuzz/corpus/trace").iterdir()):
        alone = gputrace("report", path)
        for files in ((good, path), (path, good)):
            done = gputrace("diff", *files)
            assert done.status == alone.status, path
            if done.status == 3:
                refused += 1
                assert done.err.startswith("gputrace: %s: byte " % path)
    assert refused > 10
    assert gputrace("diff", good).status == 2
    assert gputrace("diff", good, good, good).status == 2
    done = gputrace("diff", good, tmp_path / "none.json")
    assert done.status == 3 and "none.json: No such file" in done.err
    assert all(GPU_WORK)
