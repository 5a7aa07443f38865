/* SPDX-License-Identifier: MIT */
/*
 * The writer behind its two sources: activities in completed buffers and
 * records in a ring, and NVTX's calls, any of them in any order with any
 * names.  At each commit the file is strict JSON, whatever came.
 *
 * The input is a list of steps; each begins with a byte that says which.
 */
#include <wchar.h>

#include "collector/log.h"
#include "collector/nvtx_record.h"
#include "collector/pool.h"
#include "collector/thread.h"
#include "test/fuzz/cupti.h"
#include "writer/output.h"
#include "writer/trace.h"

enum { TEXTS_MAX = 64, COMMITS_MAX = 4, STARTED_MAX = 16 };

static struct fuzz {
	struct trace trace;
	struct input in;
	uint64_t t_ns;
	uint8_t *buffer;                /* of activities, or NULL */
	size_t used;
	char *texts[TEXTS_MAX];         /* CUPTI's, and the program's */
	uint32_t nr_texts;
	uint32_t nr_commits;
	uint64_t started[STARTED_MAX];  /* ranges by NVTX's calls */
	uint32_t nr_started;
	struct nvtx_domain *domain;
} fuzz;

/* ---- A sink in memory, which reads what it gets ---- */

struct sink_memory {
	struct sink sink;
	struct bytes body;
};

static int memory_append(struct sink *sink, const void *bytes, size_t len)
{
	bytes_add(&((struct sink_memory *)sink)->body, bytes, len);
	return 0;
}

static int memory_commit(struct sink *sink, const void *tail, size_t len)
{
	struct bytes *body = &((struct sink_memory *)sink)->body;
	size_t before = body->len;

	bytes_add(body, tail, len);
	if (!is_strict_json(body->data, body->len)) {
		fwrite(body->data, 1, body->len, stderr);
		abort();
	}
	bytes_cut(body, before);
	return 0;
}

static uint64_t memory_size(const struct sink *sink, size_t tail_len)
{
	return ((const struct sink_memory *)sink)->body.len + tail_len;
}

static void memory_close(struct sink *sink)
{
	bytes_fini(&((struct sink_memory *)sink)->body);
	free(sink);
}

static struct sink *open_memory(struct trace *trace)
{
	static const struct sink_ops ops = {
		.append = memory_append, .commit = memory_commit,
		.size = memory_size, .close = memory_close,
	};
	struct sink_memory *memory = calloc(1, sizeof(*memory));

	MUST(memory);
	memory->sink.ops = &ops;
	snprintf(trace->file->path, sizeof(trace->file->path), "/a/part%u",
		 trace->file->part);
	return &memory->sink;
}

/* ---- Steps ---- */

static char *next_text(void)
{
	size_t len = take(&fuzz.in, 1);

	if (fuzz.nr_texts == TEXTS_MAX)
		return fuzz.texts[len % TEXTS_MAX];
	/* Now and then longer than any bound on names. */
	if (len == 255)
		len = take(&fuzz.in, 2);
	return fuzz.texts[fuzz.nr_texts++] = take_text(&fuzz.in, len);
}

static uint64_t next_time(void)
{
	uint64_t step = take(&fuzz.in, 2);

	if (step == UINT16_MAX)
		return take(&fuzz.in, 8);
	fuzz.t_ns += step;
	return fuzz.t_ns - take(&fuzz.in, 1);
}

static void complete_buffer(void)
{
	if (fuzz.buffer)
		pool_complete(fuzz.buffer, fuzz.used);
	fuzz.buffer = NULL;
	fuzz.used = 0;
}

static void add_activity(void)
{
	uint32_t kind = (uint32_t)take(&fuzz.in, 1);
	unsigned int flags = (unsigned int)take(&fuzz.in, 1);
	const char *text = flags & HAS_TEXT ? next_text() : NULL;
	size_t size, room;

	if (!fuzz.buffer)
		fuzz.buffer = pool_take(1, &room);
	MUST(fuzz.buffer);
	size = fuzz_record_size(kind);
	take_record(&fuzz.in, kind, fuzz.buffer + fuzz.used, flags, fuzz.t_ns,
		    text);
	fuzz.used += size;
	if (fuzz.used + 512 > POOL_SMALL_SIZE)
		complete_buffer();
}

static void *reserve(uint32_t kind, size_t fixed, const char *text)
{
	struct ring *ring = thread_ring(thread_self());
	size_t len = text ? strnlen(text, RECORD_TEXT_MAX) : 0;
	uint32_t size = (uint32_t)(fixed + len + 7) & ~7u;
	struct record *record = ring_reserve(ring, size);

	if (!record) {
		drain_rings(&fuzz.trace);
		record = ring_reserve(ring, size);
	}
	MUST(record);
	memset(record, 0, size);
	record->kind = (uint16_t)kind;
	record->size = (uint16_t)size;
	record->len = (uint32_t)len;
	record->t_ns = next_time();
	if (len)
		memcpy((char *)record + fixed, text, len);
	return record;
}

