#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kills.py COUNT [BUILD]: COUNT random kills of a running program with a flush
every 20 ms, half of them with a compressed file.

Each file must be valid, and hold every kernel that had ended one flush period
before the program's last sign of life.  Prints one line of JSON; status 1 if a
file is bad.  `late` are files that lack a kernel that was older: the machine
was too busy to flush in time (their worst age is `oldest_lost_ms`).
"""
import array
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

if len(sys.argv) > 2:
    os.environ["O"] = sys.argv[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tracing import Trace, judge, start     # noqa: E402

FLUSH_NS = 20 * 1000000


def times_of(path):
    """When each kernel had ended, as the program told."""
    times = array.array("Q", path.read_bytes())
    return [t for t in times if t]


def kill_one(folder, name, rng):
    """(trace or None if it was killed before the first flush, age in ns of the
    oldest kernel that is not in it)."""
    path, told = folder / name, folder / (name + ".told")
    process = start("steady", told, GPUTRACE_OUT=path, GPUTRACE_FLUSH="20ms")
    deadline = time.monotonic() + 20
    while not (told.exists() and any(told.read_bytes()[:8])):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.4))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    times = times_of(told)
    told.unlink()
    if not path.exists():
        return None, times[-1] - times[0]
    trace = Trace(path)         # strict: raises where it is no whole document
    kernels = len(trace.slices("kernel"))
    lost = times[kernels:]
    return path, times[-1] - lost[0] if lost else 0


def main(count, seed=1):
    rng = random.Random(seed)
    bad, ages, paths = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            name = "%d.json%s" % (i, ".gz" if i % 2 else "")
            try:
                path, age = kill_one(pathlib.Path(folder), name, rng)
            except (ValueError, EOFError, OSError) as error:
                bad.append("%s: %s" % (name, error))
                continue
            ages.append(age)
            paths += [path] if path else []
        found = judge(*paths) if paths else ""
    ages.sort()
    print(json.dumps({
        "name": "kills", "count": count, "files": len(paths),
        "bad": len(bad), "judge": "not there" if found is None else
        "clean" if not found else found,
        "late": sum(age > FLUSH_NS for age in ages),
        "median_lost_ms": round(ages[len(ages) // 2] / 1e6, 1),
        "oldest_lost_ms": round(ages[-1] / 1e6, 1)}))
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad or found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
