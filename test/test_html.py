# SPDX-License-Identifier: MIT
"""report --html, diff --html: what the pages hold, without a browser.

Tables and findings must be those of --format json; what only a page has
(bins, histograms, steps, the tree of ranges) is computed here, from the same
file, in another way: each bin from the ends of all work, each range by a
search for those around it.
"""
import collections
import html.parser
import json
import random
import re
import subprocess

import pytest
from test_report import linked, span
from test_tools import (GPU_WORK, load, merged, report, slice_of, slices,
                        union, write)
from tracing import BUILD, ROOT, run

EAGER = ROOT / "test" / "data" / "h200_torch_eager.json.gz"
GRAPH = ROOT / "test" / "data" / "h200_torch_graph.json.gz"
HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>",
           "\u2028\u2029", "\"'`\\", "&lt;b&gt;", "]]>", "@JS@", "a\x00b",
           "</SCRIPT >", "\u202eevil", "\x1b[31m", "x" * 5000]


class Page(html.parser.HTMLParser):
    """Tags with their attributes, and the text of each script and style."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.text = [], [], text
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.texts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.texts[-1] += data

    @property
    def data(self):
        scripts = [i for i, (tag, _) in enumerate(
            t for t in self.tags if t[0] in ("script", "style"))
            if tag == "script"]
        return json.loads(self.texts[scripts[0]])


def page_of(gputrace, tmp_path, *args, command="report"):
    out = tmp_path / "page.html"
    done = gputrace(command, "--html", out, *args)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert [p.name for p in tmp_path.iterdir()
            if p.name.startswith(".")] == []
    return Page(out.read_text(encoding="utf-8"))


def as_json(gputrace, command, *args):
    done = gputrace(command, "--format", "json", *args)
    assert done.status == 0, done.err
    return json.loads(done.out)


# ---- What only a page has ----

def work_by_device(events):
    found = collections.defaultdict(list)
    for e in slices(events):
        if e["cat"] in GPU_WORK:
            found[e["args"]["device"]].append(span(e))
    return found


def check_bins(series, events):
    spans = [span(e) for e in slices(events) if e["cat"] != "overhead"]
    start, end = min(s for s, _ in spans), max(e for _, e in spans)
    width, nr = series["bin_ns"], series["bins"]
    assert series["start_ns"] == start and nr <= 200
    assert (nr - 1) * width < end - start <= nr * width
    work = work_by_device(events)
    assert len(series["gpus"]) == len(work)
    for gpu in series["gpus"]:
        starts, ends = merged(work[gpu["device"]])
        assert gpu["busy_ns"] == [
            sum(max(0, min(b, at + width) - max(a, at))
                for a, b in zip(starts, ends))
            for at in range(start, start + nr * width, width)]
        assert sum(gpu["busy_ns"]) == union(work[gpu["device"]])
        check_histogram(gpu["gaps"], [b - a for a, b in
                                      zip(ends, starts[1:]) if b > a])


def check_histogram(got, values):
    count, total = collections.Counter(), collections.Counter()
    for n in values:
        count[len(bin(n)) - 3] += 1     # bin(4) is 0b100: 2^2
        total[len(bin(n)) - 3] += n
    powers = range(max(count, default=-1) + 1)
    assert got == {"count": [count[i] for i in powers],
                   "total_ns": [total[i] for i in powers]}


def check_delays(series, events):
    first = {}
    for work, call in linked(events, GPU_WORK):
        at = first.setdefault(call["args"]["correlation"],
                              [span(work)[0], span(call)[1]])
        at[0] = min(at[0], span(work)[0])
    delays = [start - end for start, end in first.values()]
    assert series["launch_delays"]["inside"] == sum(d <= 0 for d in delays)
    check_histogram(series["launch_delays"]["after"],
                    [d for d in delays if d > 0])


def check_ranges(series, events):
    """Each range and each launch by the path of the ranges around it."""
    lanes = collections.defaultdict(list)
    for e in slices(events):
        if e["cat"] == "user_annotation":
            lanes[e["pid"], e["tid"]].append((*span(e), e["name"]))

    def path(lane, start, end):
        around = sorted((a, -b, name) for a, b, name in lanes[lane]
                        if a <= start and b >= end)
        return tuple(name for _, _, name in around)

    count, total, gpu = (collections.Counter() for _ in range(3))
    for lane, ranges in lanes.items():
        for start, end, _ in ranges:
            count[path(lane, start, end)] += 1
            total[path(lane, start, end)] += end - start
    for work, call in linked(events, GPU_WORK):
        start = span(call)[0]
        at = path((call["pid"], call["tid"]), start, start + 1)
        for depth in range(1, len(at) + 1):
            gpu[at[:depth]] += span(work)[1] - span(work)[0]
    paths = []
    for row in series["ranges"]:
        around = paths[row["parent"]] if row["parent"] >= 0 else ()
        paths.append((*around, row["name"]))
    assert series["ranges_left_out"] == 0
    assert len(set(paths)) == len(paths)
    assert {p: (r["count"], r["total_ns"], r["gpu_ns"])
            for p, r in zip(paths, series["ranges"])} == \
        {p: (count[p], total[p], gpu[p]) for p in count}


def check_steps(series, events):
    """Where a range `step` says what a step is: from start to start."""
    starts = sorted(span(e)[0] for e in slices(events)
                    if e["cat"] == "user_annotation" and e["name"] == "step")
    ends = [span(e)[1] for e in slices(events)
            if e["cat"] == "user_annotation" and e["name"] == "step"]
    if not starts:
        return False
    file = series["files"][0]
    assert (file["step_source"], file["step"]) == ("step", "step")
    assert file["steps"] == [
        {"ts_ns": a, "dur_ns": b - a}
        for a, b in zip(starts, starts[1:] + [max(ends)])]
    return True


def test_real_traces(gputrace, tmp_path, real_trace):
    page = page_of(gputrace, tmp_path, real_trace)
    events = load(real_trace)["traceEvents"]
    assert page.data["command"] == "report"
    assert page.data["report"] == report(gputrace, real_trace)
    assert page.data["diagnosis"] == as_json(gputrace, "diagnose", real_trace)
    series = page.data["series"]
    assert series["files"][0]["path"] == str(real_trace)
    busy = {d["device"]: d["busy_ns"]
            for d in page.data["report"]["devices"]}
    assert {g["device"]: sum(g["busy_ns"]) for g in series["gpus"]} == busy
    check_bins(series, events)
    check_delays(series, events)
    check_steps(series, events)
    if "kineto" not in real_trace.name:
        check_ranges(series, events)


def test_decode(gputrace, tmp_path):
    done = run("decode", "--steps", 4, "--kernels", 40,
               GPUTRACE_OUT=tmp_path / "t.json")
    assert done.status == 0, done.err
    events = load(tmp_path / "t.json")["traceEvents"]
    series = page_of(gputrace, tmp_path, tmp_path / "t.json").data["series"]
    check_bins(series, events)
    check_delays(series, events)
    check_ranges(series, events)
    assert check_steps(series, events)


def tangle(rng):
    """Work of two GPUs on three streams that overlaps and touches, launched
    inside of ranges that nest; times are whole ns."""
    def us(n):
        return n / 1000
    events, at = [], 1000
    for number in range(1, 400):
        at += rng.choice([0, 1, 7, 300, 5000])
        launch = rng.randrange(1, 3000)
        start = at + rng.choice([0, launch // 2, launch, launch + 1,
                                 launch + rng.randrange(1, 100000)])
        events += [
            slice_of("cuda_runtime", "cudaLaunchKernel", us(at), us(launch),
                     tid=rng.randrange(1, 4), correlation=number),
            slice_of("kernel", "k%d" % rng.randrange(5), us(start),
                     us(rng.choice([0, 1, 999, 20000])),
                     tid=rng.randrange(3), correlation=number,
                     device=number % 2, stream=rng.randrange(3))]
        at += launch
    for tid in range(1, 4):
        start = 1000
        while start < at:
            size = rng.randrange(5000, 200000)
            events.append(slice_of("user_annotation", "outer", us(start),
                                   us(size), tid=tid))
            events += [slice_of(
                "user_annotation", rng.choice(["a", "b"]),
                us(start + size // 4 * i), us(size // 4), tid=tid)
                for i in range(rng.randrange(4))]
            start += size + rng.randrange(3)
    return events


@pytest.mark.parametrize("seed", range(5))
def test_tangle(gputrace, tmp_path, seed):
    path = write(tmp_path / "t.json", tangle(random.Random(seed)))
    events = load(path)["traceEvents"]
    series = page_of(gputrace, tmp_path, path).data["series"]
    check_bins(series, events)
    check_delays(series, events)
    check_ranges(series, events)


def test_several_files(gputrace, tmp_path):
    page = page_of(gputrace, tmp_path, EAGER, GRAPH)
    assert page.data["report"] == report(gputrace, EAGER, GRAPH)
    series = page.data["series"]
    assert [f["path"] for f in series["files"]] == [str(EAGER), str(GRAPH)]
    assert {g["file"] for g in series["gpus"]} == {0, 1}
    assert {(d["file"], d["device"], d["busy_ns"])
            for d in page.data["report"]["devices"]} == {
        (g["file"], g["device"], sum(g["busy_ns"])) for g in series["gpus"]}
    for file, path in zip(series["files"], [EAGER, GRAPH]):
        alone = page_of(gputrace, tmp_path, path).data["series"]["files"][0]
        assert file["steps"] == alone["steps"]


@pytest.mark.parametrize("events", [[], [
    slice_of("cuda_runtime", "cudaMalloc", 5, 0, correlation=1)]])
def test_nothing_to_show(gputrace, tmp_path, events):
    path = write(tmp_path / "t.json", events)
    data = page_of(gputrace, tmp_path, path).data
    assert data["series"]["gpus"] == [] and data["series"]["ranges"] == []
    assert data["report"]["summary"]["verdict"] == "no GPU work"


def test_too_many_ranges(gputrace, tmp_path):
    """Names without end, and nesting without end: bounded and said."""
    events = [slice_of("user_annotation", "n%d" % i, i, 1)
              for i in range(6000)]
    events += [slice_of("user_annotation", "deep", 10000 + i, 5000 - 2 * i,
                        tid=2) for i in range(100)]
    series = page_of(gputrace, tmp_path, write(tmp_path / "t.json", events)
                     ).data["series"]
    assert len(series["ranges"]) == 5000
    assert series["ranges_left_out"] == 1000 + 100
    path = write(tmp_path / "t.json", events[6000:])
    series = page_of(gputrace, tmp_path, path).data["series"]
    assert len(series["ranges"]) == 64 and series["ranges_left_out"] == 36


def test_top(gputrace, tmp_path):
    page = page_of(gputrace, tmp_path, "--top", "3", EAGER)
    assert page.data["report"] == report(gputrace, "--top", "3", EAGER)
    assert len(page.data["report"]["kernels"]) == 3


# ---- The page of a diff ----

def test_diff(gputrace, tmp_path):
    page = page_of(gputrace, tmp_path, EAGER, GRAPH, command="diff")
    check_frame(page)
    assert page.data["command"] == "diff"
    assert page.data["diff"] == as_json(gputrace, "diff", EAGER, GRAPH)
    args = ["--step", "forward", "--min-change", "90%", "--top", "2"]
    page = page_of(gputrace, tmp_path, *args, EAGER, GRAPH, command="diff")
    assert page.data["diff"] == as_json(gputrace, "diff", *args, EAGER, GRAPH)
    assert len(page.data["diff"]["kernels"]) == 2


def test_diff_fails_over(gputrace, tmp_path):
    """The page is written, and the status is as without it."""
    out = tmp_path / "page.html"
    args = ["--html", out, "--fail-over", "5%"]
    assert gputrace("diff", *args, EAGER, GRAPH).status == 0
    out.unlink()
    done = gputrace("diff", *args, GRAPH, EAGER)
    assert done.status == 1 and "longer" in done.err
    assert Page(out.read_text()).data["diff"]["sides"][0]["file"] == str(GRAPH)


@pytest.mark.parametrize("args", [["--format", "json"], ["--all"], ["--wide"]])
def test_diff_usage(gputrace, tmp_path, args):
    out = tmp_path / "page.html"
    done = gputrace("diff", "--html", out, *args, EAGER, GRAPH)
    assert done.status == 2 and "--html" in done.err and not out.exists()


def test_diff_replaces_no_trace(gputrace, tmp_path):
    trace = tmp_path / "t.json.gz"
    trace.write_bytes(EAGER.read_bytes())
    done = gputrace("diff", "--html", trace, GRAPH, trace)
    assert done.status == 2 and "is a trace" in done.err
    assert trace.read_bytes() == EAGER.read_bytes()


# ---- The page is safe ----

def check_frame(page):
    """One block of data, one script, one style, nothing that loads."""
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2 and tags.count("style") == 1
    assert not {"link", "img", "iframe", "object", "embed", "base",
                "form"} & set(tags)
    for tag, attrs in page.tags:
        assert not {"src", "href", "srcset", "action"} & set(attrs), tag
        assert not [a for a in attrs if a.startswith("on")]
    policy = [a["content"] for t, a in page.tags if t == "meta" and
              a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policy) == 1
    assert {"default-src 'none'", "script-src 'unsafe-inline'",
            "style-src 'unsafe-inline'", "base-uri 'none'",
            "form-action 'none'"} == set(policy[0].split("; "))
    style, _, script = page.texts
    assert not re.search(r"@import|url\(|https?:", style)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|"
        r"Function\(|fetch\(|XMLHttpRequest|import\(|WebSocket|sendBeacon",
        script)
    # The one address is that of links, which nobody follows by himself.
    assert re.findall(r"https?://[^\"]*", script) == [
        "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/"]


def hostile_events():
    events = []
    for i, name in enumerate(HOSTILE):
        at = 100 * i
        events += [
            slice_of("user_annotation", name, at, 50),
            slice_of("cuda_runtime", name, at + 1, 5, correlation=i + 1),
            slice_of("kernel", name, at + 10, 20, correlation=i + 1,
                     device=0, stream=7)]
    return events


def test_hostile_names(gputrace, tmp_path):
    folder = tmp_path / "</script><b>"
    folder.mkdir(parents=True)
    path = write(folder / "a'\"&\u2028.json", hostile_events())
    page = page_of(gputrace, tmp_path, path)
    check_frame(page)
    assert page.data["report"] == report(gputrace, path)
    assert page.data["series"]["files"][0]["path"] == str(path)
    names = {k["name"] for k in page.data["report"]["kernels"]}
    assert set(HOSTILE) - {"a\x00b"} <= names
    block = page.text[page.text.index('id="data">'):]
    assert "<" not in block[:block.index("</script>\n<script>\n/* SPDX")]


def test_frame(gputrace, tmp_path):
    check_frame(page_of(gputrace, tmp_path, EAGER))


# ---- Where it goes ----

def test_standard_output(gputrace, tmp_path):
    done = gputrace("report", "--html", "-", EAGER)
    assert done.status == 0 and done.err == ""
    assert done.out == page_of(gputrace, tmp_path, EAGER).text


@pytest.mark.parametrize("args, said", [
    (["--html", "OUT", "--format", "json", EAGER], "takes --top alone"),
    (["--html", "OUT", "--table", "kernels", EAGER], "takes --top alone"),
    (["--html", "OUT", "-F", "time=1ms..2ms", EAGER], "takes --top alone"),
    (["--html", "OUT", "-"], "standard input"),
    (["--html", "OUT"], "FILE"),
    (["--html", "", EAGER], "--html"),
    (["--html", "TRACE", "TRACE"], "is a trace"),
    (["--html", "LINK", "TRACE"], "is a trace"),
    (["--html", "TRACE", EAGER], "is a trace"),
    (["--html", "PLAIN", EAGER], "is a trace"),
])
def test_usage(gputrace, tmp_path, args, said):
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(EAGER.read_bytes())
    (tmp_path / "link").symlink_to(trace)
    plain = write(tmp_path / "plain.json", [])
    names = {"OUT": tmp_path / "out.html", "TRACE": trace, "PLAIN": plain,
             "LINK": tmp_path / "link"}
    done = gputrace("report", *[names.get(a, a) for a in args])
    assert done.status == 2 and done.out == ""
    assert said in done.err, done.err
    assert trace.read_bytes() == EAGER.read_bytes()
    assert plain.read_text() == '{"traceEvents": []}'
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("head", [b"", b"\n  ", b"\r\n\t", b"\xef\xbb\xbf",
                                  b"\xef\xbb\xbf\n"])
def test_no_trace_is_replaced(gputrace, tmp_path, head):
    """`--html *.json`, by mistake: also where the profiler of PyTorch (white
    space first) or an editor (a byte order mark) wrote it."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path in (first, second):
        path.write_bytes(head + b'{"traceEvents": []}')
    for args in (["report", "--html", first, second],
                 ["diff", "--html", first, second, second]):
        done = gputrace(*args)
        assert done.status == 2 and "is a trace" in done.err, args
    assert first.read_bytes() == second.read_bytes()


def test_output_cannot_be(gputrace, tmp_path):
    for out, said in [(tmp_path, "not a file"),
                      (tmp_path / "no" / "page.html", "No such file"),
                      ("/dev/full", "not a file")]:
        done = gputrace("report", "--html", out, EAGER)
        assert done.status == 3 and said in done.err, (out, done.err)
        assert len(done.err.splitlines()) == 1
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [str(BUILD / "gputrace"), "report", "--html", "-", str(EAGER)],
            stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3 and b"No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_broken_trace_leaves_the_old_page(gputrace, tmp_path):
    out, broken = tmp_path / "page.html", tmp_path / "broken.json"
    out.write_text("old")
    broken.write_text('{"traceEvents":[{"ph":')
    done = gputrace("report", "--html", out, broken)
    assert done.status == 3 and "broken.json" in done.err
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "broken.json", "page.html"]
    assert gputrace("report", "--html", out, EAGER).status == 0
    assert out.read_text().startswith("<!doctype html>")
