# SPDX-License-Identifier: MIT
"""gputrace merge: several files on one timeline.

What must come out is computed here from the files that go in: each event at
its own time since 1970, and a renumbering that keeps apart what is apart.
"""
import collections
import gzip
import json
import os
import signal
import subprocess
import time
from decimal import Decimal

import pytest
from tracing import BUILD, ROOT, SANITIZED, Trace, judge, ns, run

BASE = 1790857026000000000
KINETO = ROOT.parent / "shared" / "data"
LINKS = ("correlation", "External id", "wait_on_cuda_event_record_corr_id",
         "call correlation")


def document(path, rank=0, host="node-a", base=BASE, pid=1, launches=3,
             world=2, **more):
    """A trace as the recorder writes it: process, GPU, arrows."""
    gpu, events = 5000000, [
        {"ph": "M", "name": "process_labels", "pid": pid, "tid": pid,
         "args": {"labels": "CPU"}}]
    for i in range(1, launches + 1):
        at = 1000 * i + rank
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel",
                "pid": pid, "tid": 7, "ts": at, "dur": 5,
                "args": {"cbid": 211, "correlation": i}}
        work = {"ph": "X", "cat": "kernel", "name": "k%d" % rank, "pid": gpu,
                "tid": 1, "ts": at + 10.125, "dur": 20.5,
                "args": {"device": 0, "context": 1, "stream": 7,
                         "correlation": i, "grid": [1, 1, 1],
                         "block": [32, 1, 1], "registers per thread": 16,
                         "shared memory": 0}}
        arrow = {"cat": "ac2g", "name": "ac2g", "id": i}
        events += [call, work,
                   dict(arrow, ph="s", pid=pid, tid=7, ts=at),
                   dict(arrow, ph="f", bp="e", pid=gpu, tid=1,
                        ts=at + 10.125)]
    events += [{"ph": "M", "name": n, "pid": p, "tid": t, "args": a}
               for n, p, t, a in (
        ("process_name", pid, pid, {"name": "python3"}),
        ("process_sort_index", pid, pid, {"sort_index": 0}),
        ("thread_name", pid, 7, {"name": "main"}),
        ("thread_sort_index", pid, 7, {"sort_index": 1}),
        ("process_name", gpu, gpu, {"name": "GPU 0 H200"}),
        ("process_sort_index", gpu, gpu, {"sort_index": 1}),
        ("thread_name", gpu, 1, {"name": "stream 7"}),
        ("thread_sort_index", gpu, 1, {"sort_index": 3}))]
    path.write_text(json.dumps({
        "schemaVersion": 1, "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "distributedInfo": {"rank": rank, "world_size": world},
        "traceEvents": events + more.pop("events", []),
        "deviceProperties": [{"id": 0, "name": "H200", "numSms": 132}],
        "gputrace": {"host": host, "pid": pid,
                     "losses": {"ring full": rank}}, **more}))
    return path


def merge(gputrace, out, *files):
    done = gputrace("merge", "-o", out, *files)
    assert (done.status, done.out) == (0, ""), done.err
    return Trace(out)


def moment(trace, event):
    """Since 1970."""
    return trace.header.get("baseTimeNanoseconds", 0) + event["start"]


def is_name(event):
    return event["ph"] == "M" and event["name"].startswith(
        ("process_", "thread_"))


def renumbered(event):
    """What a merge may change, and the rest."""
    e = dict(event)
    args = dict(e.pop("args", {}))
    for key in ("ts", "start", "end"):
        e.pop(key, None)
    lane, ident = (e.pop("pid", None), e.pop("tid", None)), e.pop("id", None)
    links = {k: args.pop(k, None) for k in LINKS}
    return lane, ident, links, (e, args)


