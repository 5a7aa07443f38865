# SPDX-License-Identifier: MIT
"""gputrace diagnose: what it finds, what it says nothing of, and whether its
savings come true.

Idle time is computed here, from the same file, in another way: by marking the
ends of all work. Savings are held to the program with that fix applied.
"""
import bisect
import gzip
import json
import random
import re

import pytest
from tracing import GPU_WORK, ROOT, SANITIZED, Trace, run

IDS = ["gaps", "launch_bound", "sync", "copies", "serialised",
       "dominant_kernel", "tiny_kernels", "warmup", "imbalance", "graphs"]
DATA = ROOT / "test" / "data"
STEPS = 6
EXAMPLE = dict(kernels=350, kernel_us=8.6, launch_us=40, sync_ms=4)


def diagnosed(gputrace, *args):
    done = gputrace("diagnose", "--format", "json", *args)
    assert done.status == 0, done.err
    answer = json.loads(done.out)
    answer["by_id"] = {f["id"]: f for f in answer["findings"]}
    ids = list(answer["by_id"])
    assert len(ids) == len(answer["findings"])
    assert ids == sorted(ids, key=IDS.index)
    return answer


def busy(spans, start, end):
    """Time in [start, end] that at least one span covers."""
    edges = sorted([(max(a, start), 1) for a, b in spans if b > start] +
                   [(min(b, end), -1) for a, b in spans if b > start])
    total = depth = 0
    last = start
    for at, change in edges:
        if depth and last < end:
            total += min(at, end) - last
        depth += change
        last = at
    return total


def window(trace):
    """From the first step to the end of the last, or of its work."""
    steps = trace.ranges("step")
    start = min(s["start"] for s in steps)
    end = max(s["end"] for s in steps)
    launched = {e["args"]["correlation"] for e in trace.api()
                if start <= e["start"] < end}
    return start, max([end] + [e["end"] for e in trace.gpu_work()
                               if e["args"]["correlation"] in launched])


class Played:
    """decode as traced, and what diagnose says. `step` is its mean step in
    ns, `quiet` the shortest time from one to the next, on the GPU: a busy
    machine does not make it longer."""

    def __init__(self, gputrace, path, steps=STEPS, graph=False, **options):
        args = ["--steps", steps] + ["--graph"] * graph
        for name, value in options.items():
            args += ["--" + name.replace("_", "-"), value]
        done = run("decode", *args, GPUTRACE_OUT=path)
        assert done.status == 0, done.err
        self.path, self.trace = path, Trace(path)
        self.said = diagnosed(gputrace, path)
        self.found = self.said["by_id"]
        self.start, self.end = window(self.trace)
        self.step = (self.end - self.start) / steps
        self.quiet = min(self.rhythm())

    def rhythm(self):
        launches = self.trace.launches()
        steps = sorted(s["start"] for s in self.trace.ranges("step"))
        first = {}
        for e in self.trace.gpu_work():
            at = launches[e["args"]["correlation"]]["start"]
            step = bisect.bisect(steps, at)
            first[step] = min(first.get(step, e["start"]), e["start"])
        starts = [first[i + 1] for i in range(len(steps))]
        return [b - a for a, b in zip(starts, starts[1:])]

    def idle_share(self):
        spans = [(e["start"], e["end"]) for e in self.trace.gpu_work()]
        return 1 - busy(spans, self.start, self.end) / (self.end - self.start)

    def saving(self, name):
        return self.found[name]["saving_per_step_ns"]


def is_calm(played):
    """No step in which the program lost its CPU: then the GPU was idle, and
    to say so is right. A graph's nodes leave 6 % between them."""
    return played.idle_share() < 0.1


def tried(play, judge):
    """A program that loses its CPU in a step has gaps of another kind: six
    runs, one of which must be as told."""
    for _ in range(5):
        try:
            played = play()
            judge(played)
            return played
        except AssertionError:
            pass
    played = play()
    judge(played)
    return played


