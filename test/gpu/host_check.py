#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the trace of a host program against the program's own word.

    host_check.py OUTPUT TRACE...

OUTPUT is what the program printed (its JSON line is test/host/tally.h's).
Kernels, sets, copies and ranges must be as many as it says.  Prints one line;
exit status: 0 as it says, 1 not.
"""
import collections
import gzip
import json
import sys


def read(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as stream:
        return json.load(stream)


def word_of(path):
    with open(path, encoding="utf-8") as stream:
        lines = [line for line in stream if line.startswith("{")]
    return json.loads(lines[-1])


def main():
    word = word_of(sys.argv[1])
    traces = [read(path) for path in sys.argv[2:]]
    seen, losses = collections.Counter(), collections.Counter()
    for trace in traces:
        losses.update(trace["gputrace"]["losses"])
        for event in trace["traceEvents"]:
            if event.get("ph") == "X":
                seen[event["cat"]] += 1
    gpu = word.get("gpu", word.get("inside", {}))
    want = {"kernel": gpu.get("kernels", 0) +
            gpu.get("unfinished kernels", 0)}
    for cat, names in (("gpu_memcpy", ("HtoD", "DtoH", "DtoD")),
                       ("gpu_memset", ("sets",))):
        if any(name in gpu for name in names):
            want[cat] = sum(gpu.get(name, 0) for name in names)
    if "copies" in word:
        want["gpu_memcpy"] = sum(word["copies"].values())
        want["gpu_memset"] = sum(word["sets"].values())
    if "started" in word and "ranges" in word and "levels" not in word:
        want["user_annotation"] = sum(word["ranges"].values()) + \
            sum(word["started"].values())
    lost = {cause: n for cause, n in losses.items() if n}
    wrong = {cat: "%d of %d" % (seen[cat], n) for cat, n in want.items()
             if seen[cat] != n}
    print("%s: %s%s%s" % (
        "NOT AS SAID" if wrong else "as said", ", ".join(
            "%d %s" % (seen[cat], cat) for cat in want),
        ", wrong %s" % wrong if wrong else "",
        ", losses %s" % lost if lost else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
