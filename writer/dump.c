/* SPDX-License-Identifier: MIT */
#include "writer/dump.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>

#include "collector/log.h"
#include "writer/meta.h"
#include "writer/output.h"
#include "writer/recorder.h"
#include "writer/requests.h"
#include "writer/twin.h"

/* Twice the rings' look; a ring holds some hundred ranges. */
#define SLICE_NS UINT64_C(20000000)

/* Some 2,500 kernels; or 20,000, packed. */
#define PART_SIZE (UINT64_C(1) << 20)

struct dump {
	struct file file;
	struct writer_result result;
	const struct segment *at, *last;        /* to be written */
	uint64_t committed;     /* so much of the body */
	uint64_t from_ns;       /* nothing of what ended later is missing */
	struct libdeflate_decompressor *unpacker;
	struct bytes tail, raw, cut;
};

bool dump_is_due(const struct trace *trace)
{
	return trace->dump || requests_want_dump();
}

/* ---- The end ---- */

static void end(struct trace *trace, int error)
{
	struct dump *dump = trace->dump;

	if (trace->common.sink)
		recorder_read_end(trace->common.sink);
	file_close_sink(&dump->file);
	dump->result.error = error;
	if (!error) {
		dump->result.bytes = dump->file.nr_bytes;
		memcpy(dump->result.path, dump->file.path,
		       sizeof(dump->result.path));
		if (dump->file.path[0])
			memcpy(trace->last_path, dump->file.path,
			       sizeof(trace->last_path));
		trace->last_bytes = dump->file.nr_bytes;
		trace->nr_dumped++;
	}
	requests_dumped(&dump->result);
	libdeflate_free_decompressor(dump->unpacker);
	bytes_fini(&dump->tail);
	bytes_fini(&dump->raw);
	bytes_fini(&dump->cut);
	free(dump);
	trace->dump = NULL;
}

void dump_cancel(struct trace *trace)
{
	if (trace->dump)
		end(trace, -ECANCELED);
}

static void complete(struct trace *trace)
{
	struct dump *dump = trace->dump;
	struct sink *sink = dump->file.sink;
	int error = sink_commit(sink, &dump->tail);

	if (!error)
		dump->file.nr_bytes = sink_size(sink, dump->tail.len);
	end(trace, error);
}

/* ---- The segments ---- */

static int unpack(struct dump *dump, const struct segment *segment)
{
	char *to;

	bytes_clear(&dump->raw);
	to = bytes_room(&dump->raw, segment->raw);
	if (!to)
		return -ENOMEM;
	if (libdeflate_gzip_decompress(dump->unpacker, segment->member,
				       segment->len, to, segment->raw, NULL))
		return -EIO;
	dump->raw.len = segment->raw;
	return 0;
}

static int write_segment(const struct trace *trace, struct dump *dump,
			 const struct segment *segment)
{
	struct sink *sink = dump->file.sink;
	bool is_cut = segment->stretch.arrow_ns <= dump->from_ns;
	int error;

	if (sink_is_gz(sink) && !is_cut)
		return sink_gz_member(sink, segment->member, segment->len);
	error = unpack(dump, segment);
	if (error || !is_cut)
		return error ? error : sink_append(sink, &dump->raw);
	bytes_clear(&dump->cut);
	dump_cut(&dump->raw, trace->base_ns, dump->from_ns, &dump->cut);
	return dump->cut.is_cut ? -ENOMEM : sink_append(sink, &dump->cut);
}

/* Who passed the descriptor has this much if the process is killed; by a name
 * it would be seen.  Not so often that the tail is the most that is written. */
static int commit_part(struct dump *dump)
{
	struct sink *sink = dump->file.sink;
	uint64_t size = sink_size(sink, 0);
	int error;

	if (!dump->file.has_descriptor || size < dump->committed +
	    PART_SIZE + dump->tail.len)
		return 0;
	error = sink_commit(sink, &dump->tail);
	dump->committed = sink_size(sink, 0);
	return error;
}

static void go_on(struct trace *trace)
{
	uint64_t until_ns = clock_now_ns() + SLICE_NS;
	struct dump *dump = trace->dump;
	int error = 0;

	while (dump->at && !error && clock_now_ns() < until_ns) {
		error = write_segment(trace, dump, dump->at);
		if (!error)
			error = commit_part(dump);
		dump->at = dump->at == dump->last ? NULL :
			recorder_read_next(trace->common.sink);
	}
	if (error)
		end(trace, error);
	else if (!dump->at)
		complete(trace);
}

