#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The profiler plug-in as a real libnccl sees it, without a GPU.

    nccl_interface.py BUILD LIBNCCL

Has the file (of a wheel nvidia-nccl-cu12, 2.26 or later) load the plug-in as it
does for its first communicator, by NCCL_PROFILER_PLUGIN; takes the table of
each version that it knows; and passes it a collective and a send in the file's
own layout, which NCCL turns into that of the table: what each layout is, is
NCCL's own word.  Then it compares with the trace.  NCCL's functions are local:
found by their names in the file's symbol table, and called by address, with a
communicator of zeros.  The driver is the simulated one.
"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

INIT = "_Z22ncclProfilerPluginInitP8ncclComm"
GET = "_Z18getNcclProfiler_v%dPv"
COLL, P2P = 2, 4
HASH, RANKS, RANK = 0xfeedc0de00000008, 8, 5
P, U8, INT, U64 = (ctypes.c_char_p, ctypes.c_uint8, ctypes.c_int,
                   ctypes.c_uint64)
WHO = [("comm_name", P), ("hash", U64)]
TYPES = {"ncclInt8": "Char", "ncclFloat16": "Half", "ncclBfloat16": "BFloat16",
         "ncclFloat32": "Float"}


def native(version):
    """The layouts that a NCCL of that interface has, and the head's type."""
    old = version < 4
    coll = (WHO if old else []) + [
        ("seq", U64), ("func", P), ("from", U64), ("to", U64), ("count", U64),
        ("root", INT), ("type", P), ("channels", U8), ("warps", U8),
        ("algo", P), ("proto", P), ("group", U64), ("variant", P),
        ("sym", ctypes.c_bool), ("tag", U64)]
    p2p = (WHO if old else []) + [
        ("func", P), ("buffer", U64), ("type", P), ("count", U64),
        ("peer", INT), ("channels", U8), ("group", U64), ("tag", U64)]
    kind = U64 if version >= 5 else U8

    def event(name, fields):
        part = type(name, (ctypes.Structure,), {"_fields_": fields})
        return type("event", (ctypes.Structure,), {"_fields_": [
            ("kind", kind), ("parent", U64), ("rank", INT), ("of", part),
            ("rest", ctypes.c_char * 256)]})
    return event("coll", coll), event("p2p", p2p)


class Table(ctypes.Structure):
    _fields_ = [("name", P)] + [(n, ctypes.c_void_p) for n in (
        "init", "start", "stop", "record", "finalize")]


def symbols(path):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(["nm", path], capture_output=True, text=True,
                          check=True, env=env)
    parts = [l.split() for l in done.stdout.splitlines()]
    return {p[2]: int(p[0], 16) for p in parts if len(p) == 3}


def base_of(path):
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(" " + os.path.realpath(path)):
            return int(line.split("-")[0], 16)
    raise LookupError(path)


def init(table, version):
    context, mask = ctypes.c_void_p(), (INT * 1)()
    function = ctypes.CFUNCTYPE(INT, *[U64] * 8)(table.init)
    out, mask = ctypes.addressof(context), ctypes.addressof(mask)
    name = ctypes.cast(b"real", ctypes.c_void_p).value
    if version >= 5:
        function(out, HASH, mask, name, 1, RANKS, RANK, 0)
    elif version == 4:
        function(out, mask, name, HASH, 1, RANKS, RANK, 0)
    else:
        function(out, mask, 0, 0, 0, 0, 0, 0)
    return context


def tell(table, context, newest, case):
    coll, p2p = native(newest)
    start = ctypes.CFUNCTYPE(INT, ctypes.c_void_p, ctypes.c_void_p,
                             ctypes.c_void_p)(table.start)
    event = p2p() if case["func"] == "Send" else coll()
    event.kind = P2P if case["func"] == "Send" else COLL
    event.rank = RANK
    if newest >= 5:
        event.of.group = case["plan"]
    else:
        event.parent = case["plan"]
    for key, value in case.items():
        if hasattr(event.of, key):
            setattr(event.of, key, value.encode()
                    if isinstance(value, str) else value)
    if newest < 4:
        event.of.hash, event.of.comm_name = HASH, b"real"
    handle = ctypes.c_void_p()
    assert start(context, ctypes.byref(handle), ctypes.byref(event)) == 0


