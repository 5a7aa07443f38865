# SPDX-License-Identifier: MIT
"""The source `torch`: PyTorch's operators, on the simulated one in every
layout that is known, and on a real one where Python has it."""
import collections
import json
import os
import shutil
import subprocess
import sys

import pytest
from tracing import BUILD, ROOT, Trace, environment, judge, own_lines, run, \
    traced

SIM = {"new": BUILD / "sim/torch/lib/libtorch_cpu.so",
       "old": BUILD / "sim/torch_old/lib/libtorch_cpu.so"}
TRACE = {"GPUTRACE_TRACE": "cuda,torch", "GPUTRACE_TORCH_SHAPES": "on"}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def torch(tmp_path, version, string="new"):
    """A libtorch_cpu.so of that version, as it is installed."""
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    shutil.copy(SIM[string], folder / "lib")
    (folder / "version.py").write_text(
        "from typing import Optional\n__all__ = ['__version__', 'debug']\n"
        "__version__ = '%s'\ndebug = False\n" % version)
    return folder / "lib/libtorch_cpu.so"


def traced_torch(tmp_path, version, *args, string="new", **settings):
    return traced(tmp_path, "operators", torch(tmp_path, version, string),
                  *args, SIM_TORCH_VERSION=version, **{**TRACE, **settings})


def operators(trace):
    return trace.count("cpu_op")


def inside(inner, outer):
    return inner["tid"] == outer["tid"] and \
        outer["start"] <= inner["start"] and inner["end"] <= outer["end"]


VERSIONS = ["1.13.1", "2.2.2+cu121", "2.3.0", "2.4.1+cu121", "2.12.0a0+git1",
            "2.13.0", "2.15.0+cu132"]


@pytest.mark.parametrize("string", SIM)
@pytest.mark.parametrize("version", VERSIONS)
def test_operators(tmp_path, version, string):
    """All of them, with what PyTorch's own profiler says of each."""
    done, trace = traced_torch(tmp_path, version, "steps", 3, string=string)
    assert done.did["torch"]["starts"] == done.did["torch"]["ends"] > 0
    found = operators(trace)
    assert {k: found[k] for k in done.did["operators"]} == \
        done.did["operators"]
    assert sum(found.values()) == 3 * 7     # a long name, a strange one
    assert trace.losses() == {}
    one = trace.slices("cpu_op", name="aten::addmm")[0]["args"]
    assert one["Input Dims"] == [[128, 4096], [1, 2, 3, 4, 5, 6], [], [], [],
                                 []]
    assert one["Input type"] == ["c10::BFloat16", "float", "Scalar", "Scalar",
                                 "", ""]
    assert "Sequence number" not in one and "Fwd thread id" not in one
    numbers = [e["args"]["Sequence number"]
               for e in trace.slices("cpu_op", name="aten::linear")]
    assert sorted(numbers) == list(range(6))
    back = trace.slices("cpu_op", name="AddmmBackward0")[0]["args"]
    assert back["Sequence number"] == 7 and back["Fwd thread id"] == 5
    assert back["Input Dims"] == 20 * [[1, 2, 3, 4, 5, 6]]


def test_kernels_are_followed_back(tmp_path):
    """By the External id to the innermost operator around the launch."""
    _, trace = traced_torch(tmp_path, "2.11.0", "steps", 3)
    by_id = {e["args"]["External id"]: e for e in trace.slices("cpu_op")}
    assert len(by_id) == len(trace.slices("cpu_op"))
    launches, names = trace.launches(), collections.Counter()
    for kernel in trace.slices("kernel"):
        if "External id" not in kernel["args"]:
            continue
        operator = by_id[kernel["args"]["External id"]]
        assert inside(launches[kernel["args"]["correlation"]], operator)
        names[operator["name"]] += 1
    assert names == {"aten::addmm": 6, "aten::linear": 6}


