/* SPDX-License-Identifier: MIT */
"use strict";

/* Draws the page from its block of data.  What comes from a trace goes in as
 * text nodes and attributes, never as markup. */

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = document.getElementById("namespace").namespaceURI;
const ROWS = 30;        /* of a table, before "show all" */

/* ---- Elements ---- */

function fill(element, attributes, children) {
	for (const [key, value] of Object.entries(attributes || {}))
		if (value !== null && value !== undefined)
			element.setAttribute(key, value);
	element.append(...children.filter((c) => c !== null));
	return element;
}

function el(tag, attributes, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, ...children) {
	return fill(document.createElementNS(SVG, tag), attributes, children);
}

function rect(x, y, width, height, kind, title) {
	return draw("rect", { x, y, width, height, class: kind },
		title ? draw("title", {}, title) : null);
}

function label(x, y, text, anchor) {
	return draw("text", { x, y, "text-anchor": anchor || "start" }, text);
}

function line(x1, y1, x2, y2, kind) {
	return draw("line", { x1, y1, x2, y2, class: kind });
}

function chart(height, title, ...children) {
	return el("div", { class: "wide" }, draw("svg", {
		class: "chart", viewBox: "0 0 1000 " + height, role: "img",
		"aria-label": title,
	}, ...children));
}

/* ---- Numbers ---- */

function exact(n) {
	return Math.abs(n) < 1e15 ? n.toLocaleString("en-US") : String(n);
}

function time(ns) {
	const units = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]];

	for (const [size, unit] of units)
		if (Math.abs(ns) >= size)
			return round(ns / size) + " " + unit;
	return round(ns) + " ns";
}

/* Three digits, so that no number says more than people can compare. */
function round(n) {
	const size = Math.abs(n);

	return size >= 1000 ? exact(Math.round(n)) :
		n.toFixed(size >= 100 || n === Math.round(n) ? 0 :
			size >= 10 ? 1 : 2);
}

function share(part) {
	return (part * 100).toFixed(1) + " %";
}

function most(values) {
	return values.reduce((a, b) => (b > a ? b : a), 0);
}

/* ---- The time in Perfetto ---- */

function file_name(path) {
	return path.slice(path.lastIndexOf("/") + 1);
}

/* The file's name, with as much of its folders as tells it from the others. */
function known_as(path) {
	const parts = path.split("/"), { names } = PAGES[data.command];
	let n = 1, text;

	do {
		text = parts.slice(-n).join("/");
	} while (n++ < parts.length && names().filter((other) =>
		("/" + other).endsWith("/" + text)).length > 1);
	return text;
}

/* A link to a time of a file, with half of it on each side. */
function perfetto(path, ts_ns, dur_ns, ...children) {
	const side = Math.max(Math.round(dur_ns / 2), 500);

	return el("a", {
		href: "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/" +
			encodeURIComponent(file_name(path)) +
			"&visStart=" + Math.max(ts_ns - side, 0) +
			"&visEnd=" + (ts_ns + dur_ns + side),
		target: "_blank", rel: "noreferrer",
		title: "needs a running: gputrace open " + path,
	}, ...children);
}

/* ---- Tables ---- */

const NAMES = {
	share: "%", total_ns: "Total (ns)", avg_ns: "Avg (ns)", count: "Count",
	median_ns: "Median (ns)", min_ns: "Min (ns)", max_ns: "Max (ns)",
	stddev_ns: "StdDev (ns)", gpu_ns: "GPU work (ns)", a_ns: "A (ns)",
	a_total_ns: "Total A (ns)", b_total_ns: "Total B (ns)",
	a_count: "Count A", b_count: "Count B",
	b_ns: "B (ns)", change: "Change (%)", p: "p", state: "Verdict", api: "API call", pid: "PID", tid: "TID",
};
const TEXTS = new Set(["name", "where", "style", "api", "range", "grid",
	"block", "file", "a", "b", "side", "source", "state", "thread", "pool"]);

function title_of(key) {
	const words = key.replace(/_ns$/, " (ns)").replace(/_/g, " ");

	return NAMES[key] || (words.charAt(0).toUpperCase() + words.slice(1))
		.replace(/\b(gpu|api|cpu)\b/gi, (word) => word.toUpperCase());
}

function cell_text(key, value) {
	if (typeof value !== "number")
		return String(value);
	if (key === "share")
		return (value * 100).toFixed(1);
	if (key === "change")
		return (value > 0 ? "+" : "") + (value * 100).toFixed(1);
	return key === "p" ? value.toPrecision(1) : exact(value);
}

