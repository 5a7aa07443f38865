# SPDX-License-Identifier: MIT
"""What the names of modules cost an operator of a real PyTorch (CPU time of
the thread), with GPUTRACE_TORCH_MODULES on and off in turns, beside
torch.profiler without and with stacks, which has them:

    python torch_modules.py BUILD

`plain`: add_() 30 calls deep, in no module.  `inside`: in a module 8 modules
deep.  `leaf`: each in a module of its own.  `block`: what a transformer's block
does, for 4 numbers."""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS, TURNS = 15, 5


def measure():
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    import torch    # noqa: E402: as in a program that has CUDA first
    from torch import nn
    library = ctypes.CDLL(None)
    torch.set_num_threads(1)
    a, b = torch.ones(4), torch.ones(4)

    class Add(nn.Module):
        def forward(self, nr):
            for _ in range(nr):
                a.add_(b)
            return nr

    class Deep(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.inner = Deep(depth - 1) if depth else Add()

        def forward(self, nr):
            return self.inner(nr)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up = nn.LayerNorm(4), nn.Linear(4, 8)
            self.act, self.down = nn.GELU(), nn.Linear(8, 4)

        def forward(self, x):
            return x + self.down(self.act(self.up(self.norm(x))))

    def plain(nr, depth=30):
        if depth:
            return plain(nr, depth - 1)
        for _ in range(nr):
            a.add_(b)
        return nr

    add, deep, blocks = Add(), Deep(7), nn.Sequential(*[Block()
                                                       for _ in range(8)])

    def leaf(nr):
        for _ in range(nr):
            add(1)
        return nr

    def block(nr):
        x = torch.ones(2, 4)
        for _ in range(nr // 40):
            blocks(x)
        return nr // 40 * 40    # outermost operators

    ways = {"plain": (plain, 4000), "inside": (deep, 4000),
            "leaf": (leaf, 2000), "block": (block, 2000)}
    activities = [torch.profiler.ProfilerActivity.CPU]

    def timed(way, nr):
        start = time.thread_time_ns()
        done = way(nr)
        return (time.thread_time_ns() - start) / done

    def profiled(*way, **options):
        with torch.profiler.profile(activities=activities, **options):
            return timed(*way)

    def recorded(*way):
        library.cuProfilerStart()
        time.sleep(0.02)
        took = timed(*way)
        library.cuProfilerStop()
        return took

    with torch.no_grad():
        for name, way in ways.items():
            taken = {"alone": [], "recorded": [], "profiler": [], "stack": []}
            for _ in range(ROUNDS + 1):
                taken["alone"].append(timed(*way))
                taken["recorded"].append(recorded(*way))
                if "PROFILER" in os.environ:
                    taken["profiler"].append(profiled(*way))
                    taken["stack"].append(profiled(*way, with_stack=True))
            print(name, json.dumps({k: min(v[1:])
                                    for k, v in taken.items() if v}))


def main(build):
    """Medians over the turns, of what is above `alone` in the same turn."""
    above = {}
    for turn in range(TURNS):
        for modules in "on", "off":
            env = {**os.environ, "LD_LIBRARY_PATH": build + "/sim",
                   "LD_PRELOAD": build + "/libgputrace.so",
                   "GPUTRACE_OUT": "/dev/null", "GPUTRACE_LOG": "quiet",
                   "GPUTRACE_TRACE": "cuda,torch",
                   "GPUTRACE_TORCH_SHAPES": "off",
                   "GPUTRACE_START": "profiler-api",
                   "GPUTRACE_TORCH_MODULES": modules}
            if modules == "off" and not turn:
                env["PROFILER"] = "1"
            done = subprocess.run([sys.executable, __file__], env=env,
                                  check=True, capture_output=True, text=True)
            for line in done.stdout.splitlines():
                if not line.startswith(("plain", "inside", "leaf", "block")):
                    continue
                way, taken = line.split(" ", 1)
                taken = json.loads(taken)
                for kind, ns in taken.items():
                    kind = {"recorded": "modules " + modules}.get(kind, kind)
                    above.setdefault((way, kind), []).append(
                        ns - (kind != "alone") * taken["alone"])
    for (way, kind), ns in sorted(above.items()):
        print(json.dumps({"name": "torch modules, %s, %s" % (way, kind),
                          "value": round(statistics.median(ns)),
                          "unit": "ns"}))


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    measure()
