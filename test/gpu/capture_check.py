#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a capture from outside costs a server: before, during, behind it.

    capture_check.py [--rounds N] [--attach] [--out FILE] GPUTRACE SERVER...

SERVER prints a line each quarter of a second: seconds, steps so far, MB (as
torch_server.py does).  Rounds of 3 s without, a capture of 2 s, 3 s without;
the half second at each edge is left out.  With --attach the library comes at
the first round, without a preload.  Says the rates, and the median of
behind / before with its 95 % interval (bootstrap over the rounds).
"""
import argparse
import bisect
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time

QUIET_S, CAPTURE_S, EDGE_S = 3.0, 2.0, 0.5


class Server:
    def __init__(self, command, preload):
        env = dict(os.environ, GPUTRACE_START="off")
        if preload:
            env["LD_PRELOAD"] = preload
        self.process = subprocess.Popen(command, env=env, text=True,
                                        stdout=subprocess.PIPE)
        self.times, self.steps, self.mb = [], [], []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            at, steps, mb = line.split()
            self.steps.append(int(steps))
            self.mb.append(float(mb))
            self.times.append(float(at))

    def rate(self, begin, end):
        """Steps a second between the first and last line inside."""
        first = bisect.bisect_left(self.times, begin + EDGE_S)
        last = bisect.bisect_right(self.times, end - EDGE_S) - 1
        return (self.steps[last] - self.steps[first]) / \
            (self.times[last] - self.times[first])

    def wait_until_it_runs(self):
        deadline = time.monotonic() + 120
        while len(self.times) < 8:
            if self.process.poll() is not None or \
                    time.monotonic() > deadline:
                sys.exit("the server does not run")
            time.sleep(0.1)


def command(*args):
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(args[:2]), done.stderr.strip()))


def one_round(server, gputrace, out):
    times = [time.time()]
    time.sleep(QUIET_S)
    times.append(time.time())
    command(gputrace, "capture", str(server.process.pid), "-d",
            "%gs" % CAPTURE_S, "-o", out)
    times.append(time.time())
    time.sleep(QUIET_S + 2 * EDGE_S)
    times.append(time.time())
    return [server.rate(*times[:2]),
            server.rate(times[1], times[1] + CAPTURE_S + EDGE_S),
            server.rate(times[2] + EDGE_S, times[3])]


def interval(ratios):
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios)))
                     for _ in range(2000))
    return medians[50], medians[-51]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--attach", action="store_true")
    parser.add_argument("--out", default="capture.json")
    parser.add_argument("gputrace")
    parser.add_argument("server", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    library = os.path.join(os.path.dirname(os.path.abspath(options.gputrace)),
                           "libgputrace.so")
    server = Server(options.server, None if options.attach else library)
    try:
        server.wait_until_it_runs()
        if options.attach:
            time.sleep(QUIET_S)
            bare = server.rate(server.times[0], time.time())
            command(options.gputrace, "attach", str(server.process.pid))
        rounds, sizes = [], [server.mb[-1]]
        for _ in range(options.rounds):
            rounds.append(one_round(server, options.gputrace, options.out))
            sizes.append(server.mb[-1])
        alive = server.process.poll() is None
    finally:
        server.process.kill()
    ratios = [behind / before for before, _, behind in rounds]
    low, high = interval(ratios)
    facts = {"rounds": len(rounds), "alive": alive,
             "before": round(statistics.median(r[0] for r in rounds), 2),
             "during": round(statistics.median(r[1] for r in rounds), 2),
             "behind": round(statistics.median(r[2] for r in rounds), 2),
             "behind/before": round(statistics.median(ratios), 4),
             "interval": [round(low, 4), round(high, 4)],
             "mb": [round(mb) for mb in sizes]}
    if options.attach:
        facts["bare"] = round(bare, 2)
    print(json.dumps(facts))
    return 0 if alive else 1


if __name__ == "__main__":
    sys.exit(main())