@pytest.mark.skipif(bool(SANITIZED), reason="launches take much longer")
def test_worked_example(gputrace, tmp_path):
    """The textbook's step: what is found, in which order, and whether each
    fix, applied in that order, saves what was told."""
    def play(name, **changes):
        return Played(gputrace, tmp_path / name, **dict(EXAMPLE, **changes))

    def judge_base(base):
        said = [f["id"] for f in base.said["findings"]]
        assert said[:3] == ["gaps", "launch_bound", "sync"]
        assert "dominant_kernel" in said and "copies" not in said
        check_numbers(base)
        check_order(gputrace("diagnose", base.path))
        for name, saved in (("launch_bound", base.step - graph.quiet),
                            ("sync", graph.quiet - last.quiet),
                            # half the launches: 175 of 40 us
                            ("tiny_kernels", 175 * 40000)):
            assert abs(base.saving(name) - saved) < 0.2 * saved, name

    def judge_graph(graph):
        assert ("gaps" in graph.found) == (graph.idle_share() >= 0.1)
        assert "launch_bound" not in graph.found or not is_calm(graph)
        assert {"sync", "dominant_kernel"} <= set(graph.found)

    def judge_last(last):
        assert {"sync", "dominant_kernel"}.isdisjoint(last.found)
        assert "launch_bound" not in last.found or last.idle_share() > 0.15

    graph = tried(lambda: play("graph.json", steps=20, graph=True),
                  judge_graph)
    last = tried(lambda: play("last.json", steps=20, graph=True,
                              sync_ms=0), judge_last)
    tried(lambda: play("base.json"), judge_base)


def check_numbers(base):
    """Idle time to the nanosecond, launches one by one."""
    gaps = base.found["gaps"]["evidence"]
    spans = [(e["start"], e["end"]) for e in base.trace.gpu_work()]
    assert gaps["window_ns"] == base.end - base.start
    assert gaps["gpu_busy_ns"] == busy(spans, base.start, base.end)
    assert gaps["gpu_idle_ns"] == gaps["window_ns"] - gaps["gpu_busy_ns"]
    parts = ("launch_ns", "host_ns", "sync_ns", "copy_ns", "queued_ns",
             "unknown_ns")
    assert sum(gaps[p] for p in parts) == gaps["gpu_idle_ns"]
    assert gaps["launch_ns"] > 0.9 * gaps["gpu_idle_ns"]
    # 350 kernels, two copies and a set a step
    launches = base.found["launch_bound"]["evidence"]
    assert launches["launches"] == STEPS * 353
    assert launches["kernel_launches"] == STEPS * 350
    assert launches["usual_work_ns"] == 8600
    sync = base.found["sync"]["evidence"]
    waits = [e for e in base.trace.api("cuStreamSynchronize")
             if base.start <= e["start"] <= base.end]
    assert sync["count"] == len(waits) == STEPS
    assert sync["wait_ns"] == sum(e["end"] - e["start"] for e in waits)
    assert (sync["range"], sync["call"]) == ("sample", "cuStreamSynchronize")
    starts = {e["start"] for e in waits}
    assert {p["ts_ns"] for p in sync["places"]} <= starts


def check_order(done):
    text = " ".join(done.out.split())
    marks = ["not a kernel problem",
             "launch-bound: 350 kernel launches a step",
             "a synchronisation inside 'sample'", " Savings, ",
             "the kernel to look at next"]
    at = [text.index(mark) for mark in marks]
    assert at == sorted(at) and done.status == 0


@pytest.mark.skipif(bool(SANITIZED), reason="launches take much longer")
def test_other_variants(gputrace, tmp_path):
    def judge_ahead(ahead):
        assert {"gaps", "launch_bound"} <= set(ahead.found)
        assert {"sync", "dominant_kernel"}.isdisjoint(ahead.found)

    def judge_healthy(healthy):
        assert healthy.said["findings"] == [] or not is_calm(healthy)
        assert set(healthy.said["checked"]) == set(IDS) - {"imbalance"}
        text = gputrace("diagnose", healthy.path, "--fail-on", "info")
        assert text.status == bool(healthy.found)
        assert ("Nothing was found" in text.out) == (not healthy.found)

    tried(lambda: Played(gputrace, tmp_path / "ahead.json",
                         **dict(EXAMPLE, sync_ms=0)), judge_ahead)
    tried(lambda: Played(gputrace, tmp_path / "healthy.json", graph=True,
                         kernels=50, kernel_us=200, launch_us=40),
          judge_healthy)


# ---- Traces that are written here: what they must say is known exactly ----

