# SPDX-License-Identifier: MIT
"""Programs that do to their guest what programs do, and NVTX where it is
awkward for a recorder.  The other way round: what the guest must not do."""
import collections
import json
import os
import subprocess
import time

import pytest
from tracing import (BUILD, SANITIZED, LIBRARY, Trace, environment, judge, ns,
                     own_lines, run, traced)

HOST = BUILD / "host"
MS = 1000000


# These programs race by design (fork beside threads, descriptors of others
# closed, threads that run on at the end), or their time is what is tested.
not_under_tsan = pytest.mark.skipif(
    "thread" in SANITIZED, reason="races by design, or measures time")


# ---- The program must not be harmed ----

@pytest.mark.parametrize("log", ["debug", "debug:{0}/log"])
def test_nobody_reads_what_we_say(tmp_path, log):
    """A pipe without a reader: SIGPIPE would end the program."""
    read, write = os.pipe()
    os.close(read)
    if ":" in log:
        os.mkfifo(tmp_path / "log")
    try:
        done = subprocess.run(
            [HOST / "decode", "--steps", "3"], stdout=subprocess.PIPE,
            stderr=write, timeout=30, check=False, env=environment(
                GPUTRACE_OUT=tmp_path / "t.json",
                GPUTRACE_LOG=log.format(tmp_path)))
    finally:
        os.close(write)
    assert (done.returncode, done.stdout) == (0, b"steps 3\n")
    assert len(Trace(tmp_path / "t.json").ranges("step")) == 3


@pytest.mark.skipif(bool(SANITIZED), reason="a shell without the sanitizer")
def test_a_log_file_that_is_full(tmp_path):
    """SIGXFSZ would end the program."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 4096)
    done = run("/bin/sh", "-c", "ulimit -f 4; exec %s --steps 3" %
               (HOST / "decode"), GPUTRACE_OUT=tmp_path / "no" / "t.json",
               GPUTRACE_LOG="debug:%s" % log)
    assert (done.status, done.out) == (0, "steps 3\n")


@pytest.mark.skipif(bool(SANITIZED), reason="forks beside threads")
def test_children(tmp_path):
    """fork and a bare clone: they end as they would, at once, and the file is
    the parent's."""
    done, trace = traced(tmp_path, "hostile", "children")
    assert done.did["children"]["slowest ms"] < 500
    assert len(own_lines(done.err)) == 1, done.err
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert not trace.ranges("in a child")


@not_under_tsan
def test_threads_that_go_on_at_the_end(tmp_path):
    start = time.monotonic()
    done = run("hostile", "exit", GPUTRACE_OUT=tmp_path / "t.json")
    assert done.status == 0 and time.monotonic() - start < 5, done.err
    trace = Trace(tmp_path / "t.json")
    assert not judge(trace.path), judge(trace.path)
    assert len(trace.ranges("never closed")) == 50
    assert trace.ranges("for ever")


def test_the_end_with_a_hung_kernel(tmp_path):
    start = time.monotonic()
    done, trace = traced(tmp_path, "hostile", "hung")
    assert time.monotonic() - start < 4, done.err
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert trace.losses() == {"unfinished GPU work": 1}
    assert ["paged_attention" in n for n in trace.own["unfinished"]] == [True]


def test_errno_is_kept(tmp_path):
    assert run("hostile", "errno", traced=False).status == 0
    traced(tmp_path, "hostile", "errno")
    traced(tmp_path, "hostile", "errno", GPUTRACE_START="profiler-api")


def test_signal_handlers(tmp_path):
    """What a handler says inside one of our calls is dropped and counted;
    what it interrupted stays whole."""
    done, trace = traced(tmp_path, "hostile", "signals")
    inner = trace.ranges("inner")
    outer = {(r["tid"], r["start"]): r for r in trace.ranges("interrupted")}
    lost = trace.losses().get("ring full", 0)
    assert len(outer) <= done.did["ranges"]["interrupted"]
    assert lost or len(outer) == done.did["ranges"]["interrupted"]
    assert inner


@pytest.mark.skipif(bool(SANITIZED), reason="sanitizers need more stack")
def test_small_stacks(tmp_path):
    done, trace = traced(tmp_path, "hostile", "small-stack")
    assert trace.count("user_annotation")["wide"] == \
        done.did["ranges"]["wide"]


