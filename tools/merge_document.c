/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "tools/merge.h"
#include "tools/merge_out.h"
#include "tools/utf8.h"

/*
 * The document around the events:
 *
 *      schemaVersion ... distributedInfo       the lowest rank, for HTA
 *      traceEvents
 *      deviceProperties                        each GPU's
 *      gputrace        losses, own_ns          sums
 *                      merged[]                of each file: what was changed,
 *                                              and all keys of its document
 */
static int64_t lowest_rank(const struct merge *m)
{
	int64_t rank = INT64_MAX;

	for (size_t i = 0; i < m->nr_files; i++)
		if (m->file[i].rank >= 0 && m->file[i].rank < rank)
			rank = m->file[i].rank;
	return rank == INT64_MAX ? 0 : rank;
}

static void write_head(const struct merge *m, struct merge_out *out)
{
	merge_out_print(out, "{\"schemaVersion\": 1, \"displayTimeUnit\": "
			"\"ms\", \"baseTimeNanoseconds\": %" PRId64 ",\n"
			"\"distributedInfo\": {\"rank\": %" PRId64
			", \"world_size\": %" PRId64 "},\n\"traceEvents\": [",
			m->base_ns < 0 ? 0 : m->base_ns, lowest_rank(m),
			m->world_size > 0 ? m->world_size :
			(int64_t)m->nr_files);
}

static void write_repaired(struct merge_out *out, const char *text, size_t len)
{
	bool in_string = false;

	merge_out_repaired(out, text, len, &in_string);
}

static void write_devices(const struct merge *m, struct merge_out *out)
{
	merge_out_print(out, "\n],\n\"deviceProperties\": [");
	for (size_t i = 0; i < m->nr_devices; i++) {
		const char *text = intern_get(&m->names, m->device[i]);

		merge_out_print(out, i ? ",\n" : "\n");
		write_repaired(out, text, strlen(text));
	}
	merge_out_print(out, "],\n");
}

static void write_losses(const struct merge *m, struct merge_out *out)
{
	merge_out_print(out, "\"losses\": {");
	for (size_t i = 0; i < m->nr_losses; i++) {
		merge_out_print(out, i ? ", " : "");
		merge_out_string(out, intern_get(&m->names, m->loss[i].name));
		merge_out_print(out, ": %" PRId64, m->loss[i].n);
	}
	merge_out_print(out, "}");
}

/* {"pid in the file": pid here}, for those that changed. */
static void write_pids(const struct merge *m, struct merge_out *out,
		       uint16_t file)
{
	const char *comma = "";

	merge_out_print(out, ", \"pids\": {");
	for (size_t i = 0; i < m->nr_order; i++) {
		const struct merge_process *p = &m->process[m->order[i]];

		if (p->file != file || p->pid == p->to)
			continue;
		merge_out_print(out, "%s", comma);
		if (p->pid & MERGE_TEXT)
			merge_out_string(out, intern_get(&m->names,
							 (uint32_t)p->pid));
		else            /* the sign bit was taken away */
			merge_out_print(out, "\"%" PRId64 "\"",
					(int64_t)(p->pid << 1) >> 1);
		merge_out_print(out, ": %u", p->to);
		comma = ", ";
	}
	merge_out_print(out, "}");
}

static void write_file(const struct merge *m, struct merge_out *out,
		       uint16_t file)
{
	const struct merge_file *f = &m->file[file];

	merge_out_print(out, "{\"rank\": %" PRId64 ", \"host\": ", f->rank);
	merge_out_string(out, f->host == INTERN_NONE ? "" :
			 intern_get(&m->names, f->host));
	merge_out_print(out, ", \"pid\": %" PRId64 ", \"shift_ns\": %" PRId64
			", \"ids_from\": %" PRId64 ", \"left_out\": %" PRIu64,
			f->pid, f->shift_ns, f->ids_from,
			f->nr_odd + f->header_left_out);
	write_pids(m, out, file);
	merge_out_print(out, ",\n\"header\": {");
	write_repaired(out, f->header ? f->header : "", f->header_len);
	merge_out_print(out, "}}");
}

static void write_tail(const struct merge *m, struct merge_out *out,
		       const char *name)
{
	write_devices(m, out);
	merge_out_print(out, "\"gputrace\": {\"version\": \"%s\", ",
			GPUTRACE_VERSION);
	write_losses(m, out);
	merge_out_print(out, ", \"own_ns\": %" PRId64 ", \"merged\": [",
			m->own_ns);
	for (size_t i = 0; i < m->nr_files; i++) {
		merge_out_print(out, i ? ",\n" : "\n");
		write_file(m, out, i);
	}
	merge_out_print(out, "]},\n\"traceName\": ");
	merge_out_string(out, utf8_valid(name, strlen(name)) == strlen(name) ?
			 name : "merged");
	merge_out_print(out, "}\n");
}

int merge_write(struct merge *m, struct merge_out *out, const char *name,
		uint16_t *file, struct trace_problem *problem)
{
	int err;

	write_head(m, out);
	err = merge_events(m, out, file, problem);
	if (!err)
		write_tail(m, out, name);
	return err;
}