def cases(version):
    plan = 100 * version
    return [
        {"func": "AllReduce", "count": 1000 + version, "type": "ncclBfloat16",
         "root": 0, "channels": 20 + version, "algo": "NVLS_TREE",
         "proto": "SIMPLE", "seq": 40 + version, "plan": plan + 1},
        {"func": "Broadcast", "count": 3, "type": "ncclInt8", "root": 6,
         "channels": 2, "algo": "RING", "proto": "LL128", "seq": 7,
         "plan": plan + 2},
        {"func": "Send", "count": 9, "type": "ncclFloat32", "peer": 4,
         "channels": 11, "plan": plan + 3},
    ]


def call(library, nccl):
    """In the process that is traced.  Prints the tables that NCCL knows."""
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    ctypes.CDLL(nccl)
    known, base = symbols(nccl), base_of(nccl)
    comm = ctypes.create_string_buffer(64 << 20)
    ctypes.CFUNCTYPE(INT, ctypes.c_void_p)(base + known[INIT])(
        ctypes.addressof(comm))
    versions = [v for v in range(1, 99) if GET % v in known]
    newest = versions[-1]
    ours = ctypes.CDLL(library)
    if newest == 3:     # 2.26 passes as v2 what is v3, and asks for v3 first
        versions.remove(2)
    for v in versions:
        found = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
            base + known[GET % v])(ours._handle)
        table = Table.from_address(found)
        assert table.name == b"gputrace"
        context = init(table, newest)
        for case in cases(v):
            tell(table, context, newest, case)
    print(json.dumps({"versions": versions}))


def compare(versions, path):
    newest = versions[-1]
    events = [e for e in json.loads(path.read_text())["traceEvents"]
              if e.get("cat") == "nccl"]
    expected = [(v, c) for v in versions for c in cases(v)]
    assert len(events) == len(expected), (len(events), len(expected))
    for (version, case), event in zip(expected, events):
        args = event["args"]
        assert event["name"] == case["func"]
        pairs = [(args["plan"], case["plan"]), (args.get("Seq"),
                                                case.get("seq")),
                 (args["dtype"], TYPES[case["type"]]),
                 (args["In msg nelems"], case["count"]),
                 (args.get("algorithm"), case.get("algo")),
                 (args.get("protocol"), case.get("proto")),
                 (args.get("peer"), case.get("peer"))]
        if case["func"] == "Broadcast":
            pairs.append((args["root"], case["root"]))
        # Of a send: what NCCL 2.28 and later passes as v4 is not set.
        if "algo" in case or version >= 5 or version == newest == 4:
            pairs.append((args["channels"], case["channels"]))
        if version >= 4:
            pairs += [(args["Group size"], RANKS), (args["Rank"], RANK),
                      (args["comm hash"], hex(HASH)),
                      (args["comm name"], "real")]
        for got, want in pairs:
            assert got == want, (version, case, args)


def main():
    if sys.argv[1] == "--call":
        call(*sys.argv[2:])
        return
    build, nccl = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    library = str(build / "libgputrace.so")
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "t.json"
        env = dict(os.environ, LD_PRELOAD=library, GPUTRACE_OUT=str(trace),
                   GPUTRACE_TRACE="cuda,nccl", NCCL_DEBUG="INFO",
                   LD_LIBRARY_PATH=str(build / "sim"))
        done = subprocess.run(
            [sys.executable, __file__, "--call", library, nccl], env=env,
            capture_output=True, text=True, check=False)
        said = [l for l in done.stdout.splitlines() if "rofiler" in l]
        assert done.returncode == 0, done.stdout + done.stderr
        versions = json.loads([l for l in done.stdout.splitlines()
                               if l.startswith("{")][-1])["versions"]
        compare(versions, trace)
    print("\n".join(said))
    print("interfaces", *versions, "as NCCL passes them: right")


if __name__ == "__main__":
    main()
