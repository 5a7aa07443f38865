# SPDX-License-Identifier: MIT
"""The pages of report --html and diff --html in a browser (Debian's chromium,
headless): no complaint on its console, the numbers of --format json in what it
shows, no label cut, and enough contrast in light and in dark.

Without a browser these are skipped; with GPUTRACE_EXTRA=1 they fail.
"""
import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import zlib

import pytest
from tracing import ROOT, run

EAGER = ROOT / "test" / "data" / "h200_torch_eager.json.gz"
GRAPH = ROOT / "test" / "data" / "h200_torch_graph.json.gz"
TEXTBOOK = ["--steps", 6, "--kernels", 350, "--kernel-us", 8.6,
            "--launch-us", 40, "--sync-ms", 4]
SCHEMES = {"dark": 0, "light": 1}
VOID = {"meta", "link", "br", "img", "hr", "input"}

# What only the browser can say, left in the page as JSON.
PROBE = """
<script>
(function () {
	const cut = [], pale = [];

	for (const button of document.querySelectorAll("button"))
		button.click();
	for (const details of document.querySelectorAll("details"))
		details.open = true;
	for (const text of document.querySelectorAll("svg text")) {
		const box = text.getBBox();
		const view = text.ownerSVGElement.viewBox.baseVal;

		if (box.x < 0 || box.x + box.width > view.width ||
		    box.y < 0 || box.y + box.height > view.height)
			cut.push(text.textContent);
	}
	function rgb(color) {
		return color.match(/[0-9.]+/g).map(Number);
	}
	function light(color) {
		const [r, g, b] = rgb(color).map((c) => (c / 255 <= .04045 ?
			c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4));

		return .2126 * r + .7152 * g + .0722 * b;
	}
	function behind(element) {
		for (; element; element = element.parentElement) {
			const c = getComputedStyle(element).backgroundColor;

			if (rgb(c)[3] !== 0)
				return c;
		}
		return "rgb(255, 255, 255)";
	}
	for (const element of document.querySelectorAll(
		"h1, h2, h3, p, b, span, a[href], li, td, th, summary, " +
		"button, code, .severity, svg text")) {
		if (element.ownerSVGElement && element.tagName !== "text")
			continue;
		const style = getComputedStyle(element);
		const color = element.ownerSVGElement ? style.fill :
			style.color;
		const [a, b] = [light(color), light(behind(element))]
			.sort((x, y) => y - x);

		if (element.textContent.trim() && (a + .05) / (b + .05) < 4.5)
			pale.push(color + " on " + behind(element) + ": " +
				element.textContent.slice(0, 40));
	}
	const result = document.createElement("script");
	result.type = "application/json";
	result.id = "probe";
	result.textContent = JSON.stringify({ cut, pale,
		spill: document.documentElement.scrollWidth -
			document.documentElement.clientWidth });
	document.body.append(result);
})();
</script>
</body>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """browser(page, *options): what it writes to stdout, and its console."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        if os.environ.get("GPUTRACE_EXTRA") == "1":
            pytest.fail("no chromium: apt-get install chromium")
        pytest.skip("no chromium")
    home = tmp_path_factory.mktemp("home")

    def start(page, *options, scheme="light"):
        done = subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu",
             "--hide-scrollbars", "--enable-logging=stderr",
             "--window-size=1240,1400", "--user-data-dir=%s" % home,
             "--blink-settings=preferredColorScheme=%d" % SCHEMES[scheme],
             *options, page.as_uri()], timeout=120, capture_output=True,
            check=False, env=dict(os.environ, HOME=str(home)))
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        console = [line for line in done.stderr.decode().splitlines()
                   if "CONSOLE" in line]
        return done.stdout.decode(), console
    return start


