#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Minutes of PyTorch under the library: eager steps, a graph, streams.

    torch_soak.py [--seconds S]

To be run with the library preloaded.  No threads that come and go: PyTorch
2.11 itself grows by 4.8 MB for each three of them (RESULTS.md).  Says the steps, and how much memory grew
from a tenth of the time on, of the process and as PyTorch counts the GPU's.
"""
import argparse
import json
import time

import torch
from decoder import MODES, make_model, one_step
from torch_server import resident_mb


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=540)
    options = parser.parse_args()
    begin, steps, samples = time.monotonic(), 0, []
    with torch.inference_mode():
        model = make_model(24)
        modes = [MODES[name](model) for name in ("eager", "graph", "streams")]
        for mode in modes:
            mode.prefill()
        while time.monotonic() - begin < options.seconds:
            for mode in modes:
                for _ in range(50):
                    one_step(mode)
                steps += 50
            samples.append((time.monotonic() - begin, resident_mb(),
                            torch.cuda.memory_allocated() / 1e6))
    later = [s for s in samples if s[0] > options.seconds / 10] or samples
    print(json.dumps({
        "seconds": round(samples[-1][0]), "steps": steps,
        "mb": round(later[-1][1]),
        "grew_mb": round(max(s[1] for s in later) - later[0][1], 1),
        "gpu_grew_mb": round(max(s[2] for s in later) - later[0][2], 1)}))


if __name__ == "__main__":
    main()
