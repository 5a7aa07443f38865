/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "collector/log.h"
#include "collector/loss.h"
#include "writer/meta.h"
#include "writer/path.h"
#include "writer/twin.h"

/*
 * From events to files: pieces into the sink, the tail at each write-out, the
 * next file when one is full.
 */
enum {
	/* Events gather to that before the sink gets them: one write(2) for
	 * some 2,500 kernels. */
	PIECE_MAX = 1 << 20,
	/* The smallest, where files are small. */
	PIECE_MIN = 4 << 10,
	PARTS_MAX = 1024,
};

static size_t piece_size(const struct trace *trace)
{
	uint64_t size = trace->options.max_size / 16;

	return size > PIECE_MAX ? PIECE_MAX : size < PIECE_MIN ? PIECE_MIN :
		(size_t)size;
}

/* Counts what will not be in any file. */
static void drop_events(struct trace *trace)
{
	loss_add(LOSS_WRITE, trace->nr_events - trace->nr_offered);
	trace->nr_offered = trace->nr_events;
	bytes_clear(&trace->out);
}

static void stop(struct trace *trace)
{
	sink_close(trace->sink);
	trace->sink = NULL;
	trace->is_stopped = true;
}

static int name_part(struct trace *trace, uint32_t part, char *path,
		     size_t size)
{
	char number[16];

	number[0] = 0;
	if (part)
		snprintf(number, sizeof(number), ".r%u", part);
	return path_insert(trace->first_path, number, path, size);
}

static struct sink *open_first(struct trace *trace, int *error)
{
	struct path_values values = {
		.pid = trace->pid, .rank = trace->options.rank,
		.host = trace->host, .program = trace->program,
		.start_ns = trace->start_ns,
	};
	struct sink *sink;
	bool is_pattern;

	*error = path_expand(trace->options.out, &values, trace->path,
			     sizeof(trace->path), &is_pattern);
	if (*error)
		return NULL;
	sink = path_open_sink(trace->path, sizeof(trace->path), is_pattern,
			      trace->pid, error);
	memcpy(trace->first_path, trace->path, sizeof(trace->path));
	return sink;
}

static struct sink *open_part(struct trace *trace, int *error)
{
	*error = name_part(trace, trace->part, trace->path,
			   sizeof(trace->path));
	return *error ? NULL : path_open_sink(trace->path, sizeof(trace->path),
					      false, trace->pid, error);
}

/* The oldest file goes when there are more than are to be kept, the one that
 * was just begun among them. */
static void forget_part(struct trace *trace)
{
	uint32_t keep = trace->options.keep, old;
	char path[4096];

	if (!keep || trace->part < keep)
		return;
	old = trace->part - keep;
	if (name_part(trace, old, path, sizeof(path)) || unlink(path))
		return;
	loss_add(LOSS_ROTATED, trace->part_events[old % PARTS_MAX]);
}

static bool open_sink(struct trace *trace)
{
	struct bytes head = { 0 };
	char reason[64];
	int error = 0;

	if (trace->sink || trace->is_stopped)
		return trace->sink;
	trace->sink = trace->open_sink ? trace->open_sink(trace) :
		trace->part ? open_part(trace, &error) :
		open_first(trace, &error);
	if (!trace->sink) {
		twin_reason(-error, reason, sizeof(reason));
		log_line(LOG_WARN, "cannot create %s: %s; tracing stops; set "
			 "GPUTRACE_OUT to a file in a folder that can be "
			 "written", trace->path, reason);
		stop(trace);
		return false;
	}
	forget_part(trace);
	meta_head(trace, &head);
	if (head.is_cut || sink_append(trace->sink, &head))
		stop(trace);
	bytes_fini(&head);
	return trace->sink;
}

/* The file gets its tail; false if it stays as it was. */
static bool commit(struct trace *trace, bool is_last)
{
	bytes_clear(&trace->tail);
	meta_tail(trace, &trace->tail, is_last);
	if (trace->tail.is_cut)
		return false;
	trace->tail_len = trace->tail.len;
	if (sink_commit(trace->sink, &trace->tail)) {
		stop(trace);
		return false;
	}
	trace->nr_bytes = sink_size(trace->sink, trace->tail_len);
	trace->has_new = false;
	return true;
}

static void next_part(struct trace *trace)
{
	if (!commit(trace, true))
		return;
	sink_close(trace->sink);
	trace->sink = NULL;
	if (trace->options.on_full == ON_FULL_STOP) {
		log_line(LOG_WARN, "%s has reached GPUTRACE_MAX_SIZE; tracing "
			 "stops, the file is complete", trace->path);
		trace->is_stopped = true;
		return;
	}
	trace->part++;
	trace->part_events[trace->part % PARTS_MAX] = 0;
}

/* Two pieces and the tail's growth are kept free for what comes before the
 * next look. */
static bool is_full(const struct trace *trace)
{
	uint64_t need = sink_size(trace->sink, trace->tail_len) +
		2 * piece_size(trace) + trace->tail_len / 8;

	return trace->options.max_size && need > trace->options.max_size;
}

static void append(struct trace *trace)
{
	if (trace->out.is_cut || !open_sink(trace) ||
	    sink_append(trace->sink, &trace->out)) {
		if (trace->sink && !trace->out.is_cut)
			stop(trace);
		drop_events(trace);
		return;
	}
	trace->part_events[trace->part % PARTS_MAX] +=
		trace->nr_events - trace->nr_offered;
	trace->nr_offered = trace->nr_events;
	trace->has_new = true;
	bytes_clear(&trace->out);
	if (is_full(trace))
		next_part(trace);
}

void output_offer(struct trace *trace)
{
	if (trace->out.len >= piece_size(trace) || trace->out.is_cut)
		append(trace);
}

void output_commit(struct trace *trace, bool is_last)
{
	if (trace->out.len || trace->out.is_cut)
		append(trace);
	if (trace->sink && (trace->has_new || is_last ||
			    trace->nr_events != trace->nr_offered))
		(void)commit(trace, is_last);
}