static void add_range(uint32_t kind)
{
	unsigned int has = (unsigned int)take(&fuzz.in, 1);
	struct range_record *record = reserve(kind, sizeof(*record),
					      has & 1 ? next_text() : NULL);

	record->id = take(&fuzz.in, 1) % 8;
	record->domain = has & 2 ? fuzz.domain : NULL;
	record->flags = (uint8_t)(has >> 2) & 7;
	/* The text's end as a payload, of which the heads are what they are. */
	if (has & 1 && record->id >= 4) {
		record->flags |= RECORD_PAYLOAD;
		record->args_len = (uint16_t)take(&fuzz.in, 1);
	}
	if (has & 32) {
		record->payload_type = (uint8_t)take(&fuzz.in, 1) % 8;
		record->payload = take(&fuzz.in, 8);
	}
	if (has & 64)
		record->category = (uint32_t)take(&fuzz.in, 1);
	if (has & 128)
		record->color = (uint32_t)take(&fuzz.in, 4);
	ring_commit(thread_ring(thread_self()));
}

static void add_name(uint32_t kind)
{
	struct name_record *record = reserve(kind, sizeof(*record),
					     next_text());

	record->what = kind == RECORD_NAME ? (uint32_t)take(&fuzz.in, 1) % 6 :
		NAMED_THREAD;
	record->handle = take(&fuzz.in, 1);
	ring_commit(thread_ring(thread_self()));
}

/* Its kind is the source's own and static, as in the library. */
static void add_slice(uint32_t kind)
{
	static const char *const words[] = { "pipe", "so\"cket" };
	static const struct slice_kind kinds[] = {
		{ .cat = "osrt", .name = "read",
		  .fields = { { "fd", VALUE_I64, NULL },
			      { "share", VALUE_DOUBLE, NULL },
			      { "set", VALUE_ABSENT_0, NULL } } },
		{ .cat = "thread_state", .row = ROW_STATE,
		  .fields = { { "n", VALUE_U64, NULL } } },
		{ .cat = "sample", .row = ROW_STACK },
		{ .cat = "process", .name = "load", .row = ROW_PROCESS,
		  .fields = { { "what", VALUE_WORD, words } } },
		{ .name = "taken", .counter = &kinds[3],
		  .fields = { { "what", VALUE_U64, NULL } } },
	};
	unsigned int has = (unsigned int)take(&fuzz.in, 1), nr = has >> 3 & 3;
	struct slice_record *record = reserve(kind, sizeof(*record) + nr * 8,
					      has & 4 ? next_text() : NULL);
	uint32_t i;

	record->kind = &kinds[kind == RECORD_COUNTER ? 3 :
			      kind == RECORD_INSTANT ? 4 : has & 3];
	record->end_ns = record->head.t_ns + take(&fuzz.in, 4);
	record->tid = (uint32_t)take(&fuzz.in, 1);
	record->nr_values = nr;
	for (i = 0; i < nr; i++)
		record->values[i] = record->kind >= &kinds[3] ? has >> 7 :
			take(&fuzz.in, 8);
	ring_commit(thread_ring(thread_self()));
}

static void add_stack(void)
{
	unsigned int nr = (unsigned int)take(&fuzz.in, 1) % 8, i;
	struct stack_record *record = reserve(RECORD_STACK, sizeof(*record) +
					      nr * 8, next_text());

	record->nr_pcs = nr;
	record->ends = take(&fuzz.in, 1);
	record->tid = (uint32_t)take(&fuzz.in, 1);
	record->of = (uint32_t)take(&fuzz.in, 1) % 3;
	record->correlation = (uint32_t)take(&fuzz.in, 1);
	for (i = 0; i < nr; i++)
		record->pcs[i] = take(&fuzz.in, 8);
	ring_commit(thread_ring(thread_self()));
}

