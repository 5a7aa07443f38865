# SPDX-License-Identifier: MIT
"""torch_modules_truth.py OUT: modules of a real PyTorch on the CPU, which
torch.profiler writes to OUT with its stacks, while the library that is
preloaded looks on as well."""
import sys

from observed_torch import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.act, self.drop = nn.GELU(), nn.Dropout(0.1)
        self.inner = Block(depth - 1) if depth else None

    def forward(self, x):
        x = self.drop(self.b(self.act(self.a(x)))) + x
        return self.inner(x) if self.inner else x * 2


class Again(nn.Module):
    """The same module in a loop, and in itself."""
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, depth=2):
        for _ in range(3):
            self.lin(x)
        y = self(x, depth=depth - 1) if depth else x
        return self.lin(y) + x


class Checkpointed(nn.Module):
    def __init__(self, inner, reentrant):
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant) + 1


class Hooked(nn.Module):
    def forward(self, x):
        return torch.relu(x)


hooked = Hooked()
hooked.register_forward_hook(lambda m, args, out: out + 1)
model = nn.Sequential(
    Block(2), nn.LayerNorm(4), Block(0), Again(), hooked,
    Checkpointed(Block(0), True), Checkpointed(Block(0), False),
    nn.TransformerEncoderLayer(4, 2, 8), nn.LSTM(4, 4))

with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True,
        experimental_config=torch._C._profiler._ExperimentalConfig(
            verbose=True)) as profile:
    for i in range(2):
        with torch.profiler.record_function("a step"):
            x = torch.ones(2, 3, 4, requires_grad=True)
            out = model(x.flatten(0, 1))[0]
            model(x.flatten(0, 1))
            out.sum().backward()
    with torch.no_grad():
        x = torch.ones(2, 4)
        for _ in range(5):
            model(x)
profile.export_chrome_trace(sys.argv[1])