def check_merge(merged, sources):
    """Every event, in order, and what is apart stays apart."""
    events = iter(e for e in merged.events if not is_name(e))
    lanes, pids, ids = {}, {}, {}
    for file, source in enumerate(sources):
        for e in source.events:
            if is_name(e):
                continue
            got = next(events)
            assert moment(merged, got) == moment(source, e)
            assert got["end"] - got["start"] == e["end"] - e["start"]
            lane, ident, links, rest = renumbered(e)
            to, to_id, to_links, to_rest = renumbered(got)
            assert rest == to_rest
            if got["ph"] != "C":
                assert lanes.setdefault((file, *lane), to) == to
            assert pids.setdefault((file, lane[0]), to[0]) == to[0]
            for a, b in [(ident, to_id), *((links[k], to_links[k])
                                           for k in LINKS)]:
                if isinstance(a, int) and a > 0:
                    assert ids.setdefault((file, a), b) == b
                else:
                    assert a == b
    assert next(events, None) is None
    for table in (lanes, pids, ids):
        assert len(set(table.values())) == len(table)
    return pids


# ---- ----

def test_ranks_of_two_hosts(gputrace, tmp_path):
    files = [document(tmp_path / "b.json", rank=1, host="node-b",
                      base=BASE + 2500000123),
             document(tmp_path / "a.json", rank=0, base=BASE + 7)]
    merged = merge(gputrace, tmp_path / "m.json", *files)
    pids = check_merge(merged, [Trace(f) for f in files])
    assert merged.header["baseTimeNanoseconds"] == BASE + 7
    assert not judge(merged.path), judge(merged.path)
    names = merged.labels("process_name")
    assert {k: names[v] for k, v in pids.items()} == {
        (0, 1): "python3 (rank 1, node-b)",
        (0, 5000000): "GPU 0 H200 (rank 1, node-b)",
        (1, 1): "python3 (rank 0, node-a)",
        (1, 5000000): "GPU 0 H200 (rank 0, node-a)"}
    order = merged.labels("process_sort_index")
    assert sorted(pids, key=lambda p: order[pids[p]]) == [
        (1, 1), (1, 5000000), (0, 1), (0, 5000000)]
    labels, = [e["args"]["labels"] for e in merged.events
               if e["name"] == "process_labels" and e["pid"] == pids[0, 1]]
    assert labels == "CPU, rank 1, node-b"
    # the lower rank keeps its numbers
    assert (pids[1, 1], pids[1, 5000000]) == (1, 5000000)
    assert set(merged.labels("thread_name").values()) == {"main", "stream 7"}
    assert merged.losses() == {"ring full": 1}
    assert merged.header["distributedInfo"] == {"rank": 0, "world_size": 2}
    about = merged.own["merged"]
    assert [a["shift_ns"] for a in about] == [2500000116, 0]
    assert about[0]["header"]["gputrace"]["host"] == "node-b"
    assert about[0]["pids"] == {"1": pids[0, 1],
                                "5000000": pids[0, 5000000]}
    # a merge can be merged again, and names nothing twice
    third = document(tmp_path / "c.json", rank=2, host="node-c")
    again = merge(gputrace, tmp_path / "n.json", merged.path, third)
    assert not judge(again.path), judge(again.path)
    assert sorted(again.labels("process_name").values()) == sorted(
        [*names.values(), "python3 (rank 2, node-c)",
         "GPU 0 H200 (rank 2, node-c)"])


@pytest.mark.parametrize("files, want", [
    ([dict(pid=5), dict(pid=6)], ["python3 (pid 5)", "python3 (pid 6)"]),
    ([dict(), dict()], ["python3 (pid 1, 0.json)",
                        "python3 (pid 1, 1.json)"]),
    ([dict()], ["python3"]),
    ([dict(world=8, rank=3)], ["python3 (rank 3)"]),
])
def test_names_say_what_differs(gputrace, tmp_path, files, want):
    paths = [document(tmp_path / ("%d.json" % i), **dict({"world": 1}, **f))
             for i, f in enumerate(files)]
    merged = merge(gputrace, tmp_path / "m.json", *paths)
    names = merged.labels("process_name").values()
    assert sorted(n for n in names if "python" in n) == want
    assert not judge(merged.path), judge(merged.path)


