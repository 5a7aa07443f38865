/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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
	/* Of a file, whatever GPUTRACE_MAX_SIZE says: some 100 kernels. */
	SIZE_MIN = 64 << 10,
	/* GPUTRACE_KEEP beyond that (16 MB of table): none is removed. */
	KEEP_MAX = 1 << 20,
};

struct part {
	char *path;             /* as it came to be: some name was taken */
	struct tally tally;
};

static size_t piece_size(const struct trace *trace)
{
	uint64_t size = trace->options.max_size / 16;

	return size > PIECE_MAX ? PIECE_MAX : size < PIECE_MIN ? PIECE_MIN :
		(size_t)size;
}

static struct tally made(const struct trace *trace)
{
	return (struct tally){ trace->nr_events, trace->nr_kernels };
}

static struct tally difference(struct tally a, struct tally b)
{
	return (struct tally){ a.events - b.events, a.kernels - b.kernels };
}

static void add(struct tally *to, struct tally more)
{
	to->events += more.events;
	to->kernels += more.kernels;
}

/* What was made after `since` will not be in any file. */
static void lose(struct trace *trace, struct tally since)
{
	struct tally lost = difference(made(trace), since);

	loss_add(LOSS_WRITE, lost.events);
	add(&trace->gone, lost);
	add(&trace->settled, lost);
	trace->offered = made(trace);
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

/* The file stays as it was seen last; what came since is lost with the rest. */
static void stop(struct trace *trace)
{
	close_sink(trace);
	trace->is_stopped = true;
	lose(trace, trace->settled);
	watch_end();
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

/* Linux's number for it, whatever its name (a container's is made anew). */
static bool is_dev_null(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(1, 3);
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
	if (is_dev_null(trace->path)) {
		trace->is_null = true;
		*error = -ENOMEM;
		return sink_null_create();
	}
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
	if (old->path && !unlink(old->path)) {
		loss_add(LOSS_ROTATED, old->tally.events);
		add(&trace->gone, old->tally);
	}
	free(old->path);
	old->path = NULL;
}

static void begin_part(struct trace *trace)
{
	struct part *part = part_of(trace, trace->part);

	forget_part(trace);
	free(part->path);
	part->path = bytes_copy(trace->path, strlen(trace->path));
	memset(&part->tally, 0, sizeof(part->tally));
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
static bool commit_tail(struct trace *trace)
{
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

static bool commit(struct trace *trace, bool is_last)
{
	bytes_clear(&trace->tail);
	meta_tail(trace, &trace->tail, is_last);
	if (!commit_tail(trace))
		return false;
	trace->settled = trace->offered;
	return true;
}

/* The sink stays: at the end it learns what was lost since. */
static void stop_full(struct trace *trace)
{
	log_line(LOG_WARN, "%s has reached GPUTRACE_MAX_SIZE; tracing stops, "
		 "the file is complete", trace->path);
	trace->is_stopped = true;
	watch_end();
}

static void next_part(struct trace *trace)
{
	bool stops = trace->options.on_full == ON_FULL_STOP;

	if (stops)
		trace->stopped_by = "GPUTRACE_MAX_SIZE";
	if (!commit(trace, true))
		return;
	if (stops) {
		stop_full(trace);
		return;
	}
	close_sink(trace);
	trace->part++;
}

/*
 * A file must hold more than its own tail (names, lanes), or there would be
 * ever more of them with next to nothing in each: twice the tail, and some
 * pieces.
 */
static uint64_t size_limit(struct trace *trace)
{
	uint64_t tail = sink_size(trace->sink, trace->tail_len) -
		sink_size(trace->sink, 0);
	uint64_t least = 2 * tail + 4 * piece_size(trace);

	least = least < SIZE_MIN ? SIZE_MIN : least;
	if (trace->options.max_size >= least)
		return trace->options.max_size;
	if (!trace->has_said_small)
		log_line(LOG_WARN, "GPUTRACE_MAX_SIZE is too small for what "
			 "each file must hold; files get %llu KiB and more",
			 (unsigned long long)least >> 10);
	trace->has_said_small = true;
	return least;
}

/* Two pieces and the tail's growth are kept free for what comes before the
 * next look. */
static bool is_full(struct trace *trace)
{
	uint64_t need = sink_size(trace->sink, trace->tail_len) +
		2 * piece_size(trace) + trace->tail_len / 8;

	return trace->options.max_size && !trace->is_null &&
	       need > size_limit(trace);
}

static void append(struct trace *trace)
{
	if (trace->is_stopped) {
		lose(trace, trace->settled);
		return;
	}
	if (!succeeds(trace, trace->out.is_cut ? -ENOMEM : 0)) {
		lose(trace, trace->offered);
		return;
	}
	if (!open_sink(trace))
		return;
	if (!succeeds(trace, sink_append(trace->sink, &trace->out))) {
		stop(trace);
		return;
	}
	add(&part_of(trace, trace->part)->tally,
	    difference(made(trace), trace->offered));
	trace->offered = made(trace);
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
	if (trace->sink && trace->is_stopped && is_last) {
		meta_tail_again(trace, &trace->tail);
		(void)commit_tail(trace);
	} else if (trace->sink && !trace->is_stopped &&
		   (trace->has_new || is_last)) {
		/* Where the tail was cut the next commit tries again. */
		if (!commit(trace, is_last) && is_last && trace->sink)
			(void)succeeds(trace, -ENOMEM);
	}
	/* No memory for the last tail. */
	if (is_last)
		lose(trace, trace->settled);
}
