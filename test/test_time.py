# SPDX-License-Identifier: MIT
"""Clocks that step, jump, stand and drift (shim/clocks, SIM_CLOCK_*), and
times that are none (SIM_TIMES): what cannot be true is never in the file, and
what is measured is never changed."""
import pytest
from tracing import BUILD, LIBRARY, Trace, judge, ns, run, traced

S, MS = 10 ** 9, 10 ** 6
SHIM = "%s:%s" % (BUILD / "shim" / "clocks.so", LIBRARY)


# A slow program: some 1,000 launches a second.
DECODE = ("decode", "--kernels", 20, "--launch-us", 1000, "--seconds")


def span(trace):
    times = [t for e in trace.events if "ts" in e for t in (e["start"],
                                                           e["end"])]
    return max(times) - min(times)


def pairs(trace):
    """[(ours, REALTIME, BOOTTIME)] since the first reading"""
    found = trace.own["clock_pairs"]
    return [tuple(x - y for x, y in zip(pair, found[0])) for pair in found]


@pytest.mark.parametrize("step", [3600, -3600, -1])
def test_the_clock_is_set(tmp_path, step):
    """By hand, by a time server, or by a leap second."""
    done, trace = traced(tmp_path, *DECODE, 1.2,
                         LD_PRELOAD=SHIM, SHIM_REALTIME_S=step,
                         SHIM_AT_MS=500, GPUTRACE_FLUSH="100ms")
    assert done.out.startswith("steps ") and trace.losses() == {}
    assert span(trace) < 30 * S
    assert len(trace.arrows()) == len(trace.gpu_work())
    ours, realtime, boottime = pairs(trace)[-1]
    assert abs(ours - boottime) < 5 * MS
    assert abs(realtime - ours - step * S) < 5 * MS


@pytest.mark.parametrize("source, at_ms", [
    ("tsc", 50), ("tsc", 600), ("hpet", 600)])
def test_the_machine_is_suspended(tmp_path, source, at_ms):
    """An hour passes in which nothing runs; from then on each second is one
    again, by the counter or without."""
    _, trace = traced(tmp_path, *DECODE, 2.5, LD_PRELOAD=SHIM,
                      SHIM_BOOTTIME_S=3600, SHIM_AT_MS=at_ms,
                      SHIM_CLOCKSOURCE=source, GPUTRACE_FLUSH="100ms")
    assert trace.losses() == {}
    found = pairs(trace)
    # It is noticed when the clock is looked after, each second.  (It may be
    # over before the first reading.)
    after = next((p[2] for p in found if p[2] > 3600 * S), 0) + 1300 * MS
    late = [p for p in found if p[2] > after]
    assert len(late) > 1
    assert all(abs(ours - boottime) < 5 * MS for ours, _, boottime in late)
    assert all(a[0] <= b[0] for a, b in zip(found, found[1:]))
    long = [r for r in trace.ranges("step") if r["end"] - r["start"] > 2 * S]
    assert len(long) <= 1


@pytest.mark.parametrize("step, cause", [
    (3600, "after the present"), (-3600, "before the trace")])
def test_the_clock_is_set_and_cupti_follows(tmp_path, step, cause):
    """Where CUPTI does not take our clock its times are REALTIME's: those
    that cannot be ours are dropped and counted."""
    _, trace = traced(tmp_path, *DECODE, 1.2, LD_PRELOAD=SHIM,
                      SHIM_REALTIME_S=step, SHIM_AT_MS=500,
                      SIM_ERROR="cuptiActivityRegisterTimestampCallback=14")
    assert cause in trace.losses() and span(trace) < 30 * S
    assert trace.slices("kernel") and trace.ranges("step")


HOW = {"zero": {"without time", "unfinished GPU work"},
       "reversed": {"end before start"}, "sentinel": {"after the present"},
       "ones": {"after the present"}, "early": {"before the trace"}}


@pytest.mark.parametrize("how", HOW)
def test_times_that_are_none(tmp_path, how):
    done, trace = traced(tmp_path, "threads", "--threads", 2, "--kernels", 500,
                         SIM_TIMES=how + "@7", SIM_API_TIMES=how + "@11")
    kernels = done.did["gpu"]["kernels"]
    assert len(trace.slices("kernel")) == kernels - kernels // 7
    calls = sum(done.did["api"].values())
    losses = trace.losses()
    assert set(losses) <= HOW[how]
    lost = sum(losses.values()) - kernels // 7
    assert 0 < lost <= calls // 11
    assert span(trace) < 60 * S
    launches = [e for e in trace.api() if e["name"] == "cuLaunchKernel"]
    assert kernels - lost <= len(launches) < kernels


def check_launches(trace):
    """Each kernel that begins before its launch says by how much, has no
    arrow, and is counted; each other one has an arrow.  Returns how many."""
    calls = trace.launches()
    arrows = {(a["pid"], a["tid"], ns(a["ts"])) for a in trace.arrows("f")}
    nr_before = 0
    for kernel in trace.gpu_work():
        before = calls[kernel["args"]["correlation"]]["start"] - \
            kernel["start"]
        has_arrow = (kernel["pid"], kernel["tid"], kernel["start"]) in arrows
        assert kernel["args"].get("before launch ns", 0) == max(before, 0)
        assert has_arrow == (before <= 0)
        nr_before += before > 0
    assert trace.own["before_launch"] == nr_before
    return nr_before


@pytest.mark.parametrize("fault, has_before", [
    (dict(SIM_CLOCK_PPM=200), False), (dict(SIM_CLOCK_PPM=-200), True),
    (dict(SIM_CLOCK_JUMP_MS=-50), True)])
def test_the_device_has_a_clock_of_its_own(tmp_path, fault, has_before):
    done = run(*DECODE, 1.5, GPUTRACE_OUT=tmp_path / "t.json", **fault)
    trace = Trace(tmp_path / "t.json")
    steps = int(done.out.split()[1])
    # One kernel may run when the clock jumps back: it ends before its start.
    across = [{}, {"end before start": 1}] if "SIM_CLOCK_JUMP_MS" in fault \
        else [{}]
    assert len(trace.ranges("step")) == steps and trace.losses() in across
    # each as long as it was: 5 us of the device's, whatever it lasts here
    durations = sorted(k["end"] - k["start"] for k in trace.slices("kernel"))
    assert durations[len(durations) // 2] < 20000
    assert (check_launches(trace) > 0) == has_before
    # The judge takes so much for an error of the clock, which it is.
    found = [l for l in (judge(trace.path) or "").splitlines()
             if " K008 " not in l and " K016 " not in l]
    assert not found, found


def test_a_device_a_minute_ahead(tmp_path):
    """No conversion is so wrong; the rest of the trace must not suffer."""
    done = run(*DECODE, 1.5, SIM_CLOCK_JUMP_MS=3600000,
               GPUTRACE_OUT=tmp_path / "t.json")
    trace = Trace(tmp_path / "t.json")
    assert done.status == 0 and not judge(trace.path), done.err
    assert set(trace.losses()) == {"after the present"}
    assert trace.slices("kernel") and span(trace) < 30 * S
