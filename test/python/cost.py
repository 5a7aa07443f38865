# SPDX-License-Identifier: MIT
"""ns for a walk of 10 and of 50 frames, beside an empty call of the same loop:
one JSON object a line."""
import json
import sys

from shim import held


def down(depth):
    if depth > 1:
        return down(depth - 1)
    return held.measure(0, 1000), held.measure(1, 1000)


def main():
    # The module and this function are two of them.
    for depth in 10, 50:
        baseline, value = down(depth - 2)
        print(json.dumps({"name": "python_walk_%d" % depth, "value": value,
                          "unit": "ns", "baseline": baseline,
                          "python": sys.version.split()[0]}))
    return 0


sys.exit(held.prepare(0) or main())
