/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report_print.h"

/* What PyTorch's allocator told us, or PyTorch's profiler
 * (profile_memory=True). */
static const struct column columns[] = {
	{ "Peak (MB)", "peak_bytes", CELL_BYTES, COLUMN_BOTH },
	{ "Reserved Peak (MB)", "reserved_peak_bytes", CELL_BYTES,
		COLUMN_BOTH },
	{ "Allocations", "alloc_count", CELL_COUNT, COLUMN_BOTH },
	{ "Allocated (MB)", "alloc_bytes", CELL_BYTES, COLUMN_BOTH },
	{ "Frees", "free_count", CELL_COUNT, COLUMN_BOTH },
	{ "Freed (MB)", "free_bytes", CELL_BYTES, COLUMN_BOTH },
	{ "Out of Memory", "oom_count", CELL_COUNT, COLUMN_BOTH },
	{ "PID", "pid", CELL_TEXT, COLUMN_BOTH },
	{ "Device", "name", CELL_TEXT, COLUMN_BOTH },
};
enum { NR = sizeof(columns) / sizeof(*columns) };

static int64_t number(const struct json_value *args, const char *key,
		      int64_t other)
{
	struct json_value v = jsonval_member(args, key);
	int64_t n;

	return jsonval_int(&v, &n) ? n : other;
}

/* Pools are few: one a process and device. */
static uint32_t find_pool(struct report *r, uint32_t process, int64_t type,
			  int64_t device)
{
	enum { MANY = 1000 };
	size_t i = 0;

	for (; i < r->nr_pools; i++)
		if (r->pool[i].process == process &&
		    r->pool[i].type == type && r->pool[i].device == device)
			return i;
	if (i == MANY)
		return MANY - 1;
	if (!VEC_ROOM(r->pool, r->nr_pools, r->cap_pools)) {
		r->no_memory = true;
		return UINT32_MAX;
	}
	r->pool[r->nr_pools++] = (struct pool){
		.process = process, .type = type, .device = device,
	};
	return i;
}

void report_memory_add(struct report *r, const struct json_value *args,
		       uint32_t process, int64_t at, bool is_failure)
{
	uint32_t pool;
	int64_t bytes;

	if (args->type != JSON_OBJECT)
		return;
	bytes = number(args, "Bytes", 0);
	pool = find_pool(r, process, number(args, "Device Type", -1),
			 number(args, "Device Id", -1));
	if (pool == UINT32_MAX ||
	    !VEC_ROOM(r->memory, r->nr_memory, r->cap_memory)) {
		r->no_memory = true;
		return;
	}
	r->memory[r->nr_memory++] = (struct memory_event){
		.at = at, .bytes = bytes < -INT64_MAX ? -INT64_MAX : bytes,
		.total = number(args, "Total Allocated", -1),
		.reserved = number(args, "Total Reserved", -1), .pool = pool,
		.is_failure = is_failure,
	};
}

static void count(struct pool *p, int64_t bytes)
{
	p->nr_allocations += bytes > 0;
	p->nr_frees += bytes < 0;
	report_sum(bytes > 0 ? &p->allocated : &p->freed,
		   bytes > 0 ? bytes : -bytes);
}

void report_memory(struct report *r, const struct report_select *want)
{
	for (size_t i = 0; i < r->nr_memory; i++) {
		const struct memory_event *e = &r->memory[i];
		struct pool *p = &r->pool[e->pool];

		if ((want->has_from && e->at < r->first_ns) ||
		    (want->has_to && e->at >= r->last_ns))
			continue;
		if (e->is_failure)
			p->nr_failures++;
		else
			count(p, e->bytes);
		p->peak = e->total > p->peak ? e->total : p->peak;
		p->reserved_peak = e->reserved > p->reserved_peak ?
			e->reserved : p->reserved_peak;
	}
}

static int by_peak(const void *a, const void *b, void *arg)
{
	const struct pool *x = a, *y = b;
	const struct process *px = (struct process *)arg + x->process;
	const struct process *py = (struct process *)arg + y->process;

	if (x->peak != y->peak)
		return x->peak > y->peak ? -1 : 1;
	if (px->file != py->file)
		return px->file < py->file ? -1 : 1;
	if (px->pid != py->pid)
		return px->pid < py->pid ? -1 : 1;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static const char *pool_text(struct report *r, const struct pool *p)
{
	char text[64];
	uint32_t id;

	if (p->type == 0)
		snprintf(text, sizeof(text), "CPU");
	else if (p->type == 1)
		snprintf(text, sizeof(text), "GPU %" PRId64, p->device);
	else
		snprintf(text, sizeof(text), "type %" PRId64 " %" PRId64,
			 p->type, p->device);
	id = intern_text(&r->names, text, strlen(text));
	return id == INTERN_NONE ? "" : intern_get(&r->names, id);
}

int report_print_memory(struct report_view *s, struct report *r)
{
	struct table t = {
		.title = "Memory of PyTorch's allocator", .key = "memory",
		.columns = columns, .nr_columns = NR, .use = COLUMN_BOTH,
	};

	t.cells = calloc(r->nr_pools * NR + 1, sizeof(*t.cells));
	if (!t.cells)
		return -1;
	if (r->nr_pools)
		qsort_r(r->pool, r->nr_pools, sizeof(*r->pool), by_peak,
			r->process);
	for (size_t i = 0; i < r->nr_pools; i++) {
		const struct pool *p = &r->pool[i];
		union cell *cell = t.cells + t.nr_rows * NR;

		if (!p->nr_allocations && !p->nr_frees && !p->nr_failures)
			continue;
		cell[0].n = p->peak;
		cell[1].n = p->reserved_peak;
		cell[2].n = p->nr_allocations;
		cell[3].n = p->allocated;
		cell[4].n = p->nr_frees;
		cell[5].n = p->freed;
		cell[6].n = p->nr_failures;
		cell[7].text = report_lane_text(r, r->process[p->process].pid);
		cell[8].text = pool_text(r, p);
		t.nr_rows++;
	}
	report_table_print(s, &t);
	return 0;
}
