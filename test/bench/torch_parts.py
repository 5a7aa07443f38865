# SPDX-License-Identifier: MIT
"""What the parts of the source `torch` cost an operator of a decoder on a real
PyTorch's CPU (CPU time of the thread, in bursts that its ring holds), each in
a process of its own beside the same step without a window:

    python torch_parts.py BUILD

The step's 24 layers have 1,979 operators in 142 modules of 8 numbers, so that
next to nothing but operators is in it; torch.profiler, CPU only, beside it."""
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS, BURSTS, TURNS = 5, 10, 3
WIDTH, LAYERS = 8, 24
PARTS = {"operators": ("off", "off"), "and modules": ("off", "on"),
         "and shapes": ("on", "off"), "torch.profiler": None,
         "torch.profiler, shapes": None}


def make_step():
    import torch    # as in a program that has CUDA first
    from torch import nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).view(
                1, 1, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, WIDTH))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    torch.set_num_threads(1)
    model = nn.Sequential(*[Layer() for _ in range(LAYERS)]).eval()
    x = torch.ones(1, 1, WIDTH)
    return torch, lambda: model(x)


def bursts(step):
    """ns a step: of two, the second; in between the ring is emptied."""
    taken = []
    for _ in range(BURSTS):
        time.sleep(0.025)
        step()
        start = time.thread_time_ns()
        step()
        taken.append(time.thread_time_ns() - start)
    return taken


def measure(part):
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    torch, step = make_step()
    library = ctypes.CDLL(None)
    alone, looked_at, number = [], [], 0
    with torch.inference_mode():
        with torch.profiler.profile(activities=[
                torch.profiler.ProfilerActivity.CPU]) as profile:
            step()
        number = sum(e.count for e in profile.key_averages())
        for _ in range(30):
            step()
        gc.disable()
        for _ in range(ROUNDS):
            alone += bursts(step)
            if PARTS[part]:
                library.cuProfilerStart()
                looked_at += bursts(step)
                library.cuProfilerStop()
                continue
            with torch.profiler.profile(
                    activities=[torch.profiler.ProfilerActivity.CPU],
                    record_shapes="shapes" in part):
                looked_at += bursts(step)
    quarters = [statistics.quantiles(t, n=4)[0] for t in (looked_at, alone)]
    print("ns", *[q / number for q in quarters], number)


def main(build):
    taken = {part: [] for part in PARTS}
    for part in list(PARTS) * TURNS:
        shapes, modules = PARTS[part] or ("off", "off")
        env = {**os.environ, "LD_LIBRARY_PATH": build + "/sim",
               "LD_PRELOAD": build + "/libgputrace.so",
               "GPUTRACE_OUT": "/dev/null", "GPUTRACE_LOG": "quiet",
               "GPUTRACE_TRACE": "cuda,torch",
               "GPUTRACE_START": "profiler-api",
               "GPUTRACE_TORCH_SHAPES": shapes,
               "GPUTRACE_TORCH_MODULES": modules}
        done = subprocess.run([sys.executable, __file__, "--part", part],
                              env=env, check=True, capture_output=True,
                              text=True)
        line = [l for l in done.stdout.splitlines() if l.startswith("ns ")][0]
        taken[part].append([float(word) for word in line.split()[1:]])
    for part, found in taken.items():
        print(json.dumps({
            "name": "torch, a decoder's operator, " + part,
            "value": round(statistics.median(a - b for a, b, _ in found)),
            "unit": "ns",
            "baseline": round(statistics.median(b for _, b, _ in found))}))


if len(sys.argv) == 3 and sys.argv[1] == "--part":
    measure(sys.argv[2])
else:
    main(sys.argv[1])