class Shown(html.parser.HTMLParser):
    """What a page shows: tables by id as rows of {key: (text, number)}, cards,
    findings, links, bars."""

    def __init__(self, dom):
        super().__init__(convert_charrefs=True)
        self.tables, self.cards, self.findings = {}, {}, {}
        self.links, self.tags, self.texts = [], [], {}
        self.stack, self.rects, self.section = [], {}, None
        self.feed(dom)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self.stack.append((tag, attrs))
        if tag == "section":
            self.section = attrs.get("id")
        elif tag == "table":
            self.tables[attrs["id"]] = []
        elif tag == "tr" and any(t == "tbody" for t, _ in self.stack):
            self.table.append({})
        elif tag == "td" and "data-key" in attrs:
            self.table[-1][attrs["data-key"]] = "", attrs.get("data-value")
        elif tag == "article":
            self.findings[attrs["data-id"]] = ""
        elif tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        elif tag == "rect":
            self.rects.setdefault(self.section, []).append(attrs)
        elif tag == "b" and "data-key" in attrs:
            self.cards[attrs["data-key"]] = attrs.get("data-value")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    @property
    def table(self):
        return self.tables[[a["id"] for t, a in self.stack
                            if t == "table"][-1]]

    def handle_data(self, data):
        if not self.stack:
            return
        tag, attrs = self.stack[-1]
        if tag == "script" and "id" in attrs:
            self.texts[attrs["id"]] = self.texts.get(attrs["id"], "") + data
        cells = [a for t, a in self.stack if t == "td" and "data-key" in a]
        if cells:
            attrs = cells[-1]
            text, number = self.table[-1][attrs["data-key"]]
            self.table[-1][attrs["data-key"]] = text + data, number
        for name, of in self.stack:
            if name == "article":
                self.findings[of["data-id"]] += data


def make_page(gputrace, path, *args):
    done = gputrace(args[0], "--html", path, *args[1:])
    assert (done.status, done.err) == (0, ""), done.err
    return path


def show(browser, page, *options, scheme="light"):
    """The page with the probe in it, as the browser shows it: (Shown, probe).
    The console has to be empty."""
    text = page.read_text(encoding="utf-8")
    assert text.count("\n</body>") == 1
    probed = page.with_suffix(".probe.html")
    probed.write_text(text.replace("</body>", PROBE), encoding="utf-8")
    dom, console = browser(probed, "--dump-dom", *options, scheme=scheme)
    assert console == []
    shown = Shown(dom)
    return shown, json.loads(shown.texts["probe"])


def as_json(gputrace, command, *args):
    done = gputrace(command, "--format", "json", *args)
    assert done.status == 0, done.err
    return json.loads(done.out)


def check_cell(key, value, cell):
    text, number = cell
    if isinstance(value, str):
        assert text == value and number is None
        return
    assert float(number) == float(value), key
    if key == "share":
        assert abs(float(text) - value * 100) <= .0501
    elif key == "change":
        assert abs(float(text) - value * 100) <= .0501 + abs(value) * 1e-9
    elif key in ("avg_gpu_ops", "avg_level", "avg_children"):
        assert float(text.replace(",", "")) == value, key
    elif key != "p":
        assert int(text.replace(",", "")) == value, key


def check_rows(rows, shown, keys=None):
    """Each row of JSON is one that is shown, in its order."""
    assert len(shown) == len(rows)
    for row, cells in zip(rows, shown):
        assert set(cells) == set(keys or row)
        for key in keys or row:
            check_cell(key, row[key], cells[key])


def check_report(got, report):
    for key in ("wall_ns", "gpu_busy_ns", "kernel_count", "api_count"):
        assert int(got.cards[key]) == report["summary"][key]
    assert int(got.cards["lost"]) == sum(
        report["summary"]["losses"].values())
    for key, rows in report.items():
        if isinstance(rows, list) and (rows or key == "kernels"):
            check_rows(rows, got.tables.get("table_" + key, []))


def check_findings(got, diagnosis):
    assert set(got.findings) == {f["id"] for f in diagnosis["findings"]}
    starts = [int(link.split("visStart=")[1].split("&")[0])
              for link in got.links]
    ends = [int(link.split("visEnd=")[1]) for link in got.links]
    for f in diagnosis["findings"]:
        text = " ".join(got.findings[f["id"]].split())
        assert " ".join(f["title"].split()) in text
        for words in (f["detail"] + f["advice"]).split("\n"):
            assert " ".join(words.split()) in text
        for p in f["evidence"]["places"]:
            assert any(a <= p["ts_ns"] and p["ts_ns"] + p["dur_ns"] <= b and
                       b - a <= 2 * p["dur_ns"] + 2000
                       for a, b in zip(starts, ends))