/* The program's own call, with attributes of any kind. */
static void call_nvtx(void)
{
	nvtxEventAttributes_t attributes = { .version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE };
	struct nvtx_message message = { .domain = fuzz.domain };
	nvtxPayloadData_t payload;
	unsigned int what = (unsigned int)take(&fuzz.in, 1);
	wchar_t text[64] = L"";
	int i;

	attributes.category = (uint32_t)take(&fuzz.in, 1);
	attributes.colorType = what & 8;
	attributes.payloadType = (int32_t)take(&fuzz.in, 1) % 8;
	attributes.payload.ullValue = take(&fuzz.in, 8);
	if (attributes.payloadType == 7) {
		payload.schemaId = attributes.payload.ullValue & 127;
		payload.payload = next_text();
		payload.size = strlen(payload.payload);
		attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
		attributes.payload.ullValue = (uintptr_t)&payload;
		attributes.reserved0 = 1;
	}
	attributes.messageType = what & 16 ? NVTX_MESSAGE_TYPE_ASCII :
		NVTX_MESSAGE_TYPE_UNICODE;
	for (i = 0; i < 63 && !(what & 16) && fuzz.in.at < fuzz.in.end; i++)
		text[i] = (wchar_t)take(&fuzz.in, 1 + what / 64);
	if (what & 16)
		attributes.message.ascii = next_text();
	else
		attributes.message.unicode = text;
	nvtx_set_attributes(&message, &attributes);
	switch (what & 7) {
	case 0:
		nvtx_push(&message);
		break;
	case 1:
		nvtx_pop(message.domain);
		break;
	case 2:
		if (fuzz.nr_started < STARTED_MAX)
			fuzz.started[fuzz.nr_started++] = nvtx_start(&message);
		break;
	case 3:
		if (fuzz.nr_started)
			nvtx_end(fuzz.started[--fuzz.nr_started]);
		break;
	case 4:
		/* Wide names have been converted before. */
		if (message.text)
			nvtx_name((enum named_kind)(attributes.category % 6),
				  attributes.payload.ullValue & 15,
				  message.text, message.len);
		break;
	default:
		nvtx_mark(&message);
	}
}

static void write_out(bool everything)
{
	struct trace *trace = &fuzz.trace;
	uint64_t end_ns;

	complete_buffer();
	batch_take(trace);
	drain_rings(trace);
	if (everything) {
		drain_rings(trace);
		drain_rings(trace);
		end_ns = clock_now_ns();
		drain_close_ranges(trace, end_ns > fuzz.t_ns ? end_ns :
				   fuzz.t_ns);
	}
	batch_write(trace, everything);
	if (everything || fuzz.nr_commits++ < COMMITS_MAX)
		output_commit(trace, everything);
}

static void step(void)
{
	static const uint32_t names[] = {
		RECORD_NAME, RECORD_THREAD_BEGIN, RECORD_THREAD_END,
	};
	static const uint32_t kinds[] = {
		RECORD_COUNTER, RECORD_SLICE, RECORD_INSTANT, RECORD_SLICE,
	};
	unsigned int byte = (unsigned int)take(&fuzz.in, 1), what = byte % 32;

	if (byte >= 250) {
		add_stack();
	} else if (byte >= 240) {
		add_slice(kinds[byte % 4]);
	} else if (what < 12) {
		add_activity();
	} else if (what < 22) {
		add_range(RECORD_RANGE_PUSH + what % 5);
	} else if (what < 25) {
		add_name(names[what % 3]);
	} else if (what < 28) {
		call_nvtx();
	} else if (what == 28) {
		drain_rings(&fuzz.trace);
	} else if (what == 29) {
		window_close();
	} else if (what == 30) {
		window_open();
	} else {
		write_out(false);
	}
}

/* ---- One input ---- */

static void begin(void)
{
	static bool is_ready;
	unsigned int how = (unsigned int)take(&fuzz.in, 1);
	char *text = next_text();
	struct setting_text setting = { "GPUTRACE_OUT", text };
	struct writer_options options = {
		.out = "/a/b", .names = how % 3, .mask_argv = how & 4,
		.kernels = how & 8 ? text : NULL, .container = text,
		.max_size = how & 16 ? 4096 : 1 << 30, .keep = 2,
		.on_full = how & 32 ? ON_FULL_STOP : ON_FULL_ROTATE,
		.memory = how & 64 ? 1 << 16 : 1 << 20,
		.settings = &setting, .nr_settings = 1,
	};

	if (!is_ready) {
		log_init(LOG_QUIET, NULL);
		clock_init();
		thread_limit(64 << 20);
		MUST(!pool_init(16 << 20));
		is_ready = true;
	}
	window_open();
	MUST(!trace_init(&fuzz.trace, &options));
	fuzz.trace.open_sink = open_memory;
	fuzz.t_ns = fuzz.trace.start_ns;
	fuzz.domain = calloc(1, sizeof(*fuzz.domain) + strlen(text) + 1);
	MUST(fuzz.domain);
	fuzz.domain->recorded = 1;
	fuzz.domain->len = (uint32_t)strlen(text);
	strcpy(fuzz.domain->name, text);
}

/* What the next input must not find. */
static void end(void)
{
	const struct nvtx_domain *domain = fuzz.domain;
	uint32_t i;

	window_open();
	while (fuzz.nr_started)
		nvtx_end(fuzz.started[--fuzz.nr_started]);
	for (i = 0; i < 1000 && nvtx_pop(domain) > 0; i++)
		;
	write_out(true);
	trace_fini(&fuzz.trace);
	thread_self()->reader_tid = thread_tid(thread_self());
	for (i = 0; i < fuzz.nr_texts; i++)
		free(fuzz.texts[i]);
	free(fuzz.domain);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.in.at = bytes;
	fuzz.in.end = bytes + size;
	take_version(&fuzz.in);
	begin();
	while (fuzz.in.at < fuzz.in.end)
		step();
	end();
	return 0;
}
