#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NCCL through ctypes, as vLLM calls it, and what the trace says of it.

    nccl_ctypes.py --out FOLDER --library LIBGPUTRACE GPUTRACE

For each algorithm and protocol that NCCL is told to use (NCCL_ALGO,
NCCL_PROTO), a process with all GPUs (two at most are used) makes all-reduces by
functions from the library's handle, which no wrapper sees.  Fails unless report
has each call, with that algorithm and protocol, its kernels and a bandwidth,
and NCCL says that it has loaded gputrace.  With one GPU NCCL launches nothing
of its own: then only that it loads us, and gives the right sums.
"""
import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys

CHOICES = [("Ring", "Simple"), ("Ring", "LL"), ("Ring", "LL128"),
           ("Tree", "Simple"), ("Tree", "LL")]
ROUNDS, ELEMENTS, FLOAT, SUM = 20, 1 << 20, 7, 0


def find_nccl(torch):
    """PyTorch's own, which it has loaded."""
    torch.cuda.nccl.version()
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if "/libnccl.so" in line:
            return line.split(maxsplit=5)[5]
    raise LookupError("libnccl.so.2 is not loaded")


def call():
    """In the process that is traced."""
    import torch

    nccl = ctypes.CDLL(find_nccl(torch))
    nr = min(torch.cuda.device_count(), 2)
    torch.zeros(1, device="cuda:0")
    comms = (ctypes.c_void_p * nr)()
    assert nccl.ncclCommInitAll(comms, nr, (ctypes.c_int * nr)(*range(nr))) == 0
    parts = [torch.full((ELEMENTS,), i + 1.0, device="cuda:%d" % i)
             for i in range(nr)]
    sums = [torch.empty_like(p) for p in parts]
    streams = [torch.cuda.Stream(p.device) for p in parts]
    for p in parts:
        torch.cuda.synchronize(p.device)
    for _ in range(ROUNDS):
        assert nccl.ncclGroupStart() == 0
        for part, total, comm, stream in zip(parts, sums, comms, streams):
            assert nccl.ncclAllReduce(
                ctypes.c_void_p(part.data_ptr()),
                ctypes.c_void_p(total.data_ptr()), ctypes.c_size_t(ELEMENTS),
                FLOAT, SUM, ctypes.c_void_p(comm),
                ctypes.c_void_p(stream.cuda_stream)) == 0
        assert nccl.ncclGroupEnd() == 0
    for total in sums:
        torch.cuda.synchronize(total.device)
        assert bool((total == nr * (nr + 1) / 2).all())
    for comm in comms:
        nccl.ncclCommDestroy(ctypes.c_void_p(comm))
    print(json.dumps({"ranks": nr}))


def run(options, algorithm, protocol):
    trace = pathlib.Path(options.out, "nccl_%s_%s.json" % (algorithm, protocol))
    env = dict(os.environ, LD_PRELOAD=options.library, GPUTRACE_OUT=str(trace),
               GPUTRACE_TRACE="cuda,nccl", NCCL_ALGO=algorithm,
               NCCL_PROTO=protocol, NCCL_NVLS_ENABLE="0", NCCL_DEBUG="INFO")
    done = subprocess.run([sys.executable, __file__, "--call"], env=env,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = json.loads([l for l in done.stdout.splitlines()
                        if l.startswith("{")][-1])["ranks"]
    report = subprocess.run([options.gputrace, "report", "-t", "nccl", "-f",
                             "json", str(trace)], capture_output=True,
                            text=True, check=True)
    rows = [r for r in json.loads(report.stdout)["nccl"]
            if r["name"] == "allreduce"]
    word = "%s %s" % (algorithm.upper(), protocol.upper())
    loaded = any("gputrace" in l and "rofiler" in l
                 for l in (done.stdout + done.stderr).splitlines())
    good = loaded and (ranks < 2 or (
        sum(r["count"] for r in rows) == ROUNDS * ranks and
        {r["algorithm"] for r in rows} == {word} and
        sum(r["kernel_count"] for r in rows) == ROUNDS * ranks and
        all(r["busbw"] > 0 and r["channels"] > 0 for r in rows)))
    return {"asked": word, "ranks": ranks, "loaded": loaded, "rows": rows,
            "good": good}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--call", action="store_true")
    parser.add_argument("--out", default=".")
    parser.add_argument("--library")
    parser.add_argument("gputrace", nargs="?")
    options = parser.parse_args()
    if options.call:
        call()
        return 0
    facts = [run(options, *choice) for choice in CHOICES]
    for fact in facts:
        print(json.dumps(fact))
    return 0 if all(f["good"] for f in facts) else 1


if __name__ == "__main__":
    sys.exit(main())