def check_charts(got, series, wall):
    """Bars are as high as the numbers say."""
    bins = [min(series["bin_ns"], wall - i * series["bin_ns"])
            for i in range(series["bins"])]
    bars = [float(r["height"]) for r in got.rects["utilisation"]
            if r["class"] == "a"]
    want = [100 * busy / size for gpu in series["gpus"]
            for busy, size in zip(gpu["busy_ns"], bins)]
    assert bars == pytest.approx(want, abs=1e-6)
    for n, gpu in enumerate(series["gpus"]):
        rows = got.tables["utilisation_%d" % n]
        assert [int(r["busy_ns"][1]) for r in rows] == gpu["busy_ns"]
    steps = [f["steps"] for f in series["files"] if f["steps"]]
    bars = [float(r["height"]) for r in got.rects["steps"]
            if r["class"] == "a"]
    assert bars == pytest.approx([
        100 * s["dur_ns"] / max(x["dur_ns"] for x in of)
        for of in steps for s in of], abs=1e-6)
    delays = series["launch_delays"]["after"]["count"]
    assert [int(r["count"][1])
            for r in got.tables["table_launch_delays"]] == \
        [n for n in delays if n]
    gaps = [sum(g["gaps"]["count"][i] for g in series["gpus"]
                if i < len(g["gaps"]["count"])) for i in range(63)]
    assert [int(r["count"][1]) for r in got.tables["table_gaps"]] == \
        [n for n in gaps if n]
    assert sorted(r["name"][0] for r in got.tables["table_ranges"]) == \
        sorted(r["name"] for r in series["ranges"])


def check_probe(probe):
    assert probe == {"cut": [], "pale": [], "spill": 0}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("files", [[EAGER], [GRAPH], [EAGER, GRAPH]],
                         ids=["eager", "graph", "both"])
def test_report(gputrace, browser, tmp_path, files, scheme):
    page = make_page(gputrace, tmp_path / "page.html", "report", *files)
    got, probe = show(browser, page, scheme=scheme)
    check_probe(probe)
    report = as_json(gputrace, "report", *files)
    check_report(got, report)
    check_findings(got, as_json(gputrace, "diagnose", *files))
    check_charts(got, json.loads(got.texts["data"])["series"],
                 report["summary"]["wall_ns"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_textbook(gputrace, browser, tmp_path, scheme):
    trace = tmp_path / "trace.json"
    done = run("decode", *TEXTBOOK, GPUTRACE_OUT=trace)
    assert done.status == 0, done.err
    page = make_page(gputrace, tmp_path / "page.html", "report", trace)
    got, probe = show(browser, page, scheme=scheme)
    check_probe(probe)
    report = as_json(gputrace, "report", trace)
    check_report(got, report)
    check_findings(got, as_json(gputrace, "diagnose", trace))
    check_charts(got, json.loads(got.texts["data"])["series"],
                 report["summary"]["wall_ns"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_diff(gputrace, browser, tmp_path, scheme):
    page = make_page(gputrace, tmp_path / "page.html", "diff", EAGER, GRAPH)
    got, probe = show(browser, page, scheme=scheme)
    check_probe(probe)
    diff = as_json(gputrace, "diff", EAGER, GRAPH)
    assert int(got.cards["significant"]) == diff["verdict"]["significant"]
    for metric in diff["metrics"]:
        assert float(got.cards[metric["name"]]) == metric["change"]
    check_rows(diff["sides"], got.tables["table_sides"])
    check_rows(diff["metrics"], got.tables["table_metrics"])
    for key in ("kernels", "copies", "api", "nvtx"):
        for row in diff[key]:
            del row["significant"]
        check_rows(diff[key], got.tables.get("table_" + key, []))
        for suffix, side in (("_added", "b"), ("_removed", "a")):
            check_rows(diff[key + suffix],
                       got.tables.get("table_" + key + suffix, []),
                       ["name"] + [side + c for c in
                                   ("_ns", "_total_ns", "_count")])


def hostile_trace(path, names):
    events = []
    for i, name in enumerate(names):
        for cat, at, dur, args in [
                ("user_annotation", 0, 50, {}),
                ("cuda_runtime", 1, 5, {"correlation": i + 1}),
                ("kernel", 10, 20, {"correlation": i + 1, "device": 0,
                                    "stream": 7})]:
            events.append({"ph": "X", "cat": cat, "name": name, "pid": 1,
                           "tid": 1, "ts": 100 * i + at, "dur": dur,
                           "args": args})
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_hostile_names(gputrace, browser, tmp_path):
    """They are shown as they are, and do nothing."""
    names = ["</script><script>document.title='taken'</script>",
             "<img src=x onerror=\"document.title='taken'\">",
             "\"><b id=taken>", "\u2028'`${1}", "<!--"]
    names += ["kernel %d" % i for i in range(40)]
    folder = tmp_path / "<b>"
    folder.mkdir()
    trace = hostile_trace(folder / "a&\"'#?.json", names)
    page = make_page(gputrace, tmp_path / "page.html", "report", trace)
    got, _ = show(browser, page)
    check_report(got, as_json(gputrace, "report", trace))
    assert len(got.tables["table_kernels"]) == len(names)
    assert "img" not in got.tags
    assert got.tags.count("script") == 4    # data, script, probe, its result
    assert all("/a%26%22'%23%3F.json&visStart=" in link
               for link in got.links)
    dom, _ = browser(page, "--dump-dom")
    assert "<title>a&amp;\"'#?.json - gputrace</title>" in dom


@pytest.mark.parametrize("command", ["report", "diff"])
def test_one_name_in_two_folders(gputrace, browser, tmp_path, command):
    """Told apart by as much of the path as it takes."""
    files = []
    for run_name in ("before/run", "after/run"):
        (tmp_path / run_name).mkdir(parents=True)
        files.append(tmp_path / run_name / "t.json.gz")
        files[-1].write_bytes(EAGER.read_bytes())
    page = make_page(gputrace, tmp_path / "page.html", command, *files)
    dom, _ = browser(page, "--dump-dom")
    for name in ("before/run/t.json.gz", "after/run/t.json.gz"):
        assert re.search(r"<title>[^<]*\b" + name, dom)
    assert str(tmp_path) not in dom.split("<title>")[1].split("</title>")[0]


@pytest.mark.parametrize("events", [0, 1])
def test_nothing_to_show(gputrace, browser, tmp_path, events):
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "pid": 1,
         "tid": 1, "ts": 5, "dur": 0, "args": {}}][:events]}))
    page = make_page(gputrace, tmp_path / "page.html", "report", trace)
    got, probe = show(browser, page)
    check_probe(probe)
    assert got.cards["kernel_count"] == "0"