def test_recorded_ranks(gputrace, tmp_path):
    """Two runs: valid for every reader, and the same report as of both."""
    files = []
    for rank in range(2):
        files.append(tmp_path / ("r%d.json" % rank))
        done = run("decode", "--steps", 4, "--kernels", 9, "--streams", 2,
                   GPUTRACE_OUT=files[-1], RANK=rank, WORLD_SIZE=2)
        assert done.status == 0, done.err
    merged = merge(gputrace, tmp_path / "m.json.gz", *files)
    assert merged.path.read_bytes()[:2] == b"\x1f\x8b"
    check_merge(merged, [Trace(f) for f in files])
    assert not judge(merged.path), judge(merged.path)
    names = merged.labels("process_name").values()
    assert {"decode (rank 0)", "decode (rank 1)"} <= set(names)
    whole, parts = (json.loads(gputrace("report", "-f", "json", *f).out)
                    for f in ([merged.path], files))
    for table in ("summary", "kernels", "api", "copies", "nvtx", "nvtx_gpu"):
        assert whole[table] == parts[table], table
    assert len(whole["devices"]) == 2
    # by diff, too: the GPUs of both ranks, without a difference
    same = json.loads(gputrace("diff", "-f", "json", merged.path,
                               merged.path).out)
    busy, = [r for r in same["metrics"] if r["name"] == "GPU idle"]
    step, = [r for r in same["metrics"] if r["name"] == "step time"]
    assert busy["a_ns"] > step["a_ns"] and busy["change_ns"] == 0
    assert busy["state"] == "untested"      # four steps
    assert gputrace("check", merged.path).status == 0


def test_kineto(gputrace, tmp_path, judged):
    """Its pids become numbers that Perfetto takes; no new fault comes in."""
    files = sorted(KINETO.glob("*.json.gz"))
    if not files:
        pytest.skip("no traces in %s" % KINETO)
    own = document(tmp_path / "own.json", rank=1, pid=743)
    merged = merge(gputrace, tmp_path / "m.json", *files, own)
    pids = check_merge(merged, [Trace(f) for f in [*files, own]])
    before = collections.Counter()
    for f in files:
        before.update(judged(f))
    mended = {"P011", "P012", "P013", "P040", "P043", "H002"}
    assert judged(merged.path) == {k: n for k, n in before.items()
                                   if k not in mended}
    names = merged.labels("process_name")
    assert names[pids[0, 0]].startswith("GPU 0 python3")
    assert pids[0, 0] != pids[1, 0] and pids[0, 0] >= 5000000
    assert all(isinstance(p, int) and p >= 0 for p in pids.values())


def test_odd_numbers(gputrace, tmp_path):
    """Text, negative, huge and missing pids and tids; ids as hexadecimal."""
    lanes = [("Spans", "A"), ("Spans", 0), (-1, -1), (1, 0), (1, 2 ** 40),
             (1, 6000000), (2 ** 40, 5)]
    extra = [{"ph": "X", "cat": "cpu_op", "name": "n%d" % i, "pid": p,
              "tid": t, "ts": 10 * i, "dur": 1}
             for i, (p, t) in enumerate(lanes)]
    extra += [{"ph": "C", "name": "memory", "pid": 9, "ts": 5,
               "args": {"MB": 3}},
              {"ph": "M", "name": "num_cpus", "pid": 1, "tid": 1, "ts": 0,
               "args": {"number": 4}}]
    files = [document(tmp_path / ("%d.json" % i), rank=i, events=extra)
             for i in range(2)]
    merged = merge(gputrace, tmp_path / "m.json", *files)
    check_merge(merged, [Trace(f) for f in files])
    assert not judge(merged.path, profile="perfetto")
    names = merged.labels("process_name")
    assert sum(n.startswith("Spans (") for n in names.values()) == 2
    hexed = [tmp_path / ("x%d.json" % i) for i in range(2)]
    for path in hexed:
        path.write_text(json.dumps([
            {"ph": "s", "cat": "c", "name": "n", "id": "0x1f", "pid": 1,
             "tid": 2, "ts": 1},
            {"ph": "b", "cat": "c", "name": "n", "id": "any", "pid": 1,
             "tid": 2, "ts": 1},
            {"ph": "b", "cat": "c", "name": "n", "id": 5, "pid": 1,
             "tid": 2, "ts": 1}]))
    merged = merge(gputrace, tmp_path / "m.json", *hexed)
    assert [e["id"] for e in merged.events if "id" in e] == [
        31, "any", 5, 1000031, "1:any", 1000005]