/* depth: of a name in a tree. */
function cell(key, value, depth) {
	const is_text = typeof value !== "number";
	const kind = key === "name" ? "name" : is_text ? "text" : null;

	return el("td", {
		class: key === "state" ? "text " + value : kind,
		"data-key": key, "data-value": is_text ? null : value,
		style: key === "name" && depth ?
			"padding-left: " + (6 + depth * 18) + "px" : null,
	}, key === "name" || key === "range" ? long_name(value) :
		cell_text(key, value));
}

/* Names of C++ may be pages long: three lines of them, all at a click. */
function long_name(name) {
	const lines = el("div", { class: "name", title: name }, name);

	lines.addEventListener("click", () => lines.classList.toggle("all"));
	return lines;
}

/* A bar of one value, or of the two sides. */
function bar(values, whole) {
	const height = 14 / values.length;
	const svg = draw("svg", {
		viewBox: "0 0 100 14", preserveAspectRatio: "none",
		"aria-hidden": "true",
	}, rect(0, 0, 100, 14, "track"));

	values.forEach((value, i) => svg.append(rect(0, i * height,
		whole > 0 ? Math.max(value, 0) / whole * 100 : 0, height,
		i ? "b" : "a")));
	return el("td", { class: "bar" }, svg);
}

/* rows: objects; what: their columns, each a key, or a head and a function
 * that makes the cell of a row. */
function table(id, rows, what) {
	const body = el("tbody", {});
	const more = el("button", { type: "button" },
		"show all " + exact(rows.length));
	// One at a time: as arguments of one call 130,000 are too many.
	const add = (part) => part.forEach((row) => body.append(el("tr", {},
		...what.map((column) => (column.make ? column.make(row) :
			cell(column, row[column], row.depth))))));

	add(rows.slice(0, ROWS));
	more.addEventListener("click", () => {
		add(rows.slice(ROWS));
		more.remove();
	});
	return el("div", { class: "wide" }, el("table", { id },
		el("thead", {}, el("tr", {}, ...what.map(head_cell))), body),
	rows.length > ROWS ? more : null);
}

function head_cell(column) {
	return el("th", {
		scope: "col", class: column === "name" ? "name" :
			column.make || TEXTS.has(column) ? "text" : null,
	}, column.make ? column.head : title_of(column));
}

/* The columns of bars (values: what they show of a row), and of links. */
function bars(rows, values) {
	const whole = most(rows.flatMap(values));

	return { head: "", make: (row) => bar(values(row), whole) };
}

function links(at) {
	return { head: "Perfetto", make: (row) => el("td", { class: "text" },
		perfetto(...at(row), "open")) };
}

function columns(rows) {
	const keys = rows.length ? Object.keys(rows[0]) : [];

	return keys.includes("name") ?
		["name", ...keys.filter((key) => key !== "name")] : keys;
}

function folded(title, ...children) {
	return el("details", {}, el("summary", {}, title), ...children);
}

function section(id, title, about, ...children) {
	return el("section", { id, "aria-label": title }, el("h2", {}, title),
		about ? el("p", { class: "soft" }, about) : null, ...children);
}

function card(key, value, text, what) {
	return el("div", { class: "card" }, el("b", {
		"data-key": key, "data-value": value,
		title: typeof value === "number" ? exact(value) : null,
	}, text), el("span", {}, what));
}

/* ---- The parts of a report ---- */

function summary(s) {
	const whole = s.gpu_busy_ns + s.gpu_idle_ns;
	const lost = Object.values(s.losses).reduce((a, b) => a + b, 0);

	return el("div", { class: "cards", id: "summary" },
		card("verdict", null, s.verdict, "verdict"),
		card("wall_ns", s.wall_ns, time(s.wall_ns), "wall time"),
		card("gpu_busy_ns", s.gpu_busy_ns,
			whole ? share(s.gpu_busy_ns / whole) : "-",
			"GPU busy: " + time(s.gpu_busy_ns)),
		card("kernel_count", s.kernel_count, exact(s.kernel_count),
			"kernels: " + time(s.kernel_time_ns)),
		card("api_count", s.api_count, exact(s.api_count),
			"CUDA calls: " + time(s.api_ns)),
		card("lost", lost, exact(lost), "events lost"));
}

