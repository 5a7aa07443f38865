# SPDX-License-Identifier: MIT
"""make soak: hours in minutes, on the simulated GPU.

A program that launches RATE kernels a second (200,000) is recorded for
MINUTES (30) into /dev/null, where everything is encoded and nothing kept, then
for a sixth of that into files that rotate.  Its memory, sampled every 10 s,
must be flat after the warm-up, and nothing may be lost.

Prints a line of JSON for each figure; status 1 if one misses its bound.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("O", "build")).resolve()
MINUTES = float(os.environ.get("MINUTES", "30"))
RATE = int(os.environ.get("RATE", "200000"))
# All that the library may hold, by GPUTRACE_BUFFER's default.
BUFFER_MB = 256
# Grown by more than that after the warm-up is not flat.  (A moment in which the
# machine does not run the writer makes buffers of the pool pile up, once, to
# their height: 10 MB for 50 ms at that rate.  360 million launches that leave a
# byte each would be 360 MB.)
GROWTH_MB = 16
failures = []


def figure(name, value, unit, baseline=None, good=True):
    print(json.dumps({"name": name, "value": value, "unit": unit,
                      "baseline": baseline}), flush=True)
    if not good:
        failures.append(name)


def resident_mb(pid):
    for line in open("/proc/%d/status" % pid):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def sample(process, every_s):
    """[(seconds, MB)] while it runs."""
    began, samples = time.monotonic(), []
    while process.poll() is None:
        try:
            samples.append((time.monotonic() - began,
                            resident_mb(process.pid)))
            process.wait(every_s)
        except (OSError, subprocess.TimeoutExpired):
            pass
    return samples


def soak(name, out, seconds, **settings):
    environment = dict(os.environ, LD_PRELOAD=str(BUILD / "libgputrace.so"),
                       LD_LIBRARY_PATH=str(BUILD / "sim"),
                       SIM_LAUNCH_NS=os.environ.get("SIM_LAUNCH_NS", "500"),
                       GPUTRACE_OUT=str(out), GPUTRACE_LOG="info", **settings)
    process = subprocess.Popen(
        [str(BUILD / "host" / "bounds"), "soak", str(seconds), str(RATE)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    samples = sample(process, min(10, seconds / 20))
    text, said = process.communicate()
    if process.returncode:
        failures.append("%s: status %d" % (name, process.returncode))
        print(said, file=sys.stderr)
        return
    tell(name, seconds, samples, json.loads(text.splitlines()[-1]), said)


def tell(name, seconds, samples, did, said):
    # The first tenth, a minute at most, fills tables and pools.
    warm = min(60, seconds / 5)
    later = [mb for at, mb in samples if warm <= at] or [0]
    growth = max(later) - later[0]
    launched = did["gpu"]["kernels"]
    figure(name + "/rate", did["rate"]["kernels a second"], "launches/s",
           RATE)
    figure(name + "/launches", launched, "kernels")
    figure(name + "/memory", round(max(later), 1), "MB", BUFFER_MB,
           max(later) < BUFFER_MB)
    figure(name + "/growth", round(growth, 1), "MB", GROWTH_MB,
           growth <= GROWTH_MB)
    causes = re.search(r" lost(?: in all)? \((.*)\)$", said, re.M)
    lost = {cause: int(count) for cause, count in
            (part.rsplit(" ", 1) for part in causes[1].split(", "))} \
        if causes else {}
    rotated = lost.pop("events in files rotated away", 0)
    figure(name + "/lost", sum(lost.values()), "records", 0,
           not sum(lost.values()))
    if rotated:
        figure(name + "/rotated away", rotated, "events")
    for line in said.splitlines():
        print(line, file=sys.stderr)


def main():
    soak("null", "/dev/null", MINUTES * 60)
    with tempfile.TemporaryDirectory() as folder:
        soak("rotation", pathlib.Path(folder) / "t.json", MINUTES * 10,
             GPUTRACE_MAX_SIZE="64M", GPUTRACE_KEEP="2")
    for failure in failures:
        print("not met: " + failure, file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