def test_steps_and_waits_for_data(tmp_path):
    """record_function() ranges are annotations, on the GPU too."""
    _, trace = traced_torch(tmp_path, "2.11.0", "steps", 3)
    steps = ["ProfilerStep#%d" % i for i in range(3)]
    assert trace.count("user_annotation") == \
        {**{s: 1 for s in steps}, LOADER: 3}
    assert trace.count("gpu_user_annotation") == {s: 1 for s in steps}
    for operator in trace.slices("cpu_op"):
        assert any(inside(operator, trace.ranges(s)[0]) for s in steps)


def test_an_asynchronous_one_is_left_out(tmp_path):
    """It ends somewhere else, after what began later."""
    _, trace = traced_torch(tmp_path, "2.11.0", "steps", 1)
    assert "nccl:all_reduce" not in trace.text
    assert "not an operator" not in trace.text


def test_without_the_source(tmp_path):
    done, trace = traced_torch(tmp_path, "2.11.0", "steps", 1,
                               GPUTRACE_TRACE="cuda,nvtx")
    assert done.did["torch"]["added"] == 0 and not trace.slices("cpu_op")


def test_without_shapes(tmp_path):
    """Not asked for, PyTorch does not collect them."""
    _, trace = traced(tmp_path, "operators", torch(tmp_path, "2.11.0"),
                      "steps", 1, SIM_TORCH_VERSION="2.11.0",
                      GPUTRACE_TRACE="cuda,torch")
    assert operators(trace)["aten::linear"] == 2
    assert not any("Input Dims" in e["args"] for e in trace.slices("cpu_op"))
    assert trace.slices("cpu_op", name="AddmmBackward0")[0]["args"][
        "Sequence number"] == 7


def test_without_pytorch(tmp_path):
    done, trace = traced(tmp_path, "operators", "none", "absent", **TRACE)
    assert len(own_lines(done.err)) == 1 and not trace.slices("cpu_op")


@pytest.mark.parametrize("version", ["2.16.0", "3.0.0", "1.12.1", "none", ""])
def test_an_unknown_version_is_left_alone(tmp_path, version):
    """Nothing is known of where things lie in it."""
    done, trace = traced_torch(tmp_path, version, "steps", 1)
    lines = [l for l in own_lines(done.err) if "no operators" in l]
    assert len(lines) == 1 and "1.13 to 2.15" in lines[0]
    assert (version or "unknown") in lines[0]
    assert done.did["torch"]["added"] == 0 and not trace.slices("cpu_op")


def test_a_build_from_before_a_change(tmp_path):
    """2.13.0a0 may be either: operators without what lies elsewhere."""
    _, trace = traced_torch(tmp_path, "2.13.0a0+gitabc", "steps", 1)
    assert operators(trace)["aten::linear"] == 2
    assert not any("Input Dims" in e["args"] for e in trace.slices("cpu_op"))


def test_edges_of_windows(tmp_path):
    """Of many: the next may be over before the writer has entered one."""
    nr = 100
    done, trace = traced_torch(tmp_path, "2.11.0", "edges", nr,
                               GPUTRACE_START="profiler-api")
    torch_did = done.did["torch"]
    assert torch_did["added"] == torch_did["removed"] == 2 * nr
    assert torch_did["listed"] == 0
    assert torch_did["starts"] == torch_did["ends"]
    assert operators(trace) == {"around": nr, "ends elsewhere": nr,
                                "aten::linear": nr, "aten::addmm": nr,
                                "across the close": nr}
    assert trace.count("user_annotation") == {"first": nr, "second": nr}
    for name in "around", "ends elsewhere", "first", "second":
        assert not any(e["args"].get("open") for e in trace.slices(name=name))
    # What comes after is inside none of them.
    for linear in trace.slices("cpu_op", name="aten::linear"):
        assert not any(inside(linear, e) for e in trace.slices("cpu_op")
                       if e is not linear)