function lines(text, tag) {
	return text.split("\n").filter((l) => l.trim())
		.map((l) => el(tag, {}, l.trim()));
}

function saving(f) {
	const per = f.saving_per_step_ns;

	if (f.saving_ns === null)
		return el("p", {}, "Saving: " + f.estimated);
	return el("p", {}, "Saves ", el("b", {
		"data-key": "saving_ns", "data-value": f.saving_ns,
	}, per === undefined ? time(f.saving_ns) : time(per) + " a step"),
	", estimated: " + f.estimated);
}

/* Where launches make the gaps, they are shown once. */
function places(f) {
	const ids = data.diagnosis.findings.map((other) => other.id);

	return f.id === "gaps" && ids.includes("launch_bound") ? [] :
		f.evidence.places;
}

/* Of several files the finding says which; else there is no link. */
function place(path, p) {
	const text = "ts " + exact(p.ts_ns / 1000) + " \u00b5s";

	return path === null ? text : perfetto(path, p.ts_ns, p.dur_ns, text);
}

function finding(f) {
	const files = data.series.files;
	const path = f.evidence.file || f.evidence.most_file ||
		(files.length === 1 ? files[0].path : null);
	const at = places(f);

	return el("article", { class: "finding " + f.severity,
		"data-id": f.id },
		el("div", { class: "severity" }, f.severity + " \u00b7 " +
			f.id.replace(/_/g, " ")),
		el("h3", {}, f.title),
		...lines(f.detail, "p"),
		at.length ? el("p", { class: "soft" }, "Where:") : null,
		el("ul", {}, ...at.map((p) => el("li", {}, place(path, p),
			", " + time(p.dur_ns) + ": " + p.what))),
		el("p", { class: "soft" }, "What to do:"),
		el("ul", {}, ...lines(f.advice, "li")),
		saving(f),
		f.others ? el("p", {}, "Also on " + f.others + " more.") : null);
}

/* The kernel to look at is what is left when the rest is done. */
function in_order(all) {
	const is_last = (f) => f.id === "dominant_kernel";

	return [...all.filter((f) => !is_last(f)), ...all.filter(is_last)];
}

function findings(d) {
	const about = d.gpus.map((g) => "GPU " + g.device + ": " +
		time(g.gpu_busy_ns) + " of work in the " + time(g.window_ns) +
		" looked at, " + (g.steps ? g.steps + " steps" : "no steps") +
		". ").join("");

	return section("findings", "Findings", about || null,
		...in_order(d.findings).map(finding),
		el("p", { class: "soft" }, d.checked.length ?
			(d.findings.length ? "Nothing else was found. " :
				"Nothing was found. ") + "Checked were: " +
			d.checked.map((c) => c.replace(/_/g, " ")).join(", ") +
			"." : "No GPU work in this trace."));
}

/* ---- Utilisation ---- */

const LEFT = 76, RIGHT = 10;
const INNER = 1000 - LEFT - RIGHT;

function grid(height, texts) {
	return texts.flatMap((text, i) => {
		const y = 10 + height - height * i / (texts.length - 1);

		return [line(LEFT, y, 1000 - RIGHT, y, "grid"),
			label(LEFT - 6, y + 4, text, "end")];
	});
}

function gpu_title(gpu) {
	const s = data.series, file = s.files[gpu.file];

	return "GPU " + gpu.device +
		(file.rank >= 0 && s.files.length > 1 ?
			", rank " + file.rank : "") +
		(s.files.length > 1 ? ", " + known_as(file.path) : "");
}

function bin_width(i) {
	const { bin_ns } = data.series;

	return Math.min(bin_ns, data.report.summary.wall_ns - i * bin_ns);
}

function gpu_bars(gpu) {
	const s = data.series, file = s.files[gpu.file];
	const step = INNER / s.bins;

	return gpu.busy_ns.flatMap((busy, i) => {
		const from = i * s.bin_ns, width = bin_width(i);
		const part = width > 0 ? Math.min(busy / width, 1) : 0;
		const x = LEFT + i * step;

		return [rect(x, 110 - part * 100, Math.max(step - .6, .4),
			part * 100, "a"),
		fill(draw("a", {
			href: perfetto(file.path, s.start_ns + from -
				file.shift_ns, width).href,
			target: "_blank", tabindex: "-1",
		}), {}, [rect(x, 10, step, 100, "hit", "from " + time(from) +
			" for " + time(width) + ": busy " + time(busy) + ", " +
			share(part))])];
	});
}