@pytest.mark.parametrize("version", [20, 26, 130000])
def test_more_threads_than_buffers(tmp_path, version):
    """Refused a buffer, CUPTI before 12.9 ends the program."""
    done, trace = traced(tmp_path, "threads", "--threads", 400, "--kernels",
                         50, GPUTRACE_BUFFER="16M", SIM_CUPTI_VERSION=version)
    kernels = len(trace.slices("kernel"))
    assert kernels == done.did["gpu"]["kernels"] or \
        trace.losses()["activity buffers full"]


# ---- One line where something is wrong ----

def test_no_memory_for_buffers(tmp_path):
    done = run("decode", "--steps", 3, GPUTRACE_OUT=tmp_path / "t.json",
               GPUTRACE_BUFFER="500T")
    assert (done.status, done.out) == (0, "steps 3\n")
    assert len(own_lines(done.err)) == 1 and "GPUTRACE_BUFFER" in done.err
    assert not list(tmp_path.iterdir())


def test_preloaded_by_another_name(tmp_path):
    other = tmp_path / "other-name.so"
    other.symlink_to(LIBRARY)
    run("decode", LD_PRELOAD=other, GPUTRACE_OUT=tmp_path / "t.json")
    assert Trace(tmp_path / "t.json").slices("kernel")


# ---- The file ----

def test_the_program_changes_its_folder(tmp_path):
    (tmp_path / "100%p").mkdir()
    (tmp_path / "elsewhere").mkdir()
    done = run("hostile", "chdir", tmp_path / "elsewhere",
               cwd=tmp_path / "100%p", GPUTRACE_OUT="t.json",
               GPUTRACE_FLUSH="50ms", GPUTRACE_LOG="info:log")
    assert done.status == 0, done.err
    assert not list((tmp_path / "elsewhere").iterdir())
    assert sorted(p.name for p in (tmp_path / "100%p").iterdir()) == \
        ["log", "t.json"]
    trace = Trace(tmp_path / "100%p" / "t.json")
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]


@not_under_tsan
@pytest.mark.parametrize("flush", ["10s", "200ms"])
def test_closed_descriptors(tmp_path, flush):
    done = run("hostile", "close-all", tmp_path / "mine",
               GPUTRACE_OUT=tmp_path / "t.json", GPUTRACE_FLUSH=flush)
    assert done.status == 0, done.out
    assert (tmp_path / "mine").stat().st_size == 0
    text = (tmp_path / "t.json").read_text()
    assert json.loads(text)["gputrace"]["finished"]
    assert text.count('"cat":"kernel"') == done.did["gpu"]["kernels"]


def test_a_pattern_never_overwrites_a_part(tmp_path):
    def record():
        before = set(tmp_path.iterdir())
        run("decode", "--steps", 200, GPUTRACE_OUT=tmp_path / "%n.json",
            GPUTRACE_MAX_SIZE="1M", GPUTRACE_KEEP=2, GPUTRACE_FLUSH="20ms")
        return set(tmp_path.iterdir()) - before

    def run_ids(paths):
        return {p.name: Trace(p).own["run_id"] for p in paths}

    first = record()
    ids = run_ids(first)
    assert len(first) == 2 and "decode.json" not in ids
    second = record()
    assert len(second) == 2
    assert run_ids(first) == ids
    assert not set(run_ids(second).values()) & set(ids.values())


def test_a_file_of_somebody_in_our_place(tmp_path):
    path = tmp_path / "t.json"
    with subprocess.Popen(
            [HOST / "decode", "--seconds", "2"], stderr=subprocess.PIPE,
            stdout=subprocess.PIPE, env=environment(
                GPUTRACE_OUT=path, GPUTRACE_FLUSH="50ms")) as process:
        while not path.exists():
            time.sleep(0.02)
        path.rename(tmp_path / "moved.json")
        path.write_text("mine")
        err = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 0
    assert path.read_text() == "mine"
    assert Trace(tmp_path / "moved.json").own["pid"] == process.pid
    assert sorted(p.name for p in tmp_path.iterdir()) == \
        ["moved.json", "t.json"]
    assert any("removed or replaced" in l for l in own_lines(err)), err


def test_many_at_once_with_one_name(tmp_path):
    """Each has its file, whoever comes first."""
    runs = [subprocess.Popen(
        [HOST / "decode", "--steps", "3"], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, env=environment(
            GPUTRACE_OUT=tmp_path / "t.json", GPUTRACE_FLUSH="5ms"))
            for _ in range(16)]
    said = [r.communicate(timeout=60)[1].decode() for r in runs]
    assert [r.returncode for r in runs] == [0] * 16
    assert all(len(own_lines(s)) == 1 and "0 lost" in s for s in said), said
    for path in tmp_path.iterdir():
        assert len(Trace(path).ranges("step")) == 3