def test_times_stay_exact(gputrace, tmp_path):
    """Bases of two calendar quarters: doubles would lose the ns."""
    quarter = 7889238 * 10 ** 9
    late = [{"ph": "X", "cat": "cpu_op", "name": "late", "pid": 1, "tid": 7,
             "ts": 7889237999999.987, "dur": 0.001}]
    files = [document(tmp_path / "a.json", events=late, launches=0),
             document(tmp_path / "b.json", rank=1, base=BASE + 2 * quarter)]
    merged = merge(gputrace, tmp_path / "m.json", *files)
    check_merge(merged, [Trace(f) for f in files])
    assert merged.header["baseTimeNanoseconds"] == \
        BASE + quarter - 10 ** 9
    no_base = tmp_path / "c.json"
    no_base.write_text(json.dumps([late[0]]))
    done = gputrace("merge", "-o", tmp_path / "m.json", no_base, files[1])
    assert done.status == 0 and "c.json: no baseTimeNanoseconds" in done.err


def test_faults_of_one_file_do_not_spoil_the_rest(gputrace, tmp_path):
    good = document(tmp_path / "a.json")
    bad = tmp_path / "b.json"
    bad.write_bytes(
        b'[{"ph":"X","cat":"c","name":"a\x01\xff\\ud83d\\ude00\\ud800",'
        b'"pid":1,"tid":1,"ts":1,"dur":1,"args":{"x":NaN,"y":[-inf,nan,'
        b'null],"z":"NaN"}},5,[],{"pid":3},{"ph":"X","cat":"c","name":"b",'
        b'"pid":1,"tid":1,"ts":9,"dur":0}]')
    done = gputrace("merge", "-o", tmp_path / "m.json", good, bad)
    assert done.status == 0 and "3 things in traceEvents" in done.err
    merged = Trace(tmp_path / "m.json")
    event, = merged.slices(name="a\x01\ufffd\U0001f600\ufffd")
    assert event["args"] == {"x": None, "y": [None, None, None], "z": "NaN"}
    assert "\\ud8" not in merged.text
    assert not judge(merged.path, profile="perfetto")


def broken_files():
    corpus = ROOT / "test" / "fuzz" / "corpus" / "trace"
    for path in sorted(corpus.iterdir()):
        raw = path.read_bytes()
        try:
            if raw[:2] == b"\x1f\x8b":
                raw = gzip.decompress(raw)
            json.loads(raw)
        except (ValueError, OSError, EOFError, RecursionError):
            yield path


def left(folder):
    return sorted(p.name for p in folder.iterdir())


def test_broken_files(gputrace, tmp_path):
    """A clear error, and no file: neither a part nor a temporary one."""
    good = document(tmp_path / "a.json")
    out, nr_refused = tmp_path / "m.json", 0
    out.write_text("as it was")
    for path in broken_files():
        done = gputrace("merge", "-o", out, good, path)
        assert done.status in (0, 3), path
        if done.status == 3:
            nr_refused += 1
            assert done.err.startswith("gputrace: %s: byte " % path), done.err
            assert out.read_text() == "as it was"
        else:           # what strict readers refuse, but can be stepped over
            json.loads(out.read_text())
            out.write_text("as it was")
        assert left(tmp_path) == ["a.json", "m.json"]
    assert nr_refused > 5
    cut = tmp_path / "cut.json"
    cut.write_bytes(good.read_bytes()[:-9])
    done = gputrace("merge", "-o", out, good, cut)
    assert done.status == 3
    assert "byte %d: the file ends here" % cut.stat().st_size in done.err


