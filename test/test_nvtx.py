# SPDX-License-Identifier: MIT
"""NVTX as programs use and misuse it: host/nvtx_all, host/nvtx2."""
import collections
import math
import re

import pytest
from tracing import GPU_PID, LANE_TID, traced

TEXT_MAX = 4096         # RECORD_TEXT_MAX in collector/record.h


@pytest.fixture(scope="module", name="trace")
def fixture_trace(tmp_path_factory):
    done, trace = traced(tmp_path_factory.mktemp("nvtx"), "nvtx_all")
    trace.did = done.did
    return trace


def one(trace, name):
    found = trace.ranges(name)
    assert len(found) == 1, (name, len(found))
    return found[0]


def test_all_forms_of_ranges(trace):
    nested = ["before cuda", "push ascii", "push wide \u00e9",
              "push ex ascii", "push ex wide \u6f22\u5b57 \U0001f600",
              "registered A", "registered W \u00e9"]
    ranges = [one(trace, name) for name in nested]
    for outer, inner in zip(ranges, ranges[1:]):
        assert outer["start"] <= inner["start"]
        assert inner["end"] <= outer["end"]
    domains = [r["args"].get("domain") for r in ranges]
    assert domains[-2:] == ["domain A", "domain W \u00e9"]
    assert len(set(domains[:-2])) == 1
    assert not {"domain A", "domain W \u00e9"} & set(domains[:-2])


def test_started_ranges(trace):
    names = ["start ascii", "start wide", "start ex", "start domain"]
    ranges = [one(trace, name) for name in names]
    assert all(r["tid"] >= LANE_TID for r in ranges)
    assert ranges[3]["args"]["domain"] == "domain A"
    kernel = [k for k in trace.slices("kernel")
              if "vectorized_elementwise" in k["name"]]
    shown = trace.slices("gpu_user_annotation", name="start ascii")
    assert len(kernel) == len(shown) == 1
    assert (kernel[0]["start"], kernel[0]["end"]) == \
        (shown[0]["start"], shown[0]["end"])


def test_marks(trace):
    marks = {m["name"]: m for m in trace.marks()}
    assert {"mark ascii", "mark wide", "mark ex", "mark domain"} <= set(marks)
    assert marks["mark domain"]["args"]["domain"] == "domain A"
    assert all(m["s"] == "t" for m in marks.values())


def test_payloads(trace):
    expected = {"u64": 2 ** 64 - 1, "i64": -2 ** 63, "u32": 2 ** 32 - 1,
                "i32": -2 ** 31, "double": 0.1, "float": 0.5}
    for name, value in expected.items():
        payload = one(trace, "payload " + name)["args"]["payload"]
        assert math.isclose(float(payload), value)
        assert "." in str(value) or int(payload) == value
    for name in ("nan", "inf", "unknown"):
        one(trace, "payload " + name)


def test_categories_and_colours(trace):
    plain, domain = one(trace, "category 1"), one(trace, "category 2")
    assert "first category" in str(plain["args"]["category"])
    assert "domain's category" in str(domain["args"]["category"])
    assert "112233" in str(plain["args"]["color"]).lower()


def test_hostile_text(trace):
    names = [r["name"] for r in trace.ranges()]
    assert 'quote " backslash \\ slash / brace }' in names
    assert "control \x01\x02\x1f\x7f tab\t newline\n return\r end" in names
    for start in ("invalid ", "overlong "):
        found = [n for n in names if n.startswith(start)]
        assert len(found) == 1 and found[0].endswith(" end")
        assert not re.search("[\ud800-\udfff]", found[0])


def test_long_names_are_cut_and_counted(trace):
    lengths = [len(r["name"]) for r in trace.ranges()
               if set(r["name"]) in ({"n"}, {"\x01"})]
    assert lengths == [TEXT_MAX, TEXT_MAX]
    assert trace.losses() == {"names cut": 2}


def test_deep_nesting(trace):
    ranges = [one(trace, "deep %d" % i) for i in range(60)]
    for outer, inner in zip(ranges, ranges[1:]):
        assert outer["start"] <= inner["start"]
        assert inner["end"] <= outer["end"]
    # "before cuda" is level 0, so "deep 59" is level 60.
    assert trace.did["levels"]["deepest"] == 60
    shown = collections.Counter(
        r["name"] for r in trace.slices("gpu_user_annotation")
        if r["pid"] == GPU_PID)
    assert all(shown["deep %d" % i] == 1 for i in range(60))


def test_crossing_domains(trace):
    first, second = one(trace, "cross first"), one(trace, "cross second")
    assert first["start"] <= second["start"] < first["end"] < second["end"]
    assert first["tid"] != second["tid"]
    names = trace.labels("thread_name")
    lanes = {names[r["pid"], r["tid"]] for r in (first, second)}
    assert sum(lane.endswith("#2") for lane in lanes) == 1


def test_mistakes(trace):
    assert len(trace.ranges("ended twice")) == 1
    last = max(e["end"] for e in trace.api())
    for name in ("never ended", "never popped"):
        r = one(trace, name)
        assert r["args"].get("open") is True
        assert r["end"] >= last
    assert one(trace, "before cuda")["args"].get("open") is None


def test_names_of_things(trace):
    names = trace.labels("thread_name")
    threads = [n for (pid, _), n in names.items() if pid != GPU_PID]
    lanes = [n for (pid, _), n in names.items() if pid == GPU_PID]
    assert any('main "thread"' in n for n in threads)
    assert any("worker \u00e9" in n for n in threads)
    assert any("the stream" in n for n in lanes)
    assert any("the wide stream \u00e9" in n for n in lanes)
    assert any("the device" in n
               for n in trace.labels("process_name").values())


def test_nvtx_2(tmp_path):
    done, trace = traced(tmp_path, "nvtx2")
    assert done.did["attached"] == 1
    assert one(trace, "push 2")
    assert one(trace, "domain push 2")["args"]["domain"] == "domain 2"
    assert one(trace, "start 2")["tid"] >= LANE_TID
    assert [m["name"] for m in trace.marks()] == ["mark 2"]


def test_only_some_domains(tmp_path):
    _, trace = traced(tmp_path, "decode", GPUTRACE_NVTX_DOMAINS="mod*")
    assert {r["args"].get("domain") for r in trace.ranges()} == {"model"}