# ---- NVTX ----

def ranges_of(tmp_path, *args, **settings):
    done = run("ranges", *args, GPUTRACE_OUT=tmp_path / "t.json", **settings)
    assert done.status == 0, done.err
    trace = Trace(tmp_path / "t.json")
    assert not judge(trace.path), judge(trace.path)
    assert trace.losses() == {}
    return done, trace


def test_many_open_ranges_enter_a_window(tmp_path):
    _, trace = ranges_of(tmp_path, "started", 2000,
                         GPUTRACE_START="profiler-api")
    names = trace.count("user_annotation")
    assert names == {"s%d" % i: 1 for i in range(2000)}
    assert not any("open" in r["args"] for r in trace.ranges())


def test_a_range_that_ends_when_the_window_opens(tmp_path):
    _, trace = ranges_of(tmp_path, "at-once", 5,
                         GPUTRACE_START="profiler-api")
    assert trace.count("user_annotation") == {"s%d" % i: 1 for i in range(5)}
    for r in trace.ranges():
        assert MS <= r["end"] - r["start"] < 50 * MS


@not_under_tsan
def test_short_windows_one_after_another(tmp_path):
    """Each range that crosses a window has the window's own edges."""
    done, trace = ranges_of(tmp_path, "windows", 60,
                            GPUTRACE_START="profiler-api")
    pair = trace.own["clock_pairs"][0]
    at = {k: [t - pair[2] + pair[0] for t in v]
          for k, v in done.did["windows"].items()}
    outer = sorted(trace.ranges("outer"), key=lambda r: r["start"])
    assert trace.count("user_annotation") == collections.Counter(
        {"w%d" % i: 1 for i in range(60)}, outer=60)
    for i in range(60):
        # The clock's own promise is 50 us (unit/clock_test).
        opening, opened, closing, closed = at["w%d" % i]
        for r in trace.ranges("w%d" % i) + [outer[i]]:
            assert opening - 50000 <= r["start"] <= opened + 50000
            assert closing - 50000 <= r["end"] <= closed + 50000
        marks = [ns(m["ts"]) for m in trace.marks()
                 if m["name"] == "w%d" % i]
        assert len(marks) == 2


def test_ranges_that_another_thread_ends(tmp_path):
    _, trace = ranges_of(tmp_path, "elsewhere", 3000)
    assert trace.count("user_annotation") == \
        {"s%d" % i: 1 for i in range(3000)}
    assert not any("open" in r["args"] for r in trace.ranges())


@pytest.mark.parametrize("domains, wanted", [("none", 0), ("default", 50)])
def test_domains_of_started_ranges(tmp_path, domains, wanted):
    """The choice of domains holds for ranges from before the window, too."""
    path = tmp_path / "t.json"
    run("ranges", "started", 50, GPUTRACE_START="profiler-api",
        GPUTRACE_NVTX_DOMAINS=domains, GPUTRACE_OUT=path)
    assert len(Trace(path).ranges() if path.exists() else []) == wanted


def test_started_ranges_of_one_domain_end(tmp_path):
    """Their end names no domain: it must not be taken for another's."""
    _, trace = traced(tmp_path, "nvtx_all", GPUTRACE_NVTX_DOMAINS="alpha*,*a*")
    open_ones = [r["name"] for r in trace.ranges() if "open" in r["args"]]
    everything = traced(tmp_path, "nvtx_all")[1]
    assert set(open_ones) <= {r["name"] for r in everything.ranges()
                              if "open" in r["args"]}


def test_a_category_named_again_and_again(tmp_path):
    _, trace = ranges_of(tmp_path, "categories", 400000)
    mark, = trace.marks()
    assert mark["name"] == "string"
    assert mark["args"] == {"domain": "domain", "category": "category"}


# ---- Much of everything ----

@not_under_tsan
def test_a_stream_for_each_request(tmp_path):
    """More streams than a person reads lanes: the last ones share theirs, and
    the end takes no longer."""
    done, trace = traced(tmp_path, "hostile", "streams", 20000)
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert trace.losses() == {}
    assert len(own_lines(done.err)) == 1, done.err
    assert any("other streams" in n
               for n in trace.labels("thread_name").values())