@pytest.mark.parametrize("threads", [1, 8])
def test_windows_in_a_busy_program(tmp_path, threads):
    """500 of them: in and out of the list while operators run."""
    nr = 500
    done, trace = traced_torch(tmp_path, "2.11.0", "busy", nr, threads,
                               GPUTRACE_START="profiler-api")
    torch_did = done.did["torch"]
    assert torch_did["added"] == torch_did["removed"] == 2 * nr
    assert torch_did["listed"] == 0
    assert torch_did["starts"] == torch_did["ends"] > 0
    found = operators(trace)
    assert set(found) == {"outer", "inner"}
    for inner in trace.slices("cpu_op", name="inner")[:50]:
        assert any(inside(inner, e) for e in
                   trace.slices("cpu_op", name="outer"))


def test_forks(tmp_path):
    """Children run operators, unharmed, and leave nothing."""
    done, trace = traced_torch(tmp_path, "2.11.0", "fork", 30)
    assert done.did["did"]["children"] == 30
    assert operators(trace)["around the fork"] == 30
    assert "in the child" not in trace.text
    assert [p.name for p in tmp_path.iterdir() if p.suffix] == ["trace.json"]


# ---- A real one ----

PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)


def real_torch():
    """Its version, or ''."""
    done = subprocess.run(
        [PYTHON, "-c", "import torch; print(torch.__version__)"],
        capture_output=True, text=True, check=False)
    return done.stdout.strip()


def beside_the_profiler(tmp_path, script):
    """What a script on a real PyTorch says, our trace, and the file of
    torch.profiler, which looks on at the same time."""
    if not real_torch():
        pytest.skip("no PyTorch for %s (TORCH_PYTHON names another)" % PYTHON)
    if real_torch().startswith("1."):
        pytest.skip("its CUDA dies of the simulated driver")
    path, truth = tmp_path / "trace.json", tmp_path / "truth.json"
    done = subprocess.run(
        [PYTHON, str(ROOT / "test/host" / script), str(truth)],
        env=environment(GPUTRACE_OUT=path, **TRACE), timeout=300,
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    trace = Trace(path)
    assert not judge(path) and trace.losses() == {}
    return done, trace, truth


def test_a_real_pytorch(tmp_path):
    """The same operators, shapes, types and numbers as torch.profiler."""
    done, trace, truth = beside_the_profiler(tmp_path, "torch_truth.py")
    ours = collections.Counter(map(facts, trace.slices("cpu_op")))
    theirs = json.loads(truth.read_text())["traceEvents"]
    theirs = collections.Counter(facts(e) for e in theirs
                                 if e.get("cat") == "cpu_op")
    assert len(theirs) > 20 and not theirs - ours, theirs - ours
    steps = {"ProfilerStep#%d" % i for i in range(3)}
    assert steps <= set(trace.count("user_annotation"))
    compare_tables(truth, json.loads(done.stdout.splitlines()[-1]))


def compare_tables(truth, averages):
    """Our table of PyTorch's file against the table that PyTorch makes, which
    may round each time to us."""
    table = subprocess.run(
        [BUILD / "gputrace", "report", "-f", "json", "-t", "ops", truth],
        capture_output=True, text=True, check=True).stdout
    ours = {r["name"]: r for r in json.loads(table)["ops"]}
    rows = 0
    for name, count, self_us, total_us in averages:
        if name not in ours:    # what is no slice: [memory], Trace
            continue
        rows += 1
        assert ours[name]["count"] == count, name
        assert abs(ours[name]["cpu_ns"] / 1000 - total_us) <= count, name
        assert abs(ours[name]["self_cpu_ns"] / 1000 - self_us) <= \
            8 * count, name
    assert rows == len(ours) > 20


def facts(event):
    """What can be compared: we say tensors and numbers, no lists or bools; and
    the profiler gives evaluate_function the numbers of what it evaluates."""
    args = {} if "evaluate_function" in event["name"] else event["args"]
    dims, types = args.get("Input Dims", []), args.get("Input type", [])
    known = [(tuple(d), t) for d, t in zip(dims, types)
             if t not in ("", "Scalar", "ScalarList", "TensorList")]
    return (event["name"], args.get("Sequence number"),
            args.get("Fwd thread id") or None, tuple(known))
