# SPDX-License-Identifier: MIT
"""Another client of CUPTI in the process: both must have what is theirs.

The program's own profiler does what torch.profiler does (test/host/
profiler.c); with and without the library its results must be the same.
"""
import pytest
from tracing import BUILD, LIBRARY, SANITIZED, Trace, judge, run, traced

FORMS = {
    "one session": [],
    "sessions": ["--sessions", 4],
    "its own clock": ["--sessions", 3, "--own-clock"],
    "registered once": ["--sessions", 3, "--no-register", "--own-clock"],
    "buffers it has cleared": ["--sessions", 2, "--zeroed"],
}
BAD = ("unknown buffers", "misplaced", "other kernels", "other threads",
       "other records")

def compare(tmp_path, *args, **settings):
    plain = run("profiler", *args, traced=False, **settings)
    done, trace = traced(tmp_path, "profiler", *args, **settings)
    for fact in ("kernels", "calls", *BAD):
        assert done.did["profiler"].get(fact, 0) == \
            plain.did["profiler"].get(fact, 0), (fact, done.out)
    return done, trace


def names(trace):
    found = trace.count("kernel")
    return {key: sum(n for name, n in found.items() if word in name)
            for key, word in (("silu", "act_and_mul"), ("argmax", "ArgMax"),
                              ("flash", "flash_fwd"))}