function gpu_chart(gpu) {
	const s = data.series, wall = s.bins * s.bin_ns;
	const ticks = [0, 1, 2, 3, 4, 5].map((i) => label(
		LEFT + INNER * i / 5, 128, time(wall * i / 5),
		i === 5 ? "end" : i ? "middle" : "start"));

	return chart(134, gpu_title(gpu) + ": part of the time in which it works",
		...grid(100, ["0 %", "50 %", "100 %"]), ...ticks,
		...gpu_bars(gpu));
}

function gpu_table(gpu, n) {
	const s = data.series, file = s.files[gpu.file];
	const rows = gpu.busy_ns.map((busy_ns, i) => ({
		from_ns: i * s.bin_ns, busy_ns, i,
		share: busy_ns / bin_width(i),
	}));

	return folded("as a table", table("utilisation_" + n, rows,
		["from_ns", "busy_ns", "share", links((row) => [file.path,
			s.start_ns + row.from_ns - file.shift_ns,
			bin_width(row.i)])]));
}

function utilisation(s) {
	if (!s.gpus.length)
		return null;
	return section("utilisation", "Utilisation over time",
		"Part of each " + time(s.bin_ns) + " in which the GPU works, " +
		"over its streams. A click opens that time in Perfetto.",
		...s.gpus.flatMap((gpu, n) => [el("h3", {}, gpu_title(gpu)),
			gpu_chart(gpu), gpu_table(gpu, n)]));
}

/* ---- Steps ---- */

function median(values) {
	const v = [...values].sort((a, b) => a - b);
	const middle = Math.floor(v.length / 2);

	return v.length % 2 ? v[middle] : (v[middle - 1] + v[middle]) / 2;
}

/* At most 500 bars: then each is the longest of several steps. */
function step_bars(steps) {
	const each = Math.ceil(steps.length / 500), bars = [];

	for (let i = 0; i < steps.length; i += each)
		bars.push({ first: i, dur_ns: most(steps
			.slice(i, i + each).map((s) => s.dur_ns)) });
	return bars;
}

function step_chart(steps) {
	const bars = step_bars(steps), top = most(steps.map((s) => s.dur_ns));
	const width = INNER / bars.length;
	const middle = median(steps.map((s) => s.dur_ns));
	const y = 110 - (top ? middle / top * 100 : 0);
	const every = Math.ceil(bars.length / 12);

	return chart(134, "time of each step",
		...grid(100, ["0", time(top / 2), time(top)]),
		...bars.map((b, i) => rect(LEFT + i * width + width * .1,
			110 - (top ? b.dur_ns / top * 100 : 0), width * .8,
			top ? b.dur_ns / top * 100 : 0, "a",
			"step " + b.first + ": " + time(b.dur_ns))),
		...bars.filter((b, i) => i % every === 0).map((b) => label(
			LEFT + (b.first / steps.length) * INNER + width / 2,
			128, String(b.first), "middle")),
		line(LEFT, y, 1000 - RIGHT, y, "median"));
}

function steps_of(file, n) {
	const about = file.step_source === "kernels" ?
		"kernels that repeat" : "'" + file.step + "'";
	const rows = file.steps.map((s, i) => ({ step: i, ...s }));

	return [el("h3", {}, (data.series.files.length > 1 ?
		known_as(file.path) + ": " : "") + file.steps.length +
		" steps (" + about + "), median " +
		time(median(file.steps.map((s) => s.dur_ns)))),
	step_chart(file.steps),
	folded("as a table", table("steps_" + n, rows,
		["step", "ts_ns", "dur_ns", links((row) => [file.path,
			row.ts_ns, row.dur_ns])]))];
}

function steps(s) {
	const parts = s.files.flatMap((file, n) =>
		(file.steps.length ? steps_of(file, n) : []));

	return parts.length ? section("steps", "Steps",
		"From the start of one to the start of the next. The broken " +
		"line is the median.", ...parts) : null;
}

/* ---- Kernels ---- */

function kernels(rows) {
	const of = bars(rows, (row) => [row.total_ns]);

	return section("kernels", "Kernels", "By their summed time on the GPU.",
		rows.length ? table("table_kernels", rows, ["name", of, "share",
			"total_ns", "count", "avg_ns", "median_ns", "min_ns",
			"max_ns", "stddev_ns"]) :
			el("p", {}, "There are none."));
}

/* ---- Histograms ---- */

function power(i) {
	return time(2 ** i);
}

