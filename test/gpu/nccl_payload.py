# SPDX-License-Identifier: MIT
"""NCCL by dlsym, as vLLM calls it: what NCCL says to NVTX is in the trace.

    nccl_payload.py LIBRARY FILE

A communicator of the first GPU alone, and all-reduces of several sizes, in a
process of its own, with LIBRARY preloaded; then it reads the trace, FILE: each
all-reduce has its bytes, the communicator and the operation, and the range
that makes the communicator is closed. The last line says what was found.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys

COUNTS, FLOAT, MAX = [1, 1000, 1 << 20], 7, 2


def find_nccl():
    for folder in sys.path:
        for path in glob.glob(folder + "/nvidia/nccl/lib/libnccl.so.2"):
            return path
    return "libnccl.so.2"


def child():
    import torch
    torch.cuda.init()
    # A handle of its own: not one symbol of it is in the global scope.
    nccl = ctypes.CDLL(find_nccl(), mode=os.RTLD_LOCAL)
    comm, stream = ctypes.c_void_p(), ctypes.c_void_p()
    data = torch.ones(max(COUNTS), device="cuda")
    at = ctypes.c_void_p(data.data_ptr())
    results = [nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)]
    for count in COUNTS:
        results.append(nccl.ncclAllReduce(at, at, ctypes.c_size_t(count),
                                          FLOAT, MAX, comm, stream))
    torch.cuda.synchronize()
    nccl.ncclCommDestroy(comm)
    print(json.dumps({"results": results}))
    return 0 if not any(results) else 1


def main():
    if sys.argv[1] == "--child":
        return child()
    env = dict(os.environ, LD_PRELOAD=sys.argv[1], GPUTRACE_OUT=sys.argv[2])
    try:
        subprocess.run([sys.executable, __file__, "--child"], check=True,
                       env=env)
    except subprocess.CalledProcessError as error:
        print(json.dumps({"good": False, "program": error.returncode}))
        return 1
    with open(sys.argv[2], encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    ranges = [e for e in events if e.get("cat") == "user_annotation" and
              e["args"].get("domain") == "NCCL"]
    sizes = [e["args"].get("Message size [bytes]") for e in ranges
             if e["name"] == "ncclAllReduce"]
    comms = {str(e["args"].get("NCCL communicator ID")) for e in ranges
             if e["name"] in ("ncclAllReduce", "ncclCommInitAll")}
    ops = {e["args"].get("Reduction operation") for e in ranges
           if e["name"] == "ncclAllReduce"}
    facts = {"sizes": sizes, "communicators": sorted(comms),
             "operations": sorted(map(str, ops)),
             "open": [e["name"] for e in ranges if e["args"].get("open")]}
    facts["good"] = sizes == [4 * n for n in COUNTS] and len(comms) == 1 and \
        ops == {"Max"} and not facts["open"]
    print(json.dumps(facts))
    return 0 if facts["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