class Made:
    """A small trace; times are us. Work is launched by one thread."""

    def __init__(self, rank=0):
        self.events = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1,
                        "args": {"name": "main"}}]
        self.rank, self.correlation = rank, 0

    def slice(self, cat, name, ts, dur, pid=1, tid=1, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid,
                            "tid": tid, "ts": ts, "dur": dur, "args": args})

    def call(self, name, ts, dur, **args):
        self.correlation += 1
        self.slice("cuda_runtime", name, ts, dur,
                   correlation=self.correlation, **args)

    def work(self, name, ts, dur, cat="kernel", stream=7, **args):
        """... of the call before."""
        self.slice(cat, name, ts, dur, 5000000, stream, device=0,
                   stream=stream, correlation=self.correlation, **args)

    def kernel(self, name, at, ts, dur, stream=7):
        self.call("cudaLaunchKernel", at, 1)
        self.work(name, ts, dur, stream=stream)

    def step(self, ts, dur):
        self.slice("user_annotation", "step", ts, dur)

    def write(self, path, base=0):
        path.write_text(json.dumps({
            "baseTimeNanoseconds": base,
            "distributedInfo": {"rank": self.rank},
            "traceEvents": self.events}))
        return path


def steady(work_us=900, steps=6):
    """Steps of 1 ms with three kernels of work_us together, launched in
    time."""
    made = Made()
    for i in range(steps):
        at = 1000 + i * 1000
        made.step(at, 1000)
        for k in range(3):
            made.kernel("abc"[k], at + 1 + k, at + 10 + k * work_us / 3,
                        work_us / 3)
    return made


def test_host_wait(gputrace, tmp_path):
    """Each step the thread does something else for 2 ms."""
    made = Made()
    for i in range(6):
        at = 1000 + i * 3000
        made.step(at, 3000)
        made.kernel("a", at + 1, at + 5, 500)
        made.kernel("b", at + 3, at + 505, 495)
    said = diagnosed(gputrace, made.write(tmp_path / "t.json"))
    gaps = said["by_id"]["gaps"]
    assert "launch_bound" not in said["by_id"]
    assert gaps["evidence"]["gpu_idle_ns"] == 6 * 2005000 - 0
    assert gaps["evidence"]["host_ns"] >= 5 * 2000000
    assert gaps["saving_ns"] == gaps["evidence"]["host_ns"]
    # a thread that launches all that time is another thing
    said = diagnosed(gputrace, tmp_path / "t.json", "--host-wait", "5000")
    assert "launch_bound" in said["by_id"]


def test_causes_to_the_nanosecond(gputrace, tmp_path):
    """A step of 2 ms with a gap of each kind:

    GPU   5 a 105  210 b 310  340 c 440  480 copy 510  535 d 635  650 e 750
          800 f 900
    CPU   0 launch a, 205 launch b, 207 - 320 wait, 330 launch c,
          400 - 520 copy, 530 launch d, 532 launch e; f's is not in the trace
    """
    made = Made()
    for i in range(6):
        at = 1000 + i * 2000
        made.step(at, 2000)
        made.kernel("a", at, at + 5, 100)
        made.kernel("b", at + 205, at + 210, 100)
        made.call("cudaStreamSynchronize", at + 207, 113)
        made.kernel("c", at + 330, at + 340, 100)
        made.call("cudaMemcpy", at + 400, 120)
        made.work("Memcpy DtoH (Device -> Pinned)", at + 480, 30,
                  "gpu_memcpy", bytes=8)
        made.kernel("d", at + 530, at + 535, 100)
        made.kernel("e", at + 532, at + 650, 100)
        made.correlation += 1
        made.work("f", at + 800, 100)
    gaps = diagnosed(gputrace, made.write(tmp_path / "t.json"))[
        "by_id"]["gaps"]["evidence"]
    part = {"gpu_busy_ns": 630, "launch_ns": 5 + 105 + 10 + 15,
            "sync_ns": 20, "copy_ns": 50, "queued_ns": 15, "unknown_ns": 50,
            "host_ns": 1100}
    assert sum(part.values()) == 2000
    assert {k: gaps[k] for k in part} == \
        {k: 6000 * v for k, v in part.items()}


def test_two_gpus_of_one_process(gputrace, tmp_path):
    """The worst is shown, the other counted."""
    made = steady(300)
    for event in [e for e in made.events if e.get("cat") == "kernel"]:
        made.events.append(dict(event, pid=5000001, dur=event["dur"] / 2,
                                args=dict(event["args"], device=1)))
    said = diagnosed(gputrace, made.write(tmp_path / "t.json"))
    assert [g["device"] for g in said["gpus"]] == [0, 1]
    gaps = said["by_id"]["gaps"]
    assert (gaps["evidence"]["device"], gaps["others"]) == (1, 1)
    assert said["by_id"]["imbalance"]["evidence"]["most_device"] == 0