@pytest.mark.parametrize("args", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("version", [22, 130001])
def test_both_have_what_is_theirs(tmp_path, args, version):
    """Ours: all before its first call and all after its last one."""
    done, trace = compare(tmp_path, *args, SIM_CUPTI_VERSION=version)
    assert not any(done.did["profiler"].get(fact) for fact in BAD), done.out
    assert names(trace) == {"silu": done.did["outside"]["kernels"],
                            "argmax": 0, "flash": 0}
    assert trace.losses() == {}
    sessions = len(trace.slices(name="another profiler has CUPTI"))
    assert sessions == done.did["inside"]["kernels"] // 50


def test_nothing_of_ours_lies_in_a_pause(tmp_path):
    _, trace = compare(tmp_path, "--sessions", 3, "--own-clock")
    pauses = trace.slices(name="another profiler has CUPTI")
    kernels = trace.slices("kernel")
    assert len(pauses) == 3 and len(kernels) == 200
    for kernel in kernels:
        assert not any(p["start"] < kernel["start"] < p["end"]
                       for p in pauses)
    for before, after in zip(pauses, pauses[1:]):
        assert sum(before["end"] <= k["start"] < after["start"]
                   for k in kernels) == 50


def test_nothing_is_suspected(tmp_path):
    """The watchdog knows the other clock, too."""
    done, trace = traced(tmp_path, "profiler", "--own-clock", "--kernels",
                         20000, GPUTRACE_FLUSH="20ms")
    assert trace.own["watchdog"] == []
    assert names(trace)["silu"] == done.did["outside"]["kernels"] == 40000


def test_a_kernel_is_in_flight(tmp_path):
    """It is waited for, but not for long; then it is counted."""
    done, trace = compare(tmp_path, "--sessions", 2, "--running-ms", 400)
    assert names(trace)["silu"] == done.did["outside"]["kernels"]
    assert trace.losses() == {"unfinished GPU work": 2}
    (name, count), = trace.own["unfinished"].items()
    assert "flash_fwd" in name and count == 2


def test_short_work_in_flight_is_waited_for(tmp_path):
    done, trace = compare(tmp_path, "--running-ms", 10)
    assert names(trace) == {"silu": done.did["outside"]["kernels"],
                            "argmax": 0, "flash": 1}
    assert trace.losses() == {}


def test_other_threads_launch_meanwhile(tmp_path):
    """What they launch while CUPTI changes hands may be nobody's, and is told
    twice by no one."""
    done, trace = traced(tmp_path, "profiler", "--threads", 3, "--sessions", 5)
    theirs, ours = done.did["profiler"], trace.count("kernel")
    assert not theirs.get("unknown buffers")
    assert theirs["kernels"] == done.did["inside"]["kernels"] == 250
    assert names(trace)["silu"] == done.did["outside"]["kernels"]
    assert names(trace)["argmax"] == 0
    beside = sum(ours.values()) - names(trace)["silu"]
    assert 0 < beside + theirs.get("other kernels", 0) <= \
        done.did["beside"]["kernels"]


def test_a_thread_of_its_own_flushes(tmp_path):
    """Between two of its calls it must not be taken for done."""
    done, trace = traced(tmp_path, "profiler", "--flush-beside", "--sessions",
                         40, "--kernels", 20)
    assert done.did["profiler"]["kernels"] == \
        done.did["inside"]["kernels"] == 800
    assert names(trace)["silu"] <= done.did["outside"]["kernels"]
    assert names(trace)["argmax"] == 0


def test_more_sessions_than_the_writer_looks(tmp_path):
    _, trace = traced(tmp_path, "profiler", "--sessions", 100, "--kernels", 2)
    assert len(trace.slices(name="another profiler has CUPTI")) == 100


def test_it_leaves_its_buffers_with_cupti(tmp_path):
    """Without a flush of its own it has nothing without us; ours goes on."""
    done, trace = traced(tmp_path, "profiler", "--no-flush", "--sessions", 2)
    assert names(trace)["silu"] == done.did["outside"]["kernels"]
    assert names(trace)["argmax"] == 0
    assert not done.did["profiler"].get("unknown buffers")


def test_windows_of_the_program(tmp_path):
    """A session between windows: nothing is recorded, nothing is harmed."""
    plain = run("profiler", "--sessions", 2, traced=False)
    done = run("profiler", "--sessions", 2, GPUTRACE_START="profiler-api",
               GPUTRACE_OUT=tmp_path / "t.json")
    assert done.did["profiler"] == plain.did["profiler"]
    assert done.did["profiler"]["kernels"] == 100
    assert not list(tmp_path.iterdir())


def test_windows_end_and_begin_inside_a_session(tmp_path):
    done, trace = compare(tmp_path, "--windows", "--sessions", 3,
                          GPUTRACE_START="profiler-api")
    assert done.did["profiler"]["kernels"] == \
        done.did["inside"]["kernels"] == 450
    assert names(trace) == {"silu": done.did["outside"]["kernels"],
                            "argmax": 0, "flash": 0}
    assert trace.losses() == {}


def test_the_end_inside_a_session(tmp_path):
    """The end of the process finds CUPTI in other hands."""
    path = tmp_path / "t.json"
    done = run("profiler", "--sessions", 1, "--exit-inside",
               GPUTRACE_OUT=path)
    assert done.status == 0, done.err
    trace = Trace(path)
    assert not judge(path)
    assert names(trace) == {"silu": 50, "argmax": 0, "flash": 0}
    assert len(trace.slices(name="another profiler has CUPTI")) == 1


def test_a_copy_of_its_own(tmp_path):
    """Two copies of CUPTI: the second gets 39 from every call, as on an H200,
    and neither is harmed."""
    copy = BUILD / "sim" / "12" / "libcupti.so.12"
    done, trace = traced(tmp_path, "copy", copy)
    assert done.did["copy"] == dict.fromkeys(
        ("register", "enable", "disable", "flush"), 39)
    assert len(trace.slices("kernel")) == done.did["gpu"]["kernels"] == 150
    assert trace.losses() == {}
    alone = run("copy", copy, traced=False)
    assert alone.did["copy"]["enable"] == 0 and alone.did["copy"]["bytes"]


WRAPPER = BUILD / "shim" / "wrapper.so"


@pytest.mark.skipif(bool(SANITIZED), reason="the sanitizer wants to be first")
@pytest.mark.parametrize("preload", [(LIBRARY, WRAPPER), (WRAPPER, LIBRARY)],
                         ids=["before us", "behind us"])
def test_another_preload_wraps_the_calls(tmp_path, preload):
    """Each asks the next: they must not ask each other for ever."""
    done, trace = traced(tmp_path, "profiler", "--sessions", 2,
                         LD_PRELOAD=":".join(map(str, preload)))
    assert "wrapper:" in done.err
    assert done.did["profiler"]["kernels"] == 100
    assert names(trace) == {"silu": 150, "argmax": 0, "flash": 0}


@pytest.mark.skipif(bool(SANITIZED), reason="the stack of a cancelled thread")
def test_a_flush_of_its_own_is_cancelled(tmp_path):
    """The thread that was in it leaves nothing of ours locked."""
    done, trace = traced(tmp_path, "profiler", "--cancel", "--sessions", 20,
                         GPUTRACE_LOG="info")
    assert done.did["profiler"]["kernels"] == \
        done.did["inside"]["kernels"] == 1000
    assert names(trace)["argmax"] == 0


def test_its_callback_turns_a_kind_off(tmp_path):
    """CUPTI's own thread is not the place to take CUPTI up again."""
    done, trace = traced(tmp_path, "profiler", "--disable-inside",
                         "--sessions", 5)
    assert done.did["profiler"]["kernels"] == 250
    assert names(trace) == {"silu": 300, "argmax": 0, "flash": 0}


@pytest.mark.parametrize("turn", range(10))
def test_the_end_right_behind_a_stop(tmp_path, turn):
    """The end is not taken for the stop, nor the stop for the end."""
    path = tmp_path / "t.json"
    done = run("profiler", "--windows", "--exit-at-stop", "--sessions", 1,
               GPUTRACE_START="profiler-api", GPUTRACE_OUT=path)
    assert done.status == 0 and "in time" not in done.err, turn
    assert not judge(path)
    assert names(Trace(path))["silu"] == 100
    assert Trace(path).losses() == {}
