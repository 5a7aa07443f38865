# SPDX-License-Identifier: MIT
"""Launches that never finished, as the file tells of them.

What the flight recorder keeps and writes is in test/unit/recorder_test.c.
"""
from tracing import traced


def test_a_launch_that_never_finished(tmp_path):
    """Who launched it, when, in which range: against the call's own slice."""
    _, trace = traced(tmp_path, "hostile", "hung")
    (launch,) = trace.own["unfinished_launches"]
    assert "paged_attention" in launch["name"]
    call = trace.launches()[launch["correlation"]]
    assert call["name"] == "cuLaunchKernel"
    assert launch["launched_ns"] == call["start"]
    assert launch["tid"] == call["tid"]
    assert launch["thread"] in \
        trace.labels("thread_name")[call["pid"], call["tid"]]
    assert launch["range"] == "request 7"
    (request,) = trace.ranges("request 7")
    assert request["start"] < call["start"] < call["end"] < request["end"]
    assert launch["launched_ns"] < launch["seen_ns"]
    assert launch["correlation"] not in \
        [k["args"]["correlation"] for k in trace.slices("kernel")]
