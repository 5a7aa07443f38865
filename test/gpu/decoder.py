# SPDX-License-Identifier: MIT
"""A transformer that decodes at batch 1, and the ways in which servers run it.

Every mode is an object whose step() runs one decode step and leaves the GPU
work queued; sample() reads the token, which waits for it.  NVTX ranges as in
host/decode: prefill, step, forward, sample.
"""
import threading

import torch
from torch import nn
from torch.nn import functional

CONTEXT, WIDTH, HEADS, WORDS = 512, 1024, 16, 32000
nvtx = torch.cuda.nvtx


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), \
            nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), \
            nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache, place):
        size = x.shape[1]
        q, k, v = self.qkv(self.norm1(x)).view(
            1, size, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        cache[0].index_copy_(2, place, k)
        cache[1].index_copy_(2, place, v)
        y = functional.scaled_dot_product_attention(q, cache[0], cache[1])
        x = x + self.out(y.transpose(1, 2).reshape(1, size, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), \
            nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, token, caches, place):
        x = self.embed(token)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, place)
        return self.head(self.norm(x[:, -1:])).argmax(-1)


def make_model(layers):
    torch.manual_seed(1)
    with torch.device("cuda"):
        return Model(layers).to(torch.bfloat16).eval()


class Eager:
    """One request, launched kernel by kernel."""

    def __init__(self, model):
        self.model = model
        shape = (1, HEADS, CONTEXT, WIDTH // HEADS)
        self.caches = [[torch.zeros(shape, device="cuda",
                                    dtype=torch.bfloat16) for _ in range(2)]
                       for _ in model.layers]
        self.token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        self.place = torch.full((1,), 32, dtype=torch.long, device="cuda")

    def prefill(self, prompt=None):
        with nvtx.range("prefill"):
            if prompt is None:
                prompt = torch.arange(32)[None]
            places = torch.arange(prompt.shape[1], device="cuda")
            self.token.copy_(self.model(prompt.to("cuda"), self.caches,
                                        places))
            torch.cuda.synchronize()

    def step(self):
        self.token.copy_(self.model(self.token, self.caches, self.place))

    def sample(self):
        return self.token.item()


class Compiled(Eager):
    def __init__(self, model):
        super().__init__(torch.compile(model))


class Graph(Eager):
    """The same step as one CUDA graph."""

    def __init__(self, model):
        super().__init__(model)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                super().step()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            super().step()

    def step(self):
        self.graph.replay()


class Streams:
    """Three requests, each on a stream of its own."""

    def __init__(self, model):
        self.requests = [Eager(model) for _ in range(3)]
        self.streams = [torch.cuda.Stream() for _ in self.requests]
        torch.cuda.synchronize()

    def prefill(self):
        self.requests[0].prefill()

    def step(self):
        for request, stream in zip(self.requests, self.streams):
            with torch.cuda.stream(stream):
                request.step()

    def sample(self):
        torch.cuda.synchronize()


class Threads(Streams):
    """Three requests, each launched by a thread of its own."""

    @staticmethod
    def run(request, stream):
        with torch.inference_mode(), torch.cuda.stream(stream):
            with nvtx.range("request"):
                request.step()

    def step(self):
        threads = [threading.Thread(target=self.run, args=pair,
                                    name="request %d" % number)
                   for number, pair in enumerate(zip(self.requests,
                                                     self.streams))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Prompts(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return (torch.arange(16) * 7 + index) % WORDS


class Workers(Eager):
    """Each step begins with a prompt that a forked worker has made."""

    def __init__(self, model):
        super().__init__(model)
        self.loader = torch.utils.data.DataLoader(
            Prompts(), batch_size=1, num_workers=2, pin_memory=True)
        self.batches = iter(self.loader)
        self.places = torch.arange(16, device="cuda")

    def step(self):
        prompt = next(self.batches).to("cuda", non_blocking=True)
        self.token.copy_(self.model(prompt, self.caches, self.places))


MODES = {"eager": Eager, "graph": Graph, "streams": Streams,
         "threads": Threads, "workers": Workers, "compile": Compiled}


def one_step(mode):
    with nvtx.range("step"):
        with nvtx.range("forward"):
            mode.step()
        with nvtx.range("sample"):
            mode.sample()
