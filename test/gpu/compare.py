#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the kernels of a trace with what torch.profiler saw.

    compare.py FILE.json TRACE...

FILE.json is torch_decode.py --profiler's, of another run of the same steps;
the traces are made with GPUTRACE_NAMES=full.  Kernels must agree by name and
count, and their summed time within 10 %.  Prints one line; differences go
before it.  Exit status: 0 equal, 1 not.

One thing is told in two ways: the driver runs a small copy node of a graph as
a kernel of its own, memcpy32_post.  CUPTI tells it as that kernel where the
graph was made before CUPTI came (torch.profiler), and as the copy that it is
where CUPTI was there (us).  So such kernels are compared as copies.
"""
import collections
import gzip
import json
import sys


def read(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as stream:
        return json.load(stream)["traceEvents"]


COPY_KERNEL = "memcpy32_post"


def work_of(paths):
    """({kernel: [count, ns]}, copies)"""
    found = collections.defaultdict(lambda: [0, 0])
    copies = 0
    for path in paths:
        for event in read(path):
            if event.get("cat") == "kernel":
                entry = found[event["name"]]
                entry[0] += 1
                entry[1] += round(event["dur"] * 1000)
            copies += event.get("cat") == "gpu_memcpy"
    return found, copies


def move_copies(kernels, copies):
    """The number of copies with those that are told as kernels."""
    return copies + kernels.pop(COPY_KERNEL, [0, 0])[0]


def main():
    with open(sys.argv[1], encoding="utf-8") as stream:
        word = json.load(stream)
    theirs = word["kernels"]
    ours, our_copies = work_of(sys.argv[2:])
    our_copies = move_copies(ours, our_copies)
    their_copies = move_copies(theirs, sum(
        n for n, _ in word["copies"].values()))
    differ = int(our_copies != their_copies)
    if differ:
        print("%6d ours %6d theirs  copies" % (our_copies, their_copies))
    for name in sorted(set(theirs) | set(ours)):
        a, b = ours.get(name, [0, 0])[0], theirs.get(name, [0, 0])[0]
        if a != b:
            differ += 1
            print("%6d ours %6d theirs  %s" % (a, b, name[:100]))
    count = [sum(n for n, _ in side.values()) for side in (ours, theirs)]
    total = [sum(t for _, t in side.values()) for side in (ours, theirs)]
    ratio = total[0] / total[1] if total[1] else 0
    good = count[1] > 0 and not differ and abs(ratio - 1) <= 0.1
    print("%s: %d kernels ours, %d theirs, %d names, %d differ, time ratio "
          "%.3f" % ("equal" if good else "NOT EQUAL", *count,
                    len(set(theirs) | set(ours)), differ, ratio))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