function histogram_chart(h, title) {
	const first = h.count.findIndex((n) => n > 0);
	const nr = h.count.length - first, width = 440 / nr;
	const counts = most(h.count), times = most(h.total_ns);
	const every = Math.ceil(nr / 7);
	const bars = h.count.slice(first).flatMap((count, i) => {
		const x = 30 + i * width, ns = h.total_ns[first + i];
		const text = power(first + i) + " to " + power(first + i + 1) +
			": " + exact(count) + ", " + time(ns) + " in all";
		const tall = [count / counts, times ? ns / times : 0];

		return [
			rect(x + width * .1, 150 - tall[0] * 130, width * .4,
				tall[0] * 130, "a"),
			rect(x + width * .5, 150 - tall[1] * 130, width * .4,
				tall[1] * 130, "b"),
			rect(x, 20, width, 130, "hit", text),
		];
	});
	const ticks = Array.from({ length: nr + 1 }, (_, i) => i % every ?
		null : label(30 + i * width, 168, power(first + i), "middle"));

	return el("div", {}, draw("svg", { class: "chart histogram",
		viewBox: "0 0 500 176", role: "img", "aria-label": title },
	line(30, 150, 470, 150, "grid"), ...bars, ...ticks));
}

function histogram(id, title, about, h) {
	const rows = h.count.map((count, i) => ({ from: power(i),
		to: power(i + 1), count, total_ns: h.total_ns[i] }))
		.filter((row) => row.count);

	if (!rows.length)
		return section(id, title, about, el("p", {}, "There are none."));
	return section(id, title, about, histogram_chart(h, title),
		el("p", { class: "soft" },
			el("span", { class: "key a" }, "how many (the most: " +
				exact(most(h.count)) + ")"),
			el("span", { class: "key b" }, "their time (the most: " +
				time(most(h.total_ns)) + ")")),
		folded("as a table", table("table_" + id, rows,
			["from", "to", "count", "total_ns"])));
}

function sum(histograms) {
	const all = { count: [], total_ns: [] };

	for (const h of histograms)
		for (const key of ["count", "total_ns"])
			h[key].forEach((n, i) => {
				all[key][i] = (all[key][i] || 0) + n;
			});
	return all;
}

function histograms(s) {
	return el("div", { class: "pair" },
		histogram("gaps", "Gaps of the GPU", "Between two stretches " +
			"of work, over all streams of a GPU.",
			sum(s.gpus.map((gpu) => gpu.gaps))),
		histogram("launch_delays", "Launch delays", "From the end of a " +
			"call to the start of what it launched; of " +
			exact(s.launch_delays.inside) +
			" more it began before the call returned.",
			s.launch_delays.after));
}

/* ---- The tree of ranges ---- */

function ordered(ranges) {
	const inside = new Map(), rows = [];
	const add = (parent, depth) => {
		const next = inside.get(parent) || [];

		next.sort((a, b) => b.total_ns - a.total_ns);
		for (const node of next) {
			rows.push({ depth, ...node });
			add(node.i, depth + 1);
		}
	};

	ranges.forEach((range, i) => {
		const at = inside.get(range.parent) || [];

		at.push({ i, ...range });
		inside.set(range.parent, at);
	});
	add(-1, 0);
	return rows;
}

function ranges(s) {
	const rows = ordered(s.ranges);

	if (!rows.length)
		return null;
	return section("ranges", "NVTX ranges",
		"Each inside the one that it lies in; GPU work is what was " +
		"launched inside" + (s.ranges_left_out ? ". Left out: " +
		exact(s.ranges_left_out) + " ranges of too many names, or " +
		"too deep." : "."),
		table("table_ranges", rows, ["name",
			bars(rows, (row) => [row.total_ns]), "count",
			"total_ns", "gpu_ns"]));
}

/* ---- The page ---- */

const TABLES = {
	devices: "GPUs", kernels_grid: "Kernels by grid and block",
	api: "CUDA calls", launches: "Launches", copies: "Copies by time",
	copy_sizes: "Copies by size", nvtx: "NVTX ranges by name",
	nvtx_gpu: "NVTX ranges on the GPU", nvtx_kernels: "Kernels by range",
	graphs: "CUDA graphs", graph_launches: "Launches of CUDA graphs",
	osrt: "Blocking calls of the C library", ops: "Operators",
	threads: "Threads", memory: "Memory",
	library_calls: "Library calls by shape", nccl: "Collectives",
	stacks: "Functions by samples",
};

