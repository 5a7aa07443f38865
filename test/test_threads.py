# SPDX-License-Identifier: MIT
"""Ranges and threads that do not go together as they should: host/tangle.
What is tangled must be valid and bounded; what is not, whole."""
import collections

import pytest
from tracing import BUILD, LIBRARY, SANITIZED, Trace, run, traced

PLUGIN = BUILD / "shim" / "plugin.so"
NR_WORK = 100
DEEPEST = 4096          # PUSHED_MAX in writer/range.c


def tangle(tmp_path, mode, *args, **settings):
    done, trace = traced(tmp_path, "tangle", mode, *args, **settings)
    work = trace.ranges("work")
    assert len(work) == NR_WORK and not any("open" in r["args"] for r in work)
    assert len({(r["pid"], r["tid"]) for r in work}) == 1
    assert len(trace.slices("kernel")) >= done.did["gpu"]["kernels"]
    shown = collections.Counter(
        r["name"] for r in trace.slices("gpu_user_annotation"))
    assert shown["work"] == NR_WORK
    return done, trace


# The sanitizers' own locks do not take a cancellation at any instruction.
@pytest.mark.skipif(bool(SANITIZED), reason="cancelled inside the sanitizer")
def test_cancelled_threads(tmp_path):
    _, trace = tangle(tmp_path, "cancel")
    left = trace.ranges("cancelled")
    assert left and all("open" in r["args"] for r in left)
    assert "no thread state" not in trace.losses()


@pytest.mark.skipif("thread" in SANITIZED, reason="knows no such fibres")
def test_fibres(tmp_path):
    """Popped elsewhere, a range is open until its thread ends or pops once
    too often; what was launched is there all the same."""
    done, trace = tangle(tmp_path, "fibres", ASAN_OPTIONS="verify_asan_link_"
                         "order=0:detect_leaks=0:detect_stack_use_after_"
                         "return=0")
    assert trace.losses() == {}
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    assert len(trace.arrows()) == len(trace.gpu_work())
    names = trace.count("user_annotation")
    assert all(names["fibre %d" % i] == 1 for i in range(400))


def test_unbalanced_ranges(tmp_path):
    done, trace = tangle(tmp_path, "unbalanced")
    assert done.did["ranges"]["wrong"] == 0
    real = trace.ranges("real")
    assert len(real) == 5
    assert all(r["end"] - r["start"] >= 60000000 for r in real)
    assert len(trace.ranges("never popped")) == DEEPEST / 2
    assert all("open" in r["args"] for r in trace.ranges("never popped"))
    assert trace.losses() == {"table full": 20000 - DEEPEST}
    lanes = {(r["pid"], r["tid"]) for r in trace.ranges()}
    assert len(lanes) == 3


def test_the_last_calls_of_threads_and_process(tmp_path):
    """The system runs destructors in four rounds; behind ours in the third a
    thread has no state any more, and must not leave one."""
    done, trace = tangle(tmp_path, "late", 1000)
    lost = trace.losses()
    assert set(lost) <= {"no thread state"}
    names = trace.count("user_annotation")
    assert names["thread_local"] == 1000
    assert 2000 <= names["key destructor"] <= 4000
    if not SANITIZED:       # six calls in each of the other rounds
        assert lost["no thread state"] == 6 * (4000 - names["key destructor"])
    assert all("open" in r["args"] for r in trace.ranges()
               if r["name"].startswith("never "))
    assert {"atexit", "destructor"} & set(names) == set()
    assert done.err.count("\n") == 1, done.err


@pytest.mark.skipif(bool(SANITIZED), reason="sanitizers need more stack")
def test_signal_handlers_on_their_stack(tmp_path):
    done, trace = tangle(tmp_path, "handler")
    assert set(trace.losses()) <= {"ring full", "no thread state"}
    assert done.did["signals"]["handled"] > 2000
    assert trace.marks() and trace.ranges("\U0001f600" * 199)


def test_a_library_that_comes_and_goes(tmp_path):
    done, trace = tangle(tmp_path, "plugin", PLUGIN)
    assert trace.losses() == {}
    ranges = trace.ranges("plugin string")
    assert sorted(r["args"]["payload"] for r in ranges
                  if "open" not in r["args"]) == list(range(200))
    assert all(r["args"]["domain"] == "plugin domain" and
               r["args"]["category"] == "plugin category" for r in ranges)
    assert len([r for r in ranges if "open" in r["args"]]) == 200
    names = trace.count("user_annotation")
    assert names["plugin constructor"] == names["plugin destructor"] == 200


def test_nvtx_before_main(tmp_path):
    """A library that pushes in its constructor, which runs behind ours."""
    _, trace = tangle(tmp_path, "work", PLUGIN_OPEN=1,
                      LD_PRELOAD="%s:%s" % (PLUGIN, LIBRARY))
    first, = trace.ranges("from before main")
    assert first["args"]["open"]


def test_nvtx_before_everything(tmp_path):
    """And before ours: `gputrace record` has prepared it."""
    path = tmp_path / "t.json"
    done = run(BUILD / "gputrace", "record", "--out", path, "--",
               BUILD / "host" / "tangle", "work", traced=False, PLUGIN_OPEN=1,
               LD_PRELOAD=PLUGIN)
    assert done.status == 0, done.err
    assert len(Trace(path).ranges("from before main")) == 1


def test_eleven_hundred_threads_at_once(tmp_path):
    """As many as the default bound has room for."""
    done, trace = tangle(tmp_path, "crowd", 1100)
    assert trace.losses() == {}
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"]
    ones = [r for r in trace.ranges() if r["name"].startswith("one ")]
    assert len({r["name"] for r in ones}) == len(ones) == 1100
    assert len({r["tid"] for r in ones}) == 1100
    assert len(trace.marks()) == 5501