@pytest.mark.parametrize("end, drains", [(900, False), (500, False),
                                         (980, True)])
def test_wait_that_drains(gputrace, tmp_path, end, drains):
    """Two kernels of 450 us are launched, then a wait: it does harm when both
    are done, not while the second works, nor between the two."""
    made = Made()
    for i in range(6):
        at = 1000 + i * 1000
        made.step(at, 1000)
        made.kernel("a", at + 1, at + 20, 450)
        made.kernel("b", at + 3, at + 510, 450)
        made.call("cudaEventSynchronize", at + 10, end - 10)
    found = diagnosed(gputrace, made.write(tmp_path / "t.json"))["by_id"]
    assert ("sync" in found) == drains
    if drains:      # 970 us each, of which the GPU has nothing to do for 90
        assert found["sync"]["evidence"]["wait_ns"] == 6 * 970000
        assert found["sync"]["saving_ns"] < 6 * 100000


def test_wait_by_line_and_operator(gputrace, tmp_path):
    """Two lines of one range wait in the same call: the longer one's is named,
    with the operator that the program called, not those inside it."""
    made = Made()
    for i in range(6):
        at = 1000 + i * 1000
        made.step(at, 1000)
        made.kernel("a", at + 1, at + 5, 300)
        made.slice("user_annotation", "sample", at + 10, 980)
        made.slice("cpu_op", "aten::item", at + 11, 310)
        made.slice("cpu_op", "aten::_local_scalar_dense", at + 12, 308)
        made.call("cudaStreamSynchronize", at + 20, 300,
                  line="serve.py:123 sample", stack="cudaStreamSynchronize\n"
                  "serve.py:123 sample\nserve.py:9 main\n")
        made.kernel("b", at + 400, at + 405, 100)
        made.call("cudaStreamSynchronize", at + 410, 100,
                  line="serve.py:99 sample")
    path = made.write(tmp_path / "t.json")
    found = diagnosed(gputrace, path)["by_id"]["sync"]
    assert found["evidence"]["line"] == "serve.py:123 sample"
    assert found["evidence"]["operator"] == "aten::item"
    assert found["evidence"]["stack"].split("\n")[:3] == [
        "cudaStreamSynchronize", "serve.py:123 sample", "serve.py:9 main"]
    assert found["evidence"]["wait_ns"] == 6 * 300000
    said = gputrace("diagnose", path).out
    assert "from serve.py:123 sample" in said
    assert "by the operator aten::item" in said
    assert "cudaStreamSynchronize < serve.py:123 sample < serve.py:9 main" \
        in " ".join(said.split())
    assert "stacks" not in said


def test_wait_without_a_line(gputrace, tmp_path):
    """What would name it is told."""
    made = Made()
    for i in range(6):
        at = 1000 + i * 1000
        made.step(at, 1000)
        made.kernel("a", at + 1, at + 5, 300)
        made.call("cudaStreamSynchronize", at + 20, 300)
    path = made.write(tmp_path / "t.json")
    found = diagnosed(gputrace, path)["by_id"]["sync"]
    assert found["evidence"]["line"] == found["evidence"]["operator"] == ""
    assert "--trace cuda,nvtx,stacks" in gputrace("diagnose", path).out


