# SPDX-License-Identifier: MIT
"""torch_truth.py OUT: a little of everything on the CPU, which torch.profiler
writes to OUT, while the library that is preloaded looks on as well.  Prints
its key_averages() as the last line, times in us."""
import json
import sys

from observed_torch import torch

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 10))
attention = torch.nn.MultiheadAttention(16, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    out = model(torch.randn(4, 3, 8, 8))
    loss = torch.nn.functional.cross_entropy(out, torch.tensor([1, 2, 3, 4]))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    queries = torch.randn(5, 2, 16)
    attention(queries, queries, queries)
    torch.cat([torch.ones(2, 3), torch.zeros(1, 3)]).to(torch.bfloat16).sum()
    torch.zeros(1, 2, 1, 2, 1, 2, dtype=torch.int64).add_(1) \
        .sum().item()


with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True) as profile:
    for i in range(3):
        with torch.profiler.record_function("ProfilerStep#%d" % i):
            step()
profile.export_chrome_trace(sys.argv[1])
print(json.dumps([[row.key, row.count, row.self_cpu_time_total,
                   row.cpu_time_total] for row in profile.key_averages()]))
