/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "collector/log.h"
#include "collector/loss.h"
#include "writer/meta.h"
#include "writer/output.h"
#include "writer/recorder.h"
#include "writer/requests.h"
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

/* The file stays as it was seen last; what came since is lost with the rest. */
static void stop(struct trace *trace, int error)
{
	file_close_sink(trace->file);
	trace->file->is_stopped = true;
	trace->file->error = error;
	lose(trace, trace->settled);
	/* Other windows have other files. */
	if (trace->file->kind == FILE_COMMON)
		watch_end();
}

/* Each sink says itself what went wrong, but for memory: that is said once. */
static bool succeeds(struct trace *trace, int error)
{
	if (error != -ENOMEM || trace->lacks_memory)
		return !error;
	trace->lacks_memory = true;
	log_line(LOG_WARN, "no memory to write %s; %s; set GPUTRACE_BUFFER to "
		 "less", trace->file->path[0] ? trace->file->path :
		 trace->options.out, trace->file->nr_bytes ? "it may lack its end" : "there is no file");
	return false;
}

int output_init(struct trace *trace)
{
	trace->file = &trace->common;
	return file_init(&trace->common, FILE_COMMON, 0, trace->options.keep);
}

void output_fini(struct trace *trace)
{
	file_fini(&trace->common);
	file_fini(&trace->own);
}

static void say_no_file(const struct file *file, int error)
{
	char reason[64];

	twin_reason(-error, reason, sizeof(reason));
	if (file->kind == FILE_COMMON)
		log_line(LOG_WARN, "cannot create %s: %s; tracing stops; set "
			 "GPUTRACE_OUT to a file in a folder that can be "
			 "written", file->path, reason);
	else
		log_line(LOG_WARN, "cannot create %s: %s; window %u is not "
			 "written", file->path, reason, file->number);
}

static bool open_sink(struct trace *trace)
{
	struct file *file = trace->file;
	struct bytes head = { 0 };
	int error = 0;

	if (file->sink || file->is_stopped)
		return file->sink;
	file->sink = file_open_sink(trace, file, &error);
	if (!file->sink) {
		say_no_file(file, error);
		stop(trace, error);
		return false;
	}
	if (file->is_recorder)
		return true;
	file_begin_part(file, &trace->gone);
	meta_head(trace, &head);
	error = head.is_cut ? -ENOMEM : sink_append(file->sink, &head);
	if (!succeeds(trace, error))
		stop(trace, error);
	bytes_fini(&head);
	return file->sink;
}

/* The file gets its tail; false if it stays as it was. */
static bool commit_tail(struct trace *trace)
{
	struct file *file = trace->file;
	int error;

	if (trace->tail.is_cut)
		return false;
	file->tail_len = trace->tail.len;
	error = sink_commit(file->sink, &trace->tail);
	if (!succeeds(trace, error)) {
		stop(trace, error);
		return false;
	}
	file->nr_bytes = sink_size(file->sink, file->tail_len);
	file->has_new = false;
	trace->last_bytes = file->nr_bytes;
	if (file->path[0])
		memcpy(trace->last_path, file->path, sizeof(file->path));
	return true;
}

static bool commit(struct trace *trace, bool is_last)
{
	if (trace->file->is_recorder) {
		bytes_clear(&trace->tail);
		(void)sink_commit(trace->file->sink, &trace->tail);
		trace->file->has_new = false;
		trace->settled = trace->offered;
		return true;
	}
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
	struct file *file = trace->file;

	log_line(LOG_WARN, "%s has reached GPUTRACE_MAX_SIZE; tracing stops, "
		 "the file is complete", file->path[0] ? file->path :
		 "the file of this window");
	file->is_stopped = true;
	if (file->kind == FILE_COMMON)
		watch_end();
}

static void next_part(struct trace *trace)
{
	/* Beside a descriptor there is no place for a second file. */
	bool stops = trace->options.on_full == ON_FULL_STOP ||
		trace->file->has_descriptor;

	if (stops)
		trace->file->stopped_by = "GPUTRACE_MAX_SIZE";
	if (!commit(trace, true))
		return;
	if (stops) {
		stop_full(trace);
		return;
	}
	file_close_sink(trace->file);
	trace->file->part++;
	trace->serial++;
}

/*
 * A file must hold more than its own tail (names, lanes), or there would be
 * ever more of them with next to nothing in each: twice the tail, and some
 * pieces.
 */
static uint64_t size_limit(struct trace *trace)
{
	const struct file *file = trace->file;
	uint64_t tail = sink_size(file->sink, file->tail_len) -
		sink_size(file->sink, 0);
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
	const struct file *file = trace->file;
	uint64_t need = sink_size(file->sink, file->tail_len) +
		2 * piece_size(trace) + file->tail_len / 8;

	return trace->options.max_size && !file->is_null &&
	       !file->is_recorder &&
	       need > size_limit(trace);
}

/* The flight recorder forgets by time. */
static void note_stretch(struct trace *trace)
{
	struct stretch *stretch = &trace->stretch;

	stretch->tally = difference(made(trace), trace->offered);
	recorder_note(trace->file->sink, stretch);
	*stretch = (struct stretch){ .arrow_ns = UINT64_MAX };
}