def test_what_the_thread_did_meanwhile(gputrace, tmp_path):
    """Rows of the thread that launches, for as long as the GPU idles: 10 steps
    of 1 ms, of which 600 us are idle. Another thread's do not count."""
    made = Made()
    for i in range(10):
        at = 1000 + i * 1000
        made.step(at, 1000)
        made.kernel("a", at + 600, at + 605, 395)
        for tid, name, start, dur in [
                (1, "Running", 0, 100), (1, "Sleeping", 100, 400),
                (1, "Preempted", 500, 40),
                (1, "Runnable", 540, 10), (1, "Running", 550, 450),
                (9, "Uninterruptible", 0, 1000)]:
            made.slice("thread_state", name, at + start, dur, 1, 5000003,
                       thread=tid)
        made.slice("osrt", "poll", at + 100, 380, 1, 5000004, thread=1)
        made.slice("osrt", "read", at + 110, 20, 1, 5000004, thread=1)
        made.slice("osrt", "write", at + 490, 5, 1, 5000004, thread=1)
    path = made.write(tmp_path / "t.json")
    found = diagnosed(gputrace, path)["by_id"]["gaps"]["evidence"]
    # The first gap begins with the first step, the others end at + 605; one
    # more is the last step's end.
    assert found["thread_running_ns"] == 10 * (100 + 55) * 1000
    assert found["thread_preempted_ns"] == 10 * 50000
    assert (found["blocked_in"], found["blocked_ns"]) == ("poll", 10 * 380000)
    said = " ".join(gputrace("diagnose", path).out.split())
    assert "Sleeping 400 us, Running 155 us, Preempted 40.0 us" in said
    assert "blocked in: poll 380 us, write 5.00 us" in said
    assert "had no CPU for 50.0 us a step" in said
    assert "Uninterruptible" not in said
    assert "read 20" not in said and ", read" not in said


def test_a_container_that_is_throttled(gputrace, tmp_path):
    """Counters inside the window count, one behind it does not."""
    made = steady(work_us=300)
    for at, ms, periods in [(500, 1, 1), (2000, 12.5, 2), (3000, 0, 0),
                            (4000, 7.5, 1), (900000, 5, 1)]:
        made.events.append({
            "ph": "C", "name": "container CPU", "pid": 5200000, "ts": at,
            "args": {"quota %": 200, "throttled ms": ms,
                     "throttled periods": periods}})
    path = made.write(tmp_path / "t.json")
    found = diagnosed(gputrace, path)["by_id"]["gaps"]["evidence"]
    assert found["throttled_periods"] == 3
    assert found["throttled_ns"] == 20000000
    assert "raise the container's CPU quota" in " ".join(
        gputrace("diagnose", path).out.split())


def test_nodes_of_a_graph(gputrace, tmp_path):
    """Gaps between nodes are no want of launches, also while the call that
    launched them still runs."""
    made = Made()
    for i in range(6):
        at = 1000 + i * 1000
        made.step(at, 1000)
        made.call("cudaGraphLaunch", at, 990)
        for k in range(20):
            made.work("n%d" % k, at + 10 + k * 48, 40,
                      **{"graph node id": k + 1})
    evidence = diagnosed(gputrace, made.write(tmp_path / "t.json"))[
        "by_id"]["gaps"]["evidence"]
    assert evidence["queued_ns"] == 6 * 19 * 8000
    assert evidence["launch_ns"] == 6 * (10000 + 38000)


def test_times_of_files_with_other_bases(gputrace, tmp_path):
    """Places are those of the file that has them, waits of its process."""
    calm = steady(900).write(tmp_path / "a.json", base=5 * 10 ** 9)
    made = steady(300)
    for i in range(6):
        made.call("cudaDeviceSynchronize", 1000 + i * 1000 + 10, 900)
    idle = made.write(tmp_path / "b.json", base=7 * 10 ** 9)
    found = diagnosed(gputrace, calm, idle)["by_id"]
    for name in ("gaps", "sync"):
        assert found[name]["evidence"]["file"] == str(idle)
        for place in found[name]["evidence"]["places"]:
            assert 10 ** 6 <= place["ts_ns"] <= 7 * 10 ** 6
    assert found["sync"]["others"] == 0


def test_waits_of_another_process(gputrace, tmp_path):
    """Two ranks beside each other, the first one waits."""
    paths = []
    for rank in range(2):
        made = steady(300)
        made.rank = rank
        for i in range(6 * (not rank)):
            made.call("cudaDeviceSynchronize", 1000 + i * 1000 + 10, 900)
        paths.append(made.write(tmp_path / ("r%d.json" % rank)))
    sync = diagnosed(gputrace, *paths)["by_id"]["sync"]
    assert (sync["evidence"]["file"], sync["others"]) == (str(paths[0]), 0)


def interrupted(wait=None):
    """Once in eight steps of 1 ms the thread is late by 5 ms, in a wait or
    between two launches."""
    made = Made()
    at = 1000
    for i in range(8):
        late = 5000 if i == 5 else 0
        made.step(at, 1000 + late)
        for k in range(15):
            made.kernel("abcde"[k % 5], at + k, at + 10 + k * 60, 60)
        if wait and late:
            made.call(wait, at + 16, late + 900)
        made.kernel("last", at + 18 + late * 1.18, at + 940 + late, 50)
        at += 1000 + late
    return made


