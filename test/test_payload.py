# SPDX-License-Identifier: MIT
"""NVTX's payload extension: host/payloads, which uses the real header.

What is expected are the values that the program passes, and the header's
words for how they lie: natural alignment, packAlign, a given offset."""
import json

import pytest
from tracing import traced

KINDS = {
    "char": 65, "int16": -2, "uint8": 255, "int": -2 ** 31, "int64": -3,
    "uint64": 5, "float": 0.5, "double": -0.25, "address": "0x7f1234",
    "pointer": "0x10", "text": "caf\u00e9",
    "half": 1.5,                # 0x3e00: exponent 15, 512 of 1024
    "bfloat": -3.0,             # 0xc0400000 as a float
    "bytes": "0x0102ab", "argb": "#ff112233", "string": "registered",
    "utf16": "a\U0001f600b", "wide": "w\u00e9", "flags": "read|exec",
}


def collective(comm, size, op):
    return {"NCCL communicator ID": comm, "Message size [bytes]": size,
            "Reduction operation": op}


# The communicator has a bit that no viewer's 63 hold.
EXPECTED = {
    "pushed": collective(str(0xfedcba9876543210), 4096, "Max"),
    "started": collective(str(0xfedcba9876543210), 4096, "Max"),
    "marked": collective(str(0xfedcba9876543210), 4096, "Max"),
    "popped": collective(7, 8, -1),
    "both": dict(collective(7, 8, -1),
                 **{"payload at end": collective(7, 8, "Product")}),
    "ended": collective(7, 8, "Product"),
    "kinds": KINDS,
    "nested": {"first": 1, "one": {"a": 2, "b": 3},
               "two": [{"a": 4, "b": 5}, {"a": 6, "b": 7}],
               "list": [8, 9, -10]},
    "packed": {"a": 1, "b": 2, "c": 3},
    "names": {"same": 1, "same #2": 2, "#3": 3, "payload stream": 4,
              'quote " and \\': 5},
    "two": {"payload": [-1, 2], "payload 2": {"payload": "0x0102ff"}},
    "string": {"payload": "to its zero"},
    "inside": {"name": "inside", "n": 1},
    "inside started": {"name": "inside started", "n": 1},
    "inside mark": {"name": "inside mark", "n": 1},
    "unknown schema": {"payload incomplete": True},
    "too short": {"there": 1, "payload incomplete": True},
    "no bytes": {"payload incomplete": True},
    "too long": {"n": 0x78787878, "text": "x" * 252,
                 "payload incomplete": True},
}


@pytest.fixture(scope="module", name="trace")
def fixture_trace(tmp_path_factory):
    done, trace = traced(tmp_path_factory.mktemp("payload"), "payloads")
    trace.out = done.out
    return trace


def events_of(trace):
    return {e["name"]: e for e in trace.ranges() + trace.marks()}


@pytest.mark.parametrize("name", EXPECTED)
def test_payload(trace, name):
    args = dict(events_of(trace)[name]["args"])
    assert args.pop("domain") == "payloads"
    assert args == EXPECTED[name]


def test_nothing_else(trace):
    assert set(events_of(trace)) == set(EXPECTED)
    assert trace.losses() == {"payloads incomplete": 4}


def test_ranges_end(trace):
    """Those that the extension's own calls end do so, too."""
    assert not [e for e in trace.ranges() if e["args"].get("open")]


def test_ids(trace):
    assert json.loads(trace.out.splitlines()[0])["ids"] == {
        "dynamic": 1, "next": 1, "again": 1, "no id": 0, "no entries": 0,
        "no enum": 0, "enabled": 1}


def test_a_domain_that_is_not_recorded(tmp_path):
    done, trace = traced(tmp_path, "payloads", GPUTRACE_NVTX_DOMAINS="x*")
    assert not trace.ranges() and not trace.marks()
    assert json.loads(done.out.splitlines()[0])["ids"]["enabled"] == 0
    assert not trace.losses()


def test_ranges_from_before_the_window(tmp_path):
    """host/payloads is over when the window opens, but for what is open."""
    _, trace = traced(tmp_path, "payloads", "--open",
                      GPUTRACE_START="profiler-api")
    assert events_of(trace)["open"]["args"] == dict(
        collective(1, 2, "Sum"), domain="payloads")
    assert events_of(trace)["open started"]["args"] == dict(
        collective(1, 2, "Sum"), domain="payloads")
