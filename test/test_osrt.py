# SPDX-License-Identifier: MIT
"""Blocking C library calls (osrt): host/blocking, host/disturbed and
host/results, whose own clock and word the trace is compared with."""
import collections
import json
import os
import shutil
import stat
import subprocess
import time

import pytest
from control import Server
from tracing import BUILD, LIBRARY, SANITIZED, Trace, judge, own_lines, run

OSRT = {"GPUTRACE_TRACE": "cuda,nvtx,osrt"}
MS = 1000000
KINDS = {"read": "pipe", "writev": "pipe", "recv": "socket",
         "readv": "eventfd", "epoll_wait": "eventpoll"}
# Instrumented programs call the sanitizer's, and not those of a version.
plain_only = pytest.mark.skipif(bool(SANITIZED),
                                reason="calls the sanitizer's own")


def osrt(tmp_path, mode, *args, program="blocking", **settings):
    """What the program says, and its trace.  The judge's rules of Kineto know
    no slice of this kind."""
    path = tmp_path / "t.json"
    done = run(program, mode, *args, GPUTRACE_OUT=path, **{**OSRT, **settings})
    assert done.status == 0, done.err
    for profile in ("perfetto", "hta"):
        assert not judge(path, profile=profile)
    return done.did, Trace(path)


def of_thread(trace, tid):
    return [s for s in trace.slices("osrt") if s["args"]["thread"] == tid]


@plain_only
def test_waits(tmp_path):
    """One slice for each, as long as the program's clock says on both sides
    of it; nothing else in that thread takes a millisecond."""
    did, trace = osrt(tmp_path, "waits", GPUTRACE_OSRT_MIN="1ms")
    assert set(did["wrong"].values()) == {0}
    slices = of_thread(trace, did["thread"]["blocked"])
    assert collections.Counter(s["name"] for s in slices) == \
        dict.fromkeys(did["ns"], 1)
    less = []
    for s in slices:
        less.append(did["ns"][s["name"]] - (s["end"] - s["start"]))
        assert s["args"].get("fd kind") == KINDS.get(s["name"])
    # A busy machine may take the CPU away between the two clocks.
    assert min(less) >= 0 and sorted(less)[-3] < MS, less
    by_name = {s["name"]: s["args"] for s in slices}
    assert by_name["read"]["result"] == by_name["recv"]["result"] == 1
    assert by_name["writev"]["result"] == 65536
    assert by_name["pthread_mutex_timedlock"]["result"] == 110
    assert (by_name["sem_timedwait"]["result"],
            by_name["sem_timedwait"]["errno"]) == (-1, 110)
    assert not any("errno" in args for name, args in by_name.items()
                   if name != "sem_timedwait")
    assert by_name["poll"]["fds"] == 1
    assert by_name["pthread_mutex_lock"]["object"] == \
        by_name["pthread_mutex_timedlock"]["object"] != \
        by_name["sem_wait"]["object"]
    ordered = sorted(slices, key=lambda s: s["start"])
    assert all(a["end"] <= b["start"] for a, b in zip(ordered, ordered[1:]))


