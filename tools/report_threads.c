/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report_print.h"

/* Threads, and where groups are: in words. */
static const struct column thread_columns[] = {
	{ "API Time (ns)", "api_ns", CELL_NS, COLUMN_BOTH },
	{ "API Calls", "api_calls", CELL_COUNT, COLUMN_BOTH },
	{ "Ranges", "ranges", CELL_COUNT, COLUMN_BOTH },
	{ "PID", "pid", CELL_TEXT, COLUMN_BOTH },
	{ "TID", "tid", CELL_TEXT, COLUMN_BOTH },
	{ "Thread", "name", CELL_TEXT, COLUMN_BOTH },
};

const char *report_lane_text(struct report *r, uint64_t n)
{
	char text[24];
	uint32_t id = n;

	if (!(n & REPORT_TEXT)) {
		/* number_or_name() has taken the sign bit away */
		snprintf(text, sizeof(text), "%" PRId64,
			 (int64_t)(n << 1) >> 1);
		id = intern_text(&r->names, n == REPORT_TEXT - 1 ? "-" : text,
				 n == REPORT_TEXT - 1 ? 1 : strlen(text));
	}
	return id == INTERN_NONE ? "" : intern_get(&r->names, id);
}

static int by_time_and_tid(const void *a, const void *b, void *arg)
{
	const struct process *process = arg;
	const struct lane *x = *(const struct lane *const *)a;
	const struct lane *y = *(const struct lane *const *)b;

	if (x->calls_ns != y->calls_ns)
		return x->calls_ns > y->calls_ns ? -1 : 1;
	if (x->nr_ranges != y->nr_ranges)
		return x->nr_ranges > y->nr_ranges ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (process[x->process].file != process[y->process].file)
		return process[x->process].file < process[y->process].file ?
			-1 : 1;
	return process[x->process].pid < process[y->process].pid ? -1 :
		process[x->process].pid > process[y->process].pid;
}

static void fill_thread(union cell *cell, struct report *r,
			const struct lane *lane)
{
	cell[0].n = lane->calls_ns;
	cell[1].n = lane->nr_calls;
	cell[2].n = lane->nr_ranges;
	cell[3].text = report_lane_text(r, r->process[lane->process].pid);
	cell[4].text = report_lane_text(r, lane->tid);
	cell[5].text = lane->name == INTERN_NONE ? "" :
		intern_get(&r->names, lane->name);
}

int report_print_threads(struct report_view *s, struct report *r)
{
	enum { NR = sizeof(thread_columns) / sizeof(*thread_columns) };
	struct table t = {
		.title = "Threads", .key = "threads", .use = COLUMN_BOTH,
		.columns = thread_columns, .nr_columns = NR,
	};

	const struct lane **sorted = calloc(r->nr_lanes + 1, sizeof(*sorted));

	t.cells = calloc(r->nr_lanes * NR + 1, sizeof(*t.cells));
	if (!t.cells || !sorted) {
		free(t.cells);
		free(sorted);
		return -1;
	}
	for (size_t i = 0; i < r->nr_lanes; i++)
		if (r->lane[i].nr_calls || r->lane[i].nr_ranges)
			sorted[t.nr_rows++] = &r->lane[i];
	qsort_r(sorted, t.nr_rows, sizeof(*sorted), by_time_and_tid,
		r->process);
	for (size_t i = 0; i < t.nr_rows; i++)
		fill_thread(t.cells + i * NR, r, sorted[i]);
	report_table_print(s, &t);
	free(sorted);
	return 0;
}

/* "GPU 0", and its process where a file has several of that number. */
static int device_text(struct report *r, uint32_t device, char *to,
		       size_t size)
{
	const struct device *d = &r->device[device];
	int len = snprintf(to, size, "GPU %" PRId64, d->id);

	if (!d->has_twin)
		return len;
	return len + snprintf(to + len, size - len, " of %s", report_lane_text(
				      r, r->process[d->process].pid));
}

const char *report_place_text(struct report *r, uint32_t place)
{
	uint16_t file = 0;
	char text[256];
	uint32_t id;
	int len;

	if (r->by >= BY_RANGE)
		return intern_get(&r->names, place);
	if (r->by == BY_PROCESS) {
		file = r->process[place].file;
		len = snprintf(text, sizeof(text), "process %s",
			       report_lane_text(r, r->process[place].pid));
	} else {
		uint32_t device = r->by == BY_STREAM ?
			r->stream[place].device : place;

		file = r->device[device].file;
		len = device_text(r, device, text, sizeof(text));
		if (r->by == BY_STREAM && len < (int)sizeof(text))
			len += snprintf(text + len, sizeof(text) - len,
					" stream %" PRId64,
					r->stream[place].id);
	}
	if (r->file > 1 && len < (int)sizeof(text))
		snprintf(text + len, sizeof(text) - len, " file %u", file);
	id = intern_text(&r->names, text, strlen(text));
	return id == INTERN_NONE ? "" : intern_get(&r->names, id);
}