function other_tables(r) {
	const parts = Object.entries(r).filter(([key, rows]) =>
		key !== "kernels" && Array.isArray(rows) && rows.length);

	return section("tables", "All tables", null,
		...parts.map(([key, rows]) => folded(
			(TABLES[key] || title_of(key)) + " (" +
			exact(rows.length) + ")",
			table("table_" + key, rows, columns(rows)))));
}

function report() {
	const s = data.series;

	return [summary(data.report.summary), findings(data.diagnosis),
		utilisation(s), steps(s), kernels(data.report.kernels),
		histograms(s), ranges(s), other_tables(data.report)];
}

function head(names, between, about) {
	const title = names.map(known_as).join(between);

	document.title = title + " - gputrace";
	document.getElementById("head").append(el("h1", {}, title),
		el("p", { class: "soft" }, about));
}

function foot(names) {
	const links = el("p", {}, "The links open ui.perfetto.dev, which " +
		"reads the trace from your own machine; before that, start " +
		"there: ", el("code", {}, "gputrace open " + names[0]));

	document.getElementById("foot").append(
		data.command === "report" ? links : "",
		el("p", {}, "Written by gputrace " + data.version +
			". This page fetches nothing. Its numbers are in it " +
			"as JSON, in the element \"data\"."));
}

/* ---- The two sides of a diff ---- */

const SIDES = {
	kernels: "Kernels", copies: "Copies and sets", api: "CUDA API calls",
	nvtx: "NVTX ranges",
};

function changes(id, rows, more) {
	return table(id, rows, ["name",
		bars(rows, (row) => [row.a_ns, row.b_ns]), "state", "change",
		"change_ns", "a_ns", "b_ns", "p", ...more]);
}

/* Of names that one side alone has. */
function only(d, key, suffix, side) {
	const rows = d[key + suffix];

	return rows.length ? [el("h3", {}, "Only in " + side.toUpperCase()),
		table("table_" + key + suffix, rows, ["name",
			bars(rows, (row) => [row.a_ns, row.b_ns]),
			side + "_ns", side + "_total_ns", side + "_count"])] :
		[];
}

function change_card(metric) {
	return card(metric.name, metric.change, cell_text("change",
		metric.change) + " %", metric.name + ": " +
		time(metric.a_ns) + " to " + time(metric.b_ns) + ", " +
		metric.state);
}

function key_of_sides(d) {
	return el("p", { class: "soft" }, (d.verdict.by_step ?
		"Medians of the steps." : "Fewer than six steps: a time " +
		"is that of one operation, and metrics are not tested."),
	el("span", { class: "key a" }, "A: " + known_as(d.sides[0].file)),
	el("span", { class: "key b" }, "B: " + known_as(d.sides[1].file)));
}

function side_tables(d, key) {
	const parts = [...(d[key].length ? [changes("table_" + key, d[key],
		["a_total_ns", "b_total_ns", "a_count", "b_count"])] : []),
	...only(d, key, "_added", "b"), ...only(d, key, "_removed", "a")];

	return parts.length ? section(key, SIDES[key], null, ...parts) : null;
}

function diff(d) {
	return [
		el("div", { class: "cards", id: "summary" },
			card("significant", d.verdict.significant,
				exact(d.verdict.significant),
				"significant changes"),
			...d.metrics.map(change_card)),
		section("sides", "The two traces", null,
			table("table_sides", d.sides, ["side", "file",
				"source", "steps", "wall_ns", "gpu_ops",
				"api_calls", "lost"])),
		d.differences.length ? section("differences",
			"Recorded differently", "What follows may come from it.",
			table("table_differences", d.differences,
				["name", "a", "b"])) : null,
		section("metrics", "Time", null, key_of_sides(d),
			changes("table_metrics", d.metrics, [])),
		...Object.keys(SIDES).map((key) => side_tables(d, key)),
	];
}

const PAGES = {
	report: {
		names: () => data.series.files.map((file) => file.path),
		between: ", ",
		parts: () => report(),
	},
	diff: {
		names: () => data.diff.sides.map((side) => side.file),
		between: " \u2192 ",
		parts: () => diff(data.diff),
	},
};

function show() {
	const { names, between, parts } = PAGES[data.command];

	head(names(), between, "gputrace " + data.command);
	document.getElementById("main").append(
		...parts().filter((part) => part !== null));
	foot(names());
}

show();
