/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>

#include "collector/clock.h"
#include "collector/loss.h"
#include "writer/recorder.h"

enum {
	SEGMENT_BYTES = 1 << 20,
	/* What is gathered, and its compressed form, take so much each. */
	LEAST_BYTES = 8 << 20,
	/* libdeflate's fastest that compresses; see bench/writer. */
	LEVEL = 1,
};

#define SEGMENT_NS UINT64_C(1000000000)

struct recorder {
	struct sink sink;
	struct libdeflate_compressor *compressor;
	uint64_t keep_ns, max_bytes;
	struct bytes raw, packed;
	struct stretch open, coming;    /* of `raw`; of the next append */
	uint64_t opened_ns;             /* when `raw` was empty */
	struct segment *first, **last;
	struct segment *reading;        /* the last that was handed out */
	uint64_t bytes;                 /* of all segments */
	uint32_t batch;                 /* commits so far */
	struct stretch forgotten;
};

static const struct stretch nothing = { 0, UINT64_MAX, { 0, 0 } };

void recorder_merge(struct stretch *to, const struct stretch *from)
{
	if (from->newest_ns > to->newest_ns)
		to->newest_ns = from->newest_ns;
	if (from->arrow_ns < to->arrow_ns)
		to->arrow_ns = from->arrow_ns;
	to->tally.events += from->tally.events;
	to->tally.kernels += from->tally.kernels;
}

/* ---- Forgetting ---- */

static void forget_first(struct recorder *recorder)
{
	struct segment *segment = recorder->first;

	recorder_merge(&recorder->forgotten, &segment->stretch);
	recorder->bytes -= sizeof(*segment) + segment->len;
	recorder->first = segment->next;
	if (!recorder->first)
		recorder->last = &recorder->first;
	free(segment);
}

static uint64_t memory_of(const struct recorder *recorder)
{
	return recorder->bytes + recorder->raw.size + recorder->packed.size;
}

/* All of the oldest commit. */
static bool is_old(const struct recorder *recorder, uint64_t now_ns)
{
	const struct segment *first = recorder->first, *at;

	for (at = first; at && at->batch == first->batch; at = at->next)
		if (at->stretch.newest_ns + recorder->keep_ns >= now_ns)
			return false;
	return true;
}

/* now_ns 0: only what there is no room for. */
static void forget_old(struct recorder *recorder, uint64_t now_ns)
{
	while (recorder->first && recorder->first != recorder->reading &&
	       (memory_of(recorder) > recorder->max_bytes ||
		is_old(recorder, now_ns)))
		forget_first(recorder);
}

/* ---- Segments ---- */

static struct segment *pack(struct recorder *recorder)
{
	struct libdeflate_compressor *compressor = recorder->compressor;
	struct bytes *raw = &recorder->raw;
	size_t bound = libdeflate_gzip_compress_bound(compressor, raw->len);
	struct segment *segment;
	char *to;
	size_t n;

	bytes_clear(&recorder->packed);
	to = bytes_room(&recorder->packed, bound);
	n = to ? libdeflate_gzip_compress(compressor, raw->data, raw->len, to,
					  bound) : 0;
	segment = n ? malloc(sizeof(*segment) + n) : NULL;
	if (!segment)
		return NULL;
	segment->next = NULL;
	segment->stretch = recorder->open;
	segment->batch = recorder->batch;
	segment->raw = raw->len;
	segment->len = n;
	memcpy(segment->member, to, n);
	return segment;
}

static void close_segment(struct recorder *recorder)
{
	struct segment *segment;

	if (!recorder->raw.len)
		return;
	/* Without memory the oldest make room. */
	while (!(segment = pack(recorder)) && recorder->first &&
	       recorder->first != recorder->reading)
		forget_first(recorder);
	if (segment) {
		*recorder->last = segment;
		recorder->last = &segment->next;
		recorder->bytes += sizeof(*segment) + segment->len;
	} else {
		loss_add(LOSS_WRITE, recorder->open.tally.events);
		recorder_merge(&recorder->forgotten, &recorder->open);
	}
	bytes_clear(&recorder->raw);
	recorder->open = nothing;
	forget_old(recorder, 0);
}

static int recorder_append(struct sink *sink, const void *bytes, size_t len)
{
	struct recorder *recorder = (struct recorder *)sink;

	if (!recorder->raw.len)
		recorder->opened_ns = clock_now_ns();
	/* All of it or nothing: whole events. */
	if (bytes_room(&recorder->raw, len)) {
		bytes_add(&recorder->raw, bytes, len);
		recorder_merge(&recorder->open, &recorder->coming);
	} else {
		loss_add(LOSS_WRITE, recorder->coming.tally.events);
		recorder_merge(&recorder->forgotten, &recorder->coming);
	}
	recorder->coming = nothing;
	if (recorder->raw.len >= SEGMENT_BYTES || recorder->raw.is_cut)
		close_segment(recorder);
	return 0;
}

/* Nothing is to be seen: only time has passed. */
static int recorder_commit(struct sink *sink, const void *tail, size_t len)
{
	struct recorder *recorder = (struct recorder *)sink;
	uint64_t now_ns = clock_now_ns();

	(void)tail;
	(void)len;
	if (now_ns - recorder->opened_ns >= SEGMENT_NS)
		close_segment(recorder);
	recorder->batch++;
	forget_old(recorder, now_ns);
	return 0;
}

static uint64_t recorder_size(const struct sink *sink, size_t tail_len)
{
	(void)tail_len;
	return memory_of((const struct recorder *)sink);
}

static void recorder_close(struct sink *sink)
{
	struct recorder *recorder = (struct recorder *)sink;

	while (recorder->first)
		forget_first(recorder);
	libdeflate_free_compressor(recorder->compressor);
	bytes_fini(&recorder->raw);
	bytes_fini(&recorder->packed);
	free(recorder);
}

static void recorder_forget(struct sink *sink)
{
	(void)sink;
}

struct sink *sink_recorder_create(uint64_t keep_ns, uint64_t bytes)
{
	static const struct sink_ops ops = {
		.append = recorder_append, .commit = recorder_commit,
		.size = recorder_size, .forget = recorder_forget,
		.close = recorder_close,
	};
	struct recorder *recorder = calloc(1, sizeof(*recorder));

	if (!recorder)
		return NULL;
	recorder->sink.ops = &ops;
	recorder->keep_ns = keep_ns;
	recorder->max_bytes = bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
	recorder->last = &recorder->first;
	recorder->open = recorder->coming = recorder->forgotten = nothing;
	recorder->compressor = libdeflate_alloc_compressor(LEVEL);
	if (recorder->compressor)
		return &recorder->sink;
	free(recorder);
	return NULL;
}

void recorder_note(struct sink *sink, const struct stretch *stretch)
{
	recorder_merge(&((struct recorder *)sink)->coming, stretch);
}

/* ---- Reading ---- */

const struct segment *recorder_read(struct sink *sink)
{
	struct recorder *recorder = (struct recorder *)sink;

	close_segment(recorder);
	forget_old(recorder, clock_now_ns());
	return recorder->reading = recorder->first;
}

const struct segment *recorder_read_next(struct sink *sink)
{
	struct recorder *recorder = (struct recorder *)sink;

	if (recorder->reading)
		recorder->reading = recorder->reading->next;
	return recorder->reading;
}

void recorder_read_end(struct sink *sink)
{
	((struct recorder *)sink)->reading = NULL;
}

struct stretch recorder_forgotten(const struct sink *sink)
{
	return ((const struct recorder *)sink)->forgotten;
}