def test_places_that_cannot_be_written(gputrace, tmp_path):
    good = document(tmp_path / "a.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for out in (tmp_path, pipe, tmp_path / "no" / "m.json", "/dev/null"):
        done = gputrace("merge", "-o", out, good)
        assert (done.status, done.out) == (3, "") and str(out) in done.err
    assert left(tmp_path) == ["a.json", "pipe"]
    for args in (["-o", "x"], [good], ["-o", "", good], ["-o", "x", "-"]):
        assert gputrace("merge", *args, cwd=tmp_path).status == 2
    # an input may be the output, and a link stays one
    (tmp_path / "link.json").symlink_to("a.json")
    merge(gputrace, tmp_path / "link.json", good)
    assert (tmp_path / "link.json").is_symlink()
    assert good.stat().st_mode & 0o777 == 0o600


def feed(pipe, path):
    """Writes a file into a pipe that a reader opens."""
    pipe.write_bytes(path.read_bytes())


def test_ends_by_a_signal_or_a_change(tmp_path):
    good = document(tmp_path / "a.json")
    pipe, folder = tmp_path / "pipe.json", tmp_path / "out"
    os.mkfifo(pipe)
    folder.mkdir()
    words = [str(BUILD / "gputrace"), "merge", "-o", str(folder / "m.json"),
             str(pipe)]
    for ending in ("signal", "change"):
        process = subprocess.Popen(words, stderr=subprocess.PIPE)
        feed(pipe, good)
        deadline = time.monotonic() + 30        # the second reading
        while not left(folder) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left(folder)
        if ending == "signal":
            process.send_signal(signal.SIGTERM)
        else:
            feed(pipe, good)
        err = process.communicate(timeout=30)[1].decode()
        if ending == "signal":
            assert process.returncode == -signal.SIGTERM
        else:
            assert process.returncode == 3 and "has changed" in err
        assert left(folder) == []


@pytest.mark.skipif(bool(SANITIZED), reason="measures memory")
def test_memory_does_not_grow_with_the_file(tmp_path):
    sizes = []
    for nr in (1000, 200000):
        path = tmp_path / "big.json"
        event = (b'{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":7,'
                 b'"ts":12345.678,"dur":1.000,"args":{"External id":5}}')
        path.write_bytes(b"[" + b",\n".join([event] * nr) + b"]")
        process = subprocess.Popen(
            [str(BUILD / "gputrace"), "merge", "-q", "-o",
             str(tmp_path / "m.json.gz"), str(path)])
        status, usage = os.wait4(process.pid, 0)[1:]
        process.returncode = status
        assert status == 0
        sizes.append(usage.ru_maxrss)
    with gzip.open(tmp_path / "m.json.gz") as f:
        assert len(json.load(f)["traceEvents"]) == 200000 + 4
    assert sizes[1] < sizes[0] + 2048           # KiB


def test_times_with_a_shift_are_written_in_full(gputrace, tmp_path):
    """us with three digits, whatever form they came in."""
    texts = ["0", "1", "2.5", "0.001", "1e3", "12345678901.234"]
    events = ",".join('{"ph":"X","cat":"c","name":"n","pid":1,"tid":%d,'
                      '"ts":%s,"dur":0}' % (i + 1, t)
                      for i, t in enumerate(texts))
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    for path, base in ((a, 5), (b, 1005)):
        path.write_text('{"baseTimeNanoseconds":%d,"traceEvents":[%s]}' %
                        (base, events))
    merged = merge(gputrace, tmp_path / "m.json", a, b)
    got = [e["ts"] for e in merged.slices()]
    assert got[:6] == [json.loads(t, parse_float=Decimal) for t in texts]
    assert [ns(t) for t in got[6:]] == [ns(Decimal(t)) + 1000 for t in texts]
