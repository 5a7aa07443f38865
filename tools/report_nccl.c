/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "tools/report.h"
#include "tools/utf8.h"

/*
 * NCCL's own NVTX ranges, with what they say of a collective, for where its
 * calls did not pass the tracer (found by dlsym).  A call that did has such a
 * range in it, and goes first (report_library.c).
 *
 *   ncclCommInitRank  NCCL communicator ID, No. of ranks
 *   ncclAllReduce     NCCL communicator ID, Message size [bytes], ...
 */

/* As the calls' slices name them, and what NCCL calls the size: all, or each
 * rank's part; the bytes that pass the bus, of all, by nccl-tests' factors
 * (PERFORMANCE.md). */
static const struct {
	const char *function, *name;
	bool is_part;
} collectives[] = {
	{ "ncclAllReduce", "allreduce", false },
	{ "ncclAllGather", "allgather", true },
	{ "ncclReduceScatter", "reduce_scatter", true },
	{ "ncclBroadcast", "broadcast", false },
	{ "ncclReduce", "reduce", false },
	{ "ncclSend", "send", false },
	{ "ncclRecv", "recv", false },
};
enum { NR_COLLECTIVES = sizeof(collectives) / sizeof(*collectives) };

double report_nccl_bus(const char *name, int64_t ranks, double bytes)
{
	static const char *const once[] = { "broadcast", "reduce", "send",
		"recv" };

	for (size_t i = 0; i < sizeof(once) / sizeof(*once); i++)
		if (!strcmp(name, once[i]))
			return bytes;
	if (!ranks)
		return 0;
	if (!strcmp(name, "allreduce"))
		bytes *= 2;
	return bytes * (ranks - 1) / ranks;
}

bool report_nccl_is(const struct trace_event *ev)
{
	const struct json_value *args = trace_field(ev, EV_ARGS);
	const struct json_value *name = trace_field(ev, EV_NAME);
	struct json_value domain;

	if (name->type != JSON_STRING || name->len < 4 ||
	    memcmp(name->text, "nccl", 4) || args->type != JSON_OBJECT)
		return false;
	domain = jsonval_member(args, "domain");
	return jsonval_is(&domain, "NCCL");
}

static uint32_t comm_of(struct report *r, const struct json_value *v)
{
	if (v->type != JSON_NUMBER && v->type != JSON_STRING)
		return INTERN_NONE;
	return intern_text(&r->names, v->text, v->len < 20 ? v->len : 20);
}

bool report_nccl_read(struct report *r, const struct trace_event *ev,
		      struct library_slice *s)
{
	enum { COMM, BYTES, OP, RANKS, DEVICES, NR };
	static const char *const keys[NR] = { "NCCL communicator ID",
		"Message size [bytes]", "Reduction operation", "No. of ranks",
		"No. of devices" };
	struct json_value value[NR];
	int64_t bytes, ranks;
	uint32_t comm;
	bool is_new;

	jsonval_members(trace_field(ev, EV_ARGS), keys, NR, value);
	comm = comm_of(r, &value[COMM]);
	if (comm == INTERN_NONE)
		return false;
	if ((jsonval_int(&value[RANKS], &ranks) ||
	     jsonval_int(&value[DEVICES], &ranks)) && ranks > 0 &&
	    ranks < INT32_MAX &&
	    pairs_put(&r->library.ranks, comm, 0, (uint32_t)ranks, &is_new) ==
	    UINT32_MAX)
		r->no_memory = true;
	if (!jsonval_int(&value[BYTES], &bytes) || bytes <= 0)
		return false;
	s->kind = LIBRARY_COLLECTIVE;
	s->comm = comm;
	s->amount = bytes;
	if (value[OP].type == JSON_STRING)
		s->shape = intern_value(&r->names, &value[OP]);
	return true;
}

/* Its name, bytes and shape, now that all communicators are known. */
static void finish(struct report *r, struct library_slice *s)
{
	uint32_t ranks = pairs_find(&r->library.ranks, s->comm, 0);
	const char *name = intern_get(&r->names, s->name);
	const char *op = s->shape == INTERN_NONE ? "" :
		intern_get(&r->names, s->shape);
	/* A word of NCCL's; a file may have any: no character is cut in two. */
	int op_len = (int)utf8_valid(op, strnlen(op, 40));
	char text[96], number[16] = "?";
	size_t i;

	ranks = ranks == UINT32_MAX ? 0 : ranks;
	for (i = 0; i < NR_COLLECTIVES; i++)
		if (!strcmp(name, collectives[i].function))
			break;
	if (i < NR_COLLECTIVES) {
		name = collectives[i].name;
		if (collectives[i].is_part && ranks)
			s->amount *= ranks;
		s->bus = report_nccl_bus(name, ranks, s->amount);
	}
	s->name = intern_text(&r->names, name, strlen(name));
	if (ranks)
		snprintf(number, sizeof(number), "%u", ranks);
	snprintf(text, sizeof(text), "%.*s%sranks: %s", op_len, op,
		 op_len ? ", " : "", number);
	s->shape = intern_text(&r->names, text, strlen(text));
	if (s->name == INTERN_NONE || s->shape == INTERN_NONE)
		r->no_memory = true;
}

void report_nccl_finish(struct report *r)
{
	struct report_library *l = &r->library;

	for (size_t i = 0; i < l->nr_slices && !r->no_memory; i++)
		if (l->slice[i].comm != INTERN_NONE)
			finish(r, &l->slice[i]);
}