def row_of(name, times, whole):
    times = sorted(times)
    middle = times[(len(times) - 1) // 2] + times[len(times) // 2]
    return {"name": name, "count": len(times), "total_ns": sum(times),
            "min_ns": times[0], "max_ns": times[-1],
            "avg_ns": (2 * sum(times) // len(times) + 1) // 2,
            "median_ns": (middle + 1) // 2,
            "share": pytest.approx(sum(times) / whole, abs=1e-3)}


@plain_only
def test_report(tmp_path):
    """The table is what the trace's slices add up to; in a window, those
    alone; none is inside of a range here."""
    _, trace = osrt(tmp_path, "waits")
    path = tmp_path / "t.json"

    def rows(*options):
        done = run(BUILD / "gputrace", "report", path, "-f", "json", "-t",
                   "osrt", *options, traced=False)
        assert done.status == 0, done.err
        return json.loads(done.out)["osrt"]

    times = collections.defaultdict(list)
    for s in trace.slices("osrt"):
        times[s["name"]].append(s["end"] - s["start"])
    whole = sum(map(sum, times.values()))
    got = {r["name"]: r for r in rows()}
    assert got.keys() == times.keys() and len(times) > 15
    for name, values in times.items():
        want = row_of(name, values, whole)
        assert {key: got[name][key] for key in want} == want
    assert rows("-F", "range=nothing") == []
    first = min(s["start"] for s in trace.slices() if s["cat"] != "overhead")
    inside = [s for s in trace.slices("osrt")
              if s["end"] > first + 30 * MS and s["start"] < first + 99 * MS]
    assert 3 < len(inside) < len(trace.slices("osrt"))
    assert sum(r["count"]
               for r in rows("-F", "time=30ms..99ms")) == len(inside)


@plain_only
def test_rows_are_beside_their_threads(tmp_path):
    did, trace = osrt(tmp_path, "waits")
    rows = {(s["pid"], s["tid"])
            for s in of_thread(trace, did["thread"]["blocked"])}
    assert len(rows) == 1
    assert trace.labels("thread_name")[rows.pop()] == "blocked osrt"


@plain_only
def test_nothing_below_the_threshold(tmp_path):
    _, trace = osrt(tmp_path, "waits")
    lengths = [s["end"] - s["start"] for s in trace.slices("osrt")]
    assert lengths and min(lengths) >= 1000


@plain_only
def test_what_is_free_is_not_recorded(tmp_path):
    """However low the threshold: it is tried first.  A read has entered the
    kernel, and is."""
    did, trace = osrt(tmp_path, "free", GPUTRACE_OSRT_MIN="1ns",
                      GPUTRACE_BUFFER="1G")
    names = {s["name"] for s in of_thread(trace, did["thread"]["free"])}
    assert did["reads"]["right"] == 20000
    assert names and not names - {"read", "open"}


@pytest.mark.parametrize("settings", [
    {"GPUTRACE_TRACE": "cuda,nvtx"}, {**OSRT, "GPUTRACE_START": "off"}])
def test_off_is_nothing(tmp_path, settings):
    path = tmp_path / "t.json"
    done = run("blocking", "waits", GPUTRACE_OUT=path, **settings)
    assert done.status == 0
    assert set(done.did["wrong"].values()) == {0}
    if path.exists():
        trace = Trace(path)
        assert trace.slices("kernel") and not trace.slices("osrt")
    else:
        assert settings["GPUTRACE_START"] == "off"


@plain_only
def test_our_own_threads_are_not_there(tmp_path):
    """The flush thread waits inside CUPTI for CUPTI's own, which is there."""
    _, trace = osrt(tmp_path, "--steps", 100, program="decode",
                    GPUTRACE_OSRT_MIN="1ns", GPUTRACE_FLUSH="50ms")
    rows = [n for n in trace.labels("thread_name").values()
            if n.endswith(" osrt")]
    assert "decode osrt" in rows and "cupti-sim osrt" in rows
    assert not [n for n in rows if n.startswith("gputrace")]


def results(tmp_path, name, **settings):
    folder = tmp_path / name
    folder.mkdir()
    done = run("results", cwd=folder, GPUTRACE_OUT=tmp_path / (name + ".json"),
               **settings)
    assert done.status == 0, done.err
    return done.out.splitlines()


@plain_only
def test_results_and_errno_are_the_same(tmp_path):
    """Of every call, those that fail above all, each recorded."""
    bare = results(tmp_path, "bare", traced=False)
    assert len(bare) > 500 and len([l for l in bare if " = -1," in l]) > 50
    assert results(tmp_path, "off") == bare
    assert results(tmp_path, "on", **OSRT, GPUTRACE_OSRT_MIN="1ns") == bare
    names = Trace(tmp_path / "on.json").count("osrt")
    assert len(names) > 60


@plain_only
def test_cancelled_threads(tmp_path):
    """As without the library: where they wait, and in a sem_wait that need
    not wait; the mutex of a condition is theirs when they clean up."""
    bare = run("disturbed", "cancel", traced=False).did
    did, _ = osrt(tmp_path, "cancel", program="disturbed",
                  GPUTRACE_OSRT_MIN="1ns")
    assert bare["cancelled"]["threads"] == 160
    for section in ("cancelled", "cleaned", "full", "lock", "went on"):
        assert did[section] == bare[section]


@plain_only
def test_two_hundred_threads(tmp_path):
    did, trace = osrt(tmp_path, "crowd", program="disturbed")
    assert did["crowd"]["counted"] == 4000
    assert trace.losses() == {}
    waits = [s for s in trace.slices("osrt")
             if s["name"] == "pthread_barrier_wait"]
    assert len({s["args"]["thread"] for s in waits}) >= 190
    assert len({s["args"]["object"] for s in waits}) == 1
    assert len({s["tid"] for s in waits}) == \
        len({s["args"]["thread"] for s in waits})


@pytest.mark.skipif("thread" in SANITIZED, reason="holds signals back")
def test_signal_handlers(tmp_path):
    did, trace = osrt(tmp_path, "signals", program="disturbed",
                      GPUTRACE_OSRT_MIN="1ns")
    assert did["posted"]["times"] == 400
    assert did["jumps"]["out of read"] == 1
    if not SANITIZED:
        names = trace.count("osrt")
        assert names["poll"] > 100 and names["nanosleep"] > 100


def test_a_window_that_opens_late(tmp_path):
    """Beside a thread that is in one call after another."""
    with Server(tmp_path) as server:
        server.client().close()
        assert server.ask("start trace=osrt")["ok"]
        time.sleep(0.3)
        assert server.ask("stop")["ok"]
    assert Trace(tmp_path / "t.json").count("osrt")["clock_nanosleep"] > 5


def test_children(tmp_path):
    """What the child of a vfork waits for on its parent's memory is not the
    parent's; it executes, and its status arrives."""
    did, trace = osrt(tmp_path, "vfork", program="disturbed")
    assert did["status"] == {"vfork": 5, "fork": 20, "spawn": 7, "system": 8}
    if not SANITIZED:
        names = collections.Counter(
            s["name"] for s in of_thread(trace, did["thread"]["main"]))
        assert names["waitpid"] >= 21 and not names["read"]


@pytest.fixture
def driver():
    """A device of the driver's name, of the null device's kind."""
    path = "/dev/nvidia-gputrace-test"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError as e:
        pytest.skip("no device can be made: %s" % e)
    yield path
    os.unlink(path)


@plain_only
def test_ioctl_of_the_driver(tmp_path, driver):
    """And of nothing else."""
    did, trace = osrt(tmp_path, "ioctl", driver, GPUTRACE_OSRT_MIN="1ns")
    assert did["ioctl"]["ENOTTY"] == 1000
    calls = [s for s in trace.slices("osrt") if s["name"] == "ioctl"]
    assert len(calls) == 1000
    assert all(s["args"]["device"] == driver and
               s["args"]["request"] == 0x541b and
               s["args"]["errno"] == 25 for s in calls)
    did, trace = osrt(tmp_path, "ioctl", "/dev/zero",
                      GPUTRACE_OSRT_MIN="1ns")
    assert did["ioctl"]["ENOTTY"] == 1000
    assert not [s for s in trace.slices("osrt") if s["name"] == "ioctl"]


@plain_only
def test_a_flood_leaves_room_for_ranges(tmp_path):
    """More calls than the ring has room for: what is lost is counted, and is
    none of the ranges around them."""
    did, trace = osrt(tmp_path, "flood", GPUTRACE_OSRT_MIN="1ns")
    assert did["flood"] == {"reads": 200000, "ranges": 200}
    ranges = trace.ranges("flood")
    assert len(ranges) == 200 and not any("open" in r["args"] for r in ranges)
    lost = trace.losses()
    assert lost["ring full"] > 1000 and len(lost) == 1
    reads = [s for s in trace.slices("osrt") if s["name"] == "read"]
    assert len(reads) + lost["ring full"] >= 200000


@plain_only
@pytest.mark.parametrize("more", [{}, {
    "GPUTRACE_TRACE": "cuda,nvtx,osrt,stacks", "GPUTRACE_STACK_MIN": "1us"}])
def test_inside_an_allocator(tmp_path, more):
    """A lock of the allocator's is waited for, and then recorded with it held
    and no memory to be had: it hangs if that needs any."""
    shim = BUILD / "shim" / "allocator.so"
    did, trace = osrt(tmp_path, "malloc", program="disturbed", **more,
                      LD_PRELOAD="%s:%s" % (LIBRARY, shim))
    assert did["malloc"]["threads"] == 8
    assert set(trace.losses()) <= {"no thread state"}
    assert trace.count("osrt")["pthread_mutex_lock"]


@plain_only
@pytest.mark.parametrize("order", ["{0}:{1}", "{1}:{0}"])
def test_another_preload_that_wraps_them(tmp_path, order):
    shim = BUILD / "shim" / "between.so"
    path = tmp_path / "t.json"
    done = run("blocking", "waits", GPUTRACE_OUT=path, **OSRT,
               LD_PRELOAD=order.format(LIBRARY, shim))
    assert done.status == 0, done.err
    assert set(done.did["wrong"].values()) == {0}
    line, = [l for l in done.err.splitlines() if l.startswith("between: ")]
    assert int(line.split()[1]) and int(line.split()[3])
    assert Trace(path).count("osrt")["recv"] == 1


@plain_only
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_program_with_a_sanitizer(tmp_path, sanitizer):
    """It has its own read() and the like, and wants to be first."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    source = tmp_path / "p.c"
    source.write_text("""
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *run(void *p)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		++*(int *)p;
		pthread_mutex_unlock(&lock);
		usleep(1);
	}
	return NULL;
}
int main(void)
{
	int (*init)(unsigned) = (int (*)(unsigned))
		dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
	pthread_t a, b;
	int *n = calloc(1, sizeof *n), wrong;

	init(0);
	pthread_create(&a, NULL, run, n);
	pthread_create(&b, NULL, run, n);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	wrong = *n != 2000;
	free(n);
	return wrong;
}
""")
    program = tmp_path / "p"
    built = subprocess.run(
        ["gcc", "-g", "-fsanitize=" + sanitizer, "-o", program, source, "-ldl"],
        capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip("no sanitizer: " + built.stderr[-200:])
    done = run(program, GPUTRACE_OUT=tmp_path / "t.json", **OSRT,
               ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0",
               TSAN_OPTIONS="report_bugs=0")
    if "unexpected memory mapping" in done.err:
        pytest.skip("the machine's address space is not the sanitizer's")
    assert done.status == 0, done.err
    assert "Sanitizer" not in done.err, done.err
    assert (tmp_path / "t.json").exists()


@pytest.mark.parametrize("way", ["dlopen", "injection"])
def test_too_late_is_said(tmp_path, way):
    """The program's calls are bound to the C library's by then."""
    path = tmp_path / "t.json"
    if way == "dlopen":
        done = run("late", LIBRARY, GPUTRACE_OUT=path, traced=False, **OSRT)
    else:
        done = run("decode", GPUTRACE_OUT=path, traced=False, **OSRT,
                   CUDA_INJECTION64_PATH=LIBRARY)
    assert done.status == 0, done.err
    said = [l for l in own_lines(done.err) if "osrt" in l]
    assert len(said) == 1 and "LD_PRELOAD" in said[0]
    trace = Trace(path)
    assert trace.slices("kernel") and not trace.slices("osrt")