/* ---- The begin ---- */

/* As many of the newest as fit into one file; what is older counts as
 * forgotten.  Returns that. */
static struct stretch choose(struct trace *trace, struct dump *dump)
{
	struct sink *recorder = trace->common.sink;
	struct stretch gone;
	uint64_t max = trace->options.max_size, size = dump->tail.len;
	bool is_gz = sink_is_gz(dump->file.sink);
	const struct segment *at;

	/* It forgets once more, and much after a sleep. */
	dump->at = recorder_read(recorder);
	gone = recorder_forgotten(recorder);
	for (at = dump->at; at; at = at->next) {
		size += is_gz ? at->len : at->raw;
		dump->result.events += at->stretch.tally.events;
		dump->result.kernels += at->stretch.tally.kernels;
		dump->last = at;
	}
	for (; dump->at && max && size > max;
	     dump->at = recorder_read_next(recorder)) {
		size -= is_gz ? dump->at->len : dump->at->raw;
		dump->result.events -= dump->at->stretch.tally.events;
		dump->result.kernels -= dump->at->stretch.tally.kernels;
		recorder_merge(&gone, &dump->at->stretch);
	}
	return gone;
}

/* What the tail says of the file. */
static void describe(struct trace *trace, struct dump *dump,
		     const struct stretch *gone)
{
	struct tally there = { trace->nr_events - trace->gone.events,
			       trace->nr_kernels - trace->gone.kernels };
	uint64_t now_ns = clock_now_ns();

	dump->from_ns = gone->newest_ns;
	if (dump->from_ns < trace->first_open_ns)
		dump->from_ns = trace->first_open_ns;
	dump->result.span_ns = trace->first_open_ns ? now_ns - dump->from_ns :
		0;
	dump->result.lost = output_lost();
	dump->result.unfinished = unfinished_since(trace, dump->from_ns);
	dump->file.begun_ns = dump->from_ns;
	dump->file.span_ns = dump->result.span_ns;
	dump->file.forgotten = gone->tally;
	dump->file.elsewhere.kernels = there.kernels - dump->result.kernels;
	dump->file.gone_elsewhere = trace->gone;
}

static int write_begin(struct trace *trace, struct dump *dump)
{
	struct file *written = trace->file;
	struct stretch gone = { 0 };
	struct bytes head = { 0 };
	int error = 0;

	dump->file.sink = file_open_sink(trace, &dump->file, &error);
	if (!dump->file.sink)
		return error;
	if (trace->common.sink)
		gone = choose(trace, dump);
	describe(trace, dump, &gone);
	trace->file = &dump->file;
	meta_head(trace, &head);
	meta_tail(trace, &dump->tail, true);
	trace->file = written;
	error = head.is_cut || dump->tail.is_cut ? -ENOMEM :
		sink_append(dump->file.sink, &head);
	bytes_fini(&head);
	return error;
}

static void begin(struct trace *trace, const struct writer_target *target,
		  struct sink *given)
{
	struct writer_result failed = { .error = -ENOMEM };
	struct dump *dump = calloc(1, sizeof(*dump));
	char reason[64];
	int error;

	if (dump)
		dump->unpacker = libdeflate_alloc_decompressor();
	if (!dump || !dump->unpacker) {
		free(dump);
		sink_close(given);
		requests_dumped(&failed);
		return;
	}
	trace->dump = dump;
	dump->file.kind = FILE_DUMP;
	dump->file.number = ++trace->nr_dumps;
	dump->file.given = given;
	dump->file.has_descriptor = given;
	dump->file.is_exact = !given && target->path[0];
	if (dump->file.is_exact)
		memcpy(dump->file.path, target->path, sizeof(target->path));
	error = write_begin(trace, dump);
	if (!error)
		return;
	twin_reason(-error, reason, sizeof(reason));
	log_line(LOG_WARN, "cannot write %s: %s; recording goes on",
		 dump->file.path[0] ? dump->file.path : "the dump", reason);
	end(trace, error);
}

void dump_work(struct trace *trace)
{
	struct writer_target target;
	struct sink *given = NULL;

	if (!trace->dump && requests_take_dump(&target, &given))
		begin(trace, &target, given);
	if (trace->dump)
		go_on(trace);
}