def test_what_happens_once_is_no_finding(gputrace, tmp_path):
    for wait in (None, "cudaStreamSynchronize"):
        path = interrupted(wait).write(tmp_path / "t.json")
        said = diagnosed(gputrace, path)
        assert list(said["by_id"]) == ["gaps"]
        assert 5e6 < said["by_id"]["gaps"]["evidence"]["gpu_idle_ns"] < 6e6
    assert "interrupts the thread" in " ".join(gputrace(
        "diagnose", interrupted().write(path)).out.split())


def test_copies(gputrace, tmp_path):
    """A pageable and a synchronous copy a step, 100 us each."""
    made = steady(700)
    for i in range(6):
        at = 1000 + i * 1000
        made.call("cudaMemcpyAsync", at + 700, 100)
        made.work("Memcpy HtoD (Pageable -> Device)", at + 720, 80,
                  "gpu_memcpy", bytes=1000)
        made.call("cudaMemcpy", at + 810, 90)
        made.work("Memcpy DtoH (Device -> Pinned)", at + 830, 60,
                  "gpu_memcpy", bytes=500)
    copies = diagnosed(gputrace, made.write(tmp_path / "t.json"))[
        "by_id"]["copies"]["evidence"]
    assert (copies["pageable"], copies["blocking"]) == (6, 6)
    assert copies["bytes"] == 6 * 1500
    assert copies["gpu_ns"] == 6 * 140000
    assert copies["call_ns"] == 6 * 190000


@pytest.mark.parametrize("between", [None, "cudaStreamWaitEvent"])
def test_streams_that_take_turns(gputrace, tmp_path, between):
    """The second stream's 400 us wait for the first one's 500, unless an
    event says that they must."""
    made = Made()
    for i in range(6):
        at = 1000 + i * 1000
        made.step(at, 1000)
        made.kernel("a", at, at + 10, 500)
        if between:
            made.call(between, at + 2, 1)
        made.kernel("b", at + 4, at + 511, 400, stream=13)
    found = diagnosed(gputrace, made.write(tmp_path / "t.json"))["by_id"]
    assert ("serialised" in found) == (not between)
    if not between:
        assert found["serialised"]["evidence"]["count"] == 6
        assert found["serialised"]["saving_ns"] == 6 * 400000


def test_warmup(gputrace, tmp_path):
    made = Made()
    at = 1000
    for i in range(10):
        length = 5000 if i < 2 else 1000
        made.step(at, length)
        made.kernel("a", at + 1, at + 5, length - 10)
        at += length
    said = diagnosed(gputrace, made.write(tmp_path / "t.json"))
    warm = said["by_id"]["warmup"]
    assert warm["evidence"]["steps"] == 2
    assert warm["evidence"]["warmup_ns"] == 10000000
    assert said["gpus"][0]["steps"] == 8
    assert said["gpus"][0]["window_ns"] == 8000000


def test_imbalance(gputrace, tmp_path):
    """Three ranks compute 900, 600 and 600 us a step; the last one waits for
    the others in a kernel of NCCL."""
    paths = []
    for rank, work in enumerate((600, 900, 600)):
        made = steady(work)
        made.rank = rank
        for i in range(6 * (rank == 2)):
            at = 1000 + i * 1000
            made.kernel("ncclDevKernel_AllReduce", at + 5, at + 620, 300)
        paths.append(made.write(tmp_path / ("rank%d.json" % rank)))
    said = diagnosed(gputrace, *paths)
    found = said["by_id"]["imbalance"]
    assert found["evidence"]["most_rank"] == 1
    assert found["evidence"]["most_ns"] == 900000
    assert found["evidence"]["least_ns"] == 600000
    assert found["saving_per_step_ns"] == 200000
    assert "imbalance" not in diagnosed(gputrace, paths[0], paths[2])["by_id"]


def test_graphs_as_a_whole(gputrace, tmp_path):
    made = steady()
    made.call("cudaGraphLaunch", 3990, 5)
    made.work("CUDA graph 3", 4915, 80, "cuda_graph")
    found = diagnosed(gputrace, made.write(tmp_path / "t.json"))["by_id"]
    assert found["graphs"]["evidence"]["total_ns"] == 80000
    assert found["graphs"]["severity"] == "info"


