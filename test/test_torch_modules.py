# SPDX-License-Identifier: MIT
"""Which nn.Module an operator is in: on the simulated PyTorch in every
interpreter at hand, and on a real one where Python has it."""
import collections
import json
import shutil
import subprocess

import pytest
from test_python import EACH
from test_torch import beside_the_profiler, torch
from tracing import BUILD, ROOT, SANITIZED, Trace, environment, judge, \
    own_lines, traced

HOST = ROOT / "test/host/torch_modules.py"
PREFIX = "nn.Module: "
# The shapes that Module.__call__ has had.
PLAIN = """
class Module:
    def _call_impl(self, *args, **kwargs):
        forward_call = self.forward
        return forward_call(*args, **kwargs)

    __call__ = _call_impl
"""
WRAPPED = """
class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        result = None

        def inner():
            nonlocal result, args, kwargs
            result = self.forward(*args, **kwargs)
            return result
        return inner() if kwargs else self.forward(*args, **kwargs)

    __call__ = _wrapped_call_impl
"""


@pytest.fixture(params=EACH)
def python(request):
    if not request.param:
        pytest.skip("no CPython of this version here")
    if "thread" in SANITIZED:
        pytest.skip("Python does not start under it")
    return request.param


def module_file(tmp_path, text):
    path = tmp_path / "site-packages/torch/nn/modules/module.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def traced_modules(tmp_path, python, *scenes, text=WRAPPED, **settings):
    """(what the library said, the trace, what the modules noted)"""
    path = tmp_path / "trace.json"
    done = subprocess.run(
        [python["path"], str(HOST), str(torch(tmp_path, "2.11.0")),
         str(module_file(tmp_path, text)), *scenes],
        env=environment(GPUTRACE_OUT=path, SIM_TORCH_VERSION="2.11.0",
                        **{"GPUTRACE_TRACE": "cuda,torch", **settings}),
        capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not judge(path), judge(path)
    return done.stderr, Trace(path), json.loads(done.stdout.splitlines()[-1])


def around(trace):
    """{operator's name: modules' slices around it, outermost first}"""
    found = {}
    for tid in {e["tid"] for e in trace.slices("cpu_op")}:
        slices = [e for e in trace.slices("cpu_op", "python_function")
                  if e["tid"] == tid]
        # What begins at once: the longer one is around the other.
        slices.sort(key=lambda e: (e["start"], -e["end"]))
        open_ones = []
        for e in slices:
            while open_ones and open_ones[-1]["end"] <= e["start"]:
                open_ones.pop()
            if e["cat"] == "cpu_op":
                found[e["name"]] = [o for o in open_ones
                                    if o["cat"] != "cpu_op"]
            open_ones.append(e)
    return found


def numbered(told):
    """{(class, object): name}, in the order in which they had operators."""
    names, nr = {}, collections.Counter()
    for _, _, calls in told:
        for cls, number, _ in calls:
            if (cls, number) not in names:
                names[cls, number] = "%s%s_%d" % (PREFIX, cls, nr[cls])
                nr[cls] += 1
    return names


def compare(trace, told, by_number=True):
    """Each operator is in the modules that it was in, and each call of a
    module that had an operator is one slice."""
    found, names = around(trace), numbered(told)
    slices, calls = {}, {}
    for name, tid, inside in told:
        got = found[name]
        want = [names[cls, nr] for cls, nr, _ in inside]
        if not by_number:
            strip = lambda name: name.rsplit("_", 1)[0]
            assert list(map(strip, (e["name"] for e in got))) == \
                list(map(strip, want)), name
        else:
            assert [e["name"] for e in got] == want, name
        for slice, (_, _, call) in zip(got, inside):
            assert slice["tid"] == tid
            assert slices.setdefault(id(slice), call) == call, name
            assert calls.setdefault(call, slice) is slice, name
    assert len(slices) == len(trace.slices("python_function"))
    return slices


@pytest.mark.parametrize("text", [PLAIN, WRAPPED], ids=["plain", "wrapped"])
def test_everything(tmp_path, python, text):
    said, trace, told = traced_modules(tmp_path, python, "everything",
                                       text=text)
    assert len(compare(trace, told)) > 60
    assert trace.losses() == {} and len(own_lines(said)) == 1
    for e in trace.slices("python_function"):
        assert "%s" % e["args"]["Python module id"] == \
            e["name"].rsplit("_", 1)[1]
        assert "open" not in e["args"]
    assert not [e for e in trace.slices("gpu_user_annotation")
                if e["name"].startswith(PREFIX)]
    assert {e["tid"] for e in trace.slices("python_function")} == \
        {e["tid"] for e in trace.slices("cpu_op")}


@pytest.mark.parametrize("text", [PLAIN, WRAPPED], ids=["plain", "wrapped"])
def test_the_same_call_again(tmp_path, python, text):
    if python["version"].startswith("3.14"):
        pytest.skip("nothing tells them apart there")
    _, trace, told = traced_modules(tmp_path, python, "same", text=text)
    compare(trace, told)


def test_threads(tmp_path, python):
    """Whose module is met first is a matter of luck; each has its number."""
    _, trace, told = traced_modules(tmp_path, python, "in_threads")
    compare(trace, told, by_number=False)
    names = collections.defaultdict(set)
    for name, _, inside in told:
        for e, (cls, nr, _) in zip(around(trace)[name], inside):
            names[cls, nr].add(e["name"])
    assert all(len(n) == 1 for n in names.values())
    assert len(set().union(*names.values())) == len(names)


@pytest.mark.parametrize("scene", ["windows", "across"])
def test_windows(tmp_path, python, scene):
    """One that is open when a window opens begins with it."""
    _, trace, told = traced_modules(tmp_path, python, scene,
                                    GPUTRACE_START="profiler-api")
    found = around(trace)
    assert set(found) == {name for name, _, _ in told}
    for name, _, inside in told:
        assert [e["name"].rsplit("_", 1)[0] for e in found[name]] == \
            [PREFIX + cls for cls, _, _ in inside]
    assert not any(e["args"].get("open")
                   for e in trace.slices("python_function"))


def test_too_deep(tmp_path, python):
    _, trace, told = traced_modules(tmp_path, python, "deep")
    found = around(trace)
    for name, _, inside in told:
        assert len(found[name]) == min(64, len(inside))


def test_full(tmp_path, python):
    """Where the program's ranges leave no room there are fewer modules, and
    that is counted; none stays open."""
    _, trace, told = traced_modules(tmp_path, python, "full")
    found, less = around(trace), 0
    for name, _, inside in told:    # one that was left out has no number
        want = [PREFIX + cls for cls, _, _ in inside]
        got = [e["name"].rsplit("_", 1)[0] for e in found[name]]
        assert got == want[:len(got)], name
        less += len(got) < len(want)
    assert got == want and len(want) == 2   # the last is as ever
    assert less and set(trace.losses()) == {"table full"}
    assert not any("open" in e["args"] for e in
                   trace.slices("python_function"))


def test_no_interpreter(tmp_path):
    """A program of C++ has operators, and one line."""
    done, trace = traced(tmp_path, "operators", torch(tmp_path, "2.11.0"),
                         "steps", 1, SIM_TORCH_VERSION="2.11.0",
                         GPUTRACE_TRACE="cuda,torch", GPUTRACE_LOG="info")
    assert len(trace.slices("cpu_op")) == 7
    assert not trace.slices("python_function")
    assert len([line for line in own_lines(done.err)
                if "no module names of PyTorch" in line]) == 1


def test_off(tmp_path, python):
    _, trace, told = traced_modules(tmp_path, python, "everything",
                                    GPUTRACE_TORCH_MODULES="off")
    assert not trace.slices("python_function")
    assert len(trace.slices("cpu_op")) == len(told)


def test_a_report_by_module(tmp_path, python):
    """Kernels by the innermost module around their launch."""
    _, trace, told = traced_modules(tmp_path, python, "everything")
    table = subprocess.run(
        [BUILD / "gputrace", "report", "-f", "json", "-t", "kernels", "--by",
         "module", trace.path], capture_output=True, text=True, check=True)
    names, want = numbered(told), collections.Counter()
    for _, _, inside in told:
        want[names[tuple(inside[-1][:2])] if inside else "(none)"] += 1
    got = collections.Counter()
    for row in json.loads(table.stdout)["kernels"]:
        got[row["where"]] += row["count"]
    assert got == want


# ---- A real one ----

def paths(events):
    """([(operator, modules around it)], [modules, of each call of one that
    has an operator]), counted."""
    operators, modules = collections.Counter(), collections.Counter()
    for tid in {e["tid"] for e in events}:
        open_ones, path = [], lambda: tuple(
            e["name"] for e in open_ones if e["cat"] != "cpu_op")
        with_operators = set()
        for e in sorted((e for e in events if e["tid"] == tid),
                        key=lambda e: (e["start"], -e["end"])):
            while open_ones and open_ones[-1]["end"] <= e["start"]:
                open_ones.pop()
            if e["cat"] == "cpu_op":
                operators[e["name"], path()] += 1
                for i, o in enumerate(open_ones):
                    if o["cat"] != "cpu_op" and id(o) not in with_operators:
                        with_operators.add(id(o))
                        modules[tuple(p["name"] for p in open_ones[:i + 1]
                                      if p["cat"] != "cpu_op")] += 1
            open_ones.append(e)
    return operators, modules


def wanted(event):
    return event.get("cat") == "cpu_op" or (
        event.get("cat") == "python_function" and
        event["name"].startswith(PREFIX))


def test_a_real_pytorch(tmp_path):
    """The same modules round the same operators as torch.profiler has, in as
    many calls."""
    _, trace, truth = beside_the_profiler(tmp_path, "torch_modules_truth.py")
    ours = paths(trace.slices("cpu_op", "python_function"))
    theirs = paths(list(filter(wanted, Trace(truth).slices())))
    assert len(theirs[0]) > 100 and len(theirs[1]) > 30
    assert not theirs[0] - ours[0], theirs[0] - ours[0]
    assert theirs[1] == ours[1], (theirs[1] - ours[1], ours[1] - theirs[1])
