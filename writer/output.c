/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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
	/* GPUTRACE_KEEP beyond that (16 MB of table): none is removed. */
	KEEP_MAX = 1 << 20,
};

struct part {
	char *path;             /* as it came to be: some name was taken */
	uint64_t nr_events;
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

/* Forgotten first: the child of a fork in this moment looks at it. */
static void close_sink(struct trace *trace)
{
	struct sink *sink = trace->sink;

	trace->sink = NULL;
	atomic_thread_fence(memory_order_seq_cst);
	sink_close(sink);
}

static void stop(struct trace *trace)
{
	close_sink(trace);
	trace->is_stopped = true;
}

/* Each sink says itself what went wrong, but for memory: that is said once. */
static bool succeeds(struct trace *trace, int error)
{
	if (error != -ENOMEM || trace->lacks_memory)
		return !error;
	trace->lacks_memory = true;
	log_line(LOG_WARN, "no memory to write %s; %s; set GPUTRACE_BUFFER to "
		 "less", trace->path[0] ? trace->path : trace->options.out,
		 trace->nr_bytes ? "it may lack its end" : "there is no file");
	return false;
}

/* As many as stay, and the one that goes. */
static uint32_t nr_parts(const struct trace *trace)
{
	return trace->options.keep < KEEP_MAX ? trace->options.keep + 1 : 1;
}

static struct part *part_of(struct trace *trace, uint32_t number)
{
	return &trace->parts[number % nr_parts(trace)];
}

int output_init(struct trace *trace)
{
	trace->parts = calloc(nr_parts(trace), sizeof(*trace->parts));
	return trace->parts ? 0 : -ENOMEM;
}

void output_fini(struct trace *trace)
{
	uint32_t i;

	close_sink(trace);
	for (i = 0; trace->parts && i < nr_parts(trace); i++)
		free(trace->parts[i].path);
	free(trace->parts);
	trace->parts = NULL;
}

static struct sink *open_first(struct trace *trace, int *error)
{
	struct path_values values = {
		.pid = trace->pid, .rank = trace->options.rank,
		.host = trace->host, .program = trace->program,
		.start_ns = trace->start_ns,
	};
	struct sink *sink;

	*error = path_expand(trace->options.out, &values, trace->path,
			     sizeof(trace->path), &trace->is_pattern);
	if (*error)
		return NULL;
	sink = path_open_sink(trace->path, sizeof(trace->path),
			      trace->is_pattern, trace->pid, error);
	memcpy(trace->first_path, trace->path, sizeof(trace->path));
	return sink;
}

static struct sink *open_part(struct trace *trace, int *error)
{
	char number[16];

	snprintf(number, sizeof(number), ".r%u", trace->part);
	*error = path_insert(trace->first_path, number, trace->path,
			     sizeof(trace->path));
	return *error ? NULL : path_open_sink(trace->path, sizeof(trace->path),
					      trace->is_pattern, trace->pid,
					      error);
}

/* The oldest file goes when there are more than are to be kept, the one that
 * was just begun among them. */
static void forget_part(struct trace *trace)
{
	uint32_t keep = trace->options.keep;
	struct part *old;

	if (nr_parts(trace) == 1 || trace->part < keep)
		return;
	old = part_of(trace, trace->part - keep);
	if (old->path && !unlink(old->path))
		loss_add(LOSS_ROTATED, old->nr_events);
	free(old->path);
	old->path = NULL;
}

static void begin_part(struct trace *trace)
{
	struct part *part = part_of(trace, trace->part);

	forget_part(trace);
	free(part->path);
	part->path = bytes_copy(trace->path, strlen(trace->path));
	part->nr_events = 0;
	trace->nr_bytes = 0;            /* the file is not there yet */
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
	begin_part(trace);
	meta_head(trace, &head);
	if (!succeeds(trace, head.is_cut ? -ENOMEM :
		      sink_append(trace->sink, &head)))
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
	if (!succeeds(trace, sink_commit(trace->sink, &trace->tail))) {
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
	close_sink(trace);
	if (trace->options.on_full == ON_FULL_STOP) {
		log_line(LOG_WARN, "%s has reached GPUTRACE_MAX_SIZE; tracing "
			 "stops, the file is complete", trace->path);
		trace->is_stopped = true;
		return;
	}
	trace->part++;
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
	bool is_whole = succeeds(trace, trace->out.is_cut ? -ENOMEM : 0);

	if (!is_whole || !open_sink(trace) ||
	    !succeeds(trace, sink_append(trace->sink, &trace->out))) {
		if (trace->sink && is_whole)
			stop(trace);
		drop_events(trace);
		return;
	}
	part_of(trace, trace->part)->nr_events +=
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
	if (!trace->sink || !(trace->has_new || is_last ||
			      trace->nr_events != trace->nr_offered))
		return;
	/* Where the tail was cut the next commit tries again. */
	if (!commit(trace, is_last) && is_last && trace->sink)
		(void)succeeds(trace, -ENOMEM);
}