def test_narrow_window(gputrace, browser, tmp_path):
    """What is too wide scrolls in its own place."""
    page = make_page(gputrace, tmp_path / "page.html", "report", EAGER)
    _, probe = show(browser, page, "--window-size=500,900")
    check_probe(probe)


@pytest.mark.parametrize("planted, said", [
    ("<script>throw new Error('planted')</script>", "planted"),
    ("<img src=\"http://127.0.0.1:9/x.png\">", "Content Security Policy"),
    ("<script>fetch('http://127.0.0.1:9/')</script>",
     "Content Security Policy")])
def test_console_is_heard(gputrace, browser, tmp_path, planted, said):
    """An error, and an attempt to load something, would be seen here."""
    page = make_page(gputrace, tmp_path / "page.html", "report", EAGER)
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", planted + "</body>"),
                    encoding="utf-8")
    _, console = browser(page, "--dump-dom")
    assert any(said in line for line in console), console


# ---- Screenshots ----

def predict(kind, left, up, corner):
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    guess = left + up - corner
    return min((left, up, corner), key=lambda p: abs(guess - p))


def pixels(path):
    """A PNG of 8 bits a channel, as rows of (r, g, b)."""
    raw, at, packed = path.read_bytes(), 8, b""
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(
                ">IIBB", raw[at + 8:at + 18])
        if kind == b"IDAT":
            packed += raw[at + 8:at + 8 + size]
        at += size + 12
    assert depth == 8 and color in (2, 6)
    n = 3 if color == 2 else 4
    flat, above, rows = zlib.decompress(packed), bytearray(width * n), []
    for y in range(height):
        start = y * (width * n + 1)
        row = bytearray(flat[start + 1:start + 1 + width * n])
        if flat[start]:
            for i, byte in enumerate(row):
                left, corner = (row[i - n], above[i - n]) if i >= n else (0, 0)
                row[i] = byte + predict(flat[start], left, above[i],
                                        corner) & 255
        rows.append([tuple(row[i:i + 3]) for i in range(0, width * n, n)])
        above = row
    return rows


def test_screenshots(gputrace, browser, tmp_path):
    """Two pictures that are not empty: one is light, one is dark."""
    page = make_page(gputrace, tmp_path / "page.html", "report", EAGER)
    mean = {}
    for scheme in SCHEMES:
        picture = tmp_path / (scheme + ".png")
        browser(page, "--window-size=640,480", "--screenshot=%s" % picture,
                scheme=scheme)
        rows = pixels(picture)
        colors = {pixel for row in rows for pixel in row}
        assert len(colors) > 100, "an empty page"
        mean[scheme] = sum(sum(p) for row in rows for p in row) / (
            3 * sum(map(len, rows)))
    assert mean["light"] > 200 and mean["dark"] < 70, mean