def test_order_and_empty_processes_change_nothing(gputrace, tmp_path):
    path = tmp_path / "t.json"
    with gzip.open(DATA / "h200_torch_eager.json.gz") as file:
        trace = json.load(file)
    said = []
    for turn in range(3):
        path.write_text(json.dumps(trace))
        said.append(gputrace("diagnose", "-f", "json", path).out)
        random.Random(turn).shuffle(trace["traceEvents"])
        trace["traceEvents"].append({"ph": "M", "name": "process_name",
                                     "pid": 99 + turn, "tid": 1,
                                     "args": {"name": "nothing"}})
    assert said[0] == said[1] == said[2]


def test_h200_graph_saves_what_was_told(gputrace):
    """A real model on a real GPU, eager and as a graph."""
    eager = diagnosed(gputrace, DATA / "h200_torch_eager.json.gz")
    graph = diagnosed(gputrace, DATA / "h200_torch_graph.json.gz")
    step = [s["gpus"][0]["window_ns"] / s["gpus"][0]["steps"]
            for s in (eager, graph)]
    told = eager["by_id"]["launch_bound"]["saving_per_step_ns"]
    assert abs(told - (step[0] - step[1])) < 0.2 * (step[0] - step[1])
    assert graph["by_id"]["sync"]["evidence"]["range"] == "sample"


def test_real_traces(gputrace, real_trace):
    """Whatever is in them: idle time is as computed here."""
    said = diagnosed(gputrace, real_trace)
    gaps = said["by_id"]["gaps"]["evidence"]
    trace = Trace(real_trace)
    work = [e for e in trace.events if e.get("cat") in GPU_WORK]
    assert gaps["gpu_busy_ns"] <= busy(
        [(e["start"], e["end"]) for e in work],
        min(e["start"] for e in work), max(e["end"] for e in work))
    assert gaps["gpu_busy_ns"] + gaps["gpu_idle_ns"] == gaps["window_ns"]
    if real_trace.name == "kineto_h200_cuda.json.gz":
        # without ranges: three tokens of 24 layers of 11 kernels, and 3
        assert (said["gpus"][0]["step_source"], said["gpus"][0]["steps"]) \
            == ("kernels", 3)


def test_exit_status_and_options(gputrace, tmp_path):
    path = DATA / "h200_torch_eager.json.gz"
    for args, status in (([], 0), (["--fail-on", "critical"], 1),
                         (["--fail-on", "info"], 1),
                         (["--fail-on", "x"], 2), (["--idle", "101"], 2),
                         (["--idle", "-1"], 2), (["--tiny", "1e"], 2),
                         (["--format", "csv"], 2), (["--step", ""], 2),
                         (["--step", "nothing"], 3),
                         (["--step", "forward"], 0)):
        done = gputrace("diagnose", *args, path)
        assert done.status == status, (args, done.err)
        assert bool(done.out) == (status < 2)
    quiet = diagnosed(gputrace, path, "--idle", "99", "--launch-bound=99%",
                      "--tiny-saving", "99")
    assert quiet["findings"] == []
    broken = tmp_path / "broken.json"
    broken.write_text('{"traceEvents":[{"ph":"X"},')
    done = gputrace("diagnose", broken)
    assert (done.status, done.out) == (3, "")
    assert re.search(r"byte \d+", done.err)
    broken.write_text('{"traceEvents":[]}')
    assert "nothing to diagnose" in gputrace("diagnose", broken).out


def test_hostile_names_and_times(gputrace, tmp_path):
    """Names do not reach the terminal as they are, odd events do no harm."""
    made = steady(300)
    evil = "step\x1b[2J\n0. all is well\x7f\x9b\u202e%s%n" + "\u00e9\u20ac" * 99
    for i, event in enumerate(made.events):
        if event.get("cat") == "kernel":
            event["name"] = evil
            event["dur"] = [0, 1e300, 250, "x", -3][i % 5]
    made.events[0]["args"]["name"] = evil
    made.slice("user_annotation", evil, 1000, 9000)
    made.slice("cuda_runtime", evil, 5, 2 ** 62, correlation=2 ** 63)
    made.slice("kernel", evil, 0, 10, device=-5, correlation="a")
    path = made.write(tmp_path / "t.json")
    done = gputrace("diagnose", path)
    assert done.status == 0 and "left out" in done.err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.out)
    assert "\n0. all" not in done.out
    diagnosed(gputrace, path)