static void append(struct trace *trace)
{
	struct file *file = trace->file;
	int error;

	if (file->is_stopped) {
		lose(trace, trace->settled);
		return;
	}
	if (!succeeds(trace, trace->out.is_cut ? -ENOMEM : 0)) {
		lose(trace, trace->offered);
		return;
	}
	if (!open_sink(trace))
		return;
	if (file->is_recorder)
		note_stretch(trace);
	error = sink_append(file->sink, &trace->out);
	if (!succeeds(trace, error)) {
		stop(trace, error);
		return;
	}
	if (!file->is_recorder)
		file_count(file, difference(made(trace), trace->offered));
	trace->offered = made(trace);
	file->has_new = true;
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
	struct file *file = trace->file;

	if (trace->out.len || trace->out.is_cut)
		append(trace);
	if (file->sink && file->is_stopped && is_last) {
		meta_tail_again(trace, &trace->tail);
		(void)commit_tail(trace);
	} else if (file->sink && !file->is_stopped &&
		   (file->has_new || is_last)) {
		/* Where the tail was cut the next commit tries again. */
		if (!commit(trace, is_last) && is_last && file->sink)
			(void)succeeds(trace, -ENOMEM);
	}
	/* No memory for the last tail. */
	if (is_last)
		lose(trace, trace->settled);
}

/* ---- Windows ---- */

uint64_t output_lost(void)
{
	uint64_t nr = 0;
	enum loss cause;

	for (cause = 0; cause < LOSS_NR; cause++)
		nr += loss_get(cause);
	return nr;
}

static void begin_own(struct trace *trace, uint32_t n,
		      const struct writer_target *target, struct sink *given)
{
	struct file *own = &trace->own;
	struct window window;

	if (file_init(own, FILE_WINDOW, n, trace->options.keep)) {
		own->is_stopped = true;
		own->error = -ENOMEM;
	}
	own->given = given;
	own->has_descriptor = given;
	if (target && target->path[0]) {
		own->is_exact = true;
		memcpy(own->path, target->path, sizeof(own->path));
	}
	own->begun_ns = window_get(n, &window) ? window.open_ns : 0;
	own->elsewhere = difference(trace->offered, trace->gone);
	own->gone_elsewhere = trace->gone;
	trace->file = own;
	trace->serial++;
	/* Whoever asked for a file gets one, if only to see that it is
	 * empty. */
	if (target)
		(void)open_sink(trace);
}

static void end_own(struct trace *trace)
{
	struct file *own = &trace->own, *common = &trace->common;
	struct tally there = difference(made(trace), trace->gone);

	add(&common->elsewhere, difference(there, own->elsewhere));
	add(&common->gone_elsewhere, difference(trace->gone,
						own->gone_elsewhere));
	trace->file = common;
	trace->serial++;
	file_fini(own);
}

void output_window_opened(struct trace *trace, uint32_t n)
{
	struct writer_target target;
	struct sink *given = NULL;

	struct window window;

	if (!trace->first_open_ns && window_get(n, &window))
		trace->first_open_ns = window.open_ns;
	/* The one before is not complete: it shares its file. */
	if (n != trace->nr_complete + 1)
		return;
	/* What came late, for a file that is there. */
	if (trace->out.len && !trace->has_own_files)
		output_commit(trace, false);
	trace->begun = (struct begun){ trace->offered, trace->gone,
				       output_lost() };
	if (requests_take_target(n, &target, &given))
		begin_own(trace, n, &target, given);
	else if (trace->has_own_files && !trace->options.recorder_ns)
		begin_own(trace, n, NULL, NULL);
}

static void tell(struct trace *trace, uint32_t n)
{
	const struct file *file = trace->file;
	const struct begun *begun = &trace->begun;
	struct tally nr = difference(difference(made(trace), begun->made),
				     difference(trace->gone, begun->gone));
	struct writer_result result = {
		.error = file->error, .kernels = nr.kernels,
		.events = nr.events, .bytes = file->nr_bytes,
		.lost = output_lost() - begun->lost,
		.unfinished = unfinished_since(trace, file->begun_ns),
	};

	if (file->nr_bytes)
		memcpy(result.path, file->path, sizeof(result.path));
	requests_done(trace->nr_complete + 1, n, &result);
}

void output_result(const struct trace *trace, struct writer_result *result)
{
	const struct file *file = trace->file;

	*result = (struct writer_result){
		.error = file->nr_bytes ? 0 : -ENODATA,
		.kernels = trace->nr_kernels - trace->gone.kernels -
			file->elsewhere.kernels,
		.events = trace->nr_events - trace->gone.events -
			file->elsewhere.events,
		.bytes = file->nr_bytes, .lost = output_lost(),
		.unfinished = unfinished_since(trace, file->begun_ns),
	};
	if (file->nr_bytes)
		memcpy(result->path, file->path, sizeof(result->path));
}

void output_windows_done(struct trace *trace, uint32_t n, bool is_end)
{
	bool is_own = trace->file == &trace->own;

	output_commit(trace, is_own || is_end);
	if (is_own)
		file_close_sink(trace->file);
	if (n > trace->nr_complete)
		tell(trace, n);
	trace->nr_complete = n;
	if (!is_own)
		return;
	end_own(trace);
	if (is_end)
		output_commit(trace, true);
}
