/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "collector/loss.h"
#include "writer/trace.h"

/*
 * GPU work that was in flight when it was fetched: a forced flush tells it
 * once, without its end.  Counted by name, since it may be the kernel that
 * hangs; the order is that in which they were seen.  Of the last ones it is
 * kept who launched them, when, and in which range.
 */
enum {
	NAMES_MAX = 64,         /* further ones have none */
	LAUNCHES_MAX = 64,
	RANGE_MAX = 256,        /* bytes of a range's name */
};

struct launched {
	const char *name;       /* names live as long as the writer */
	uint64_t seen_ns, launched_ns, started_ns;      /* 0: not known */
	uint32_t correlation, device, context, stream, tid;
	uint32_t thread_len, range_len;
	char thread[THREAD_NAME_MAX], range[RANGE_MAX];
};

struct unfinished {
	struct by_name {
		const char *name;
		uint64_t nr;
	} names[NAMES_MAX];
	struct launched launches[LAUNCHES_MAX]; /* a ring */
	uint32_t nr_launches;
};

struct unfinished *unfinished_create(void)
{
	return calloc(1, sizeof(struct unfinished));
}

void unfinished_destroy(struct unfinished *unfinished)
{
	free(unfinished);
}

static const char *name_of(struct trace *trace, const struct activity *activity)
{
	const struct name *name = NULL;

	if (activity->kind == ACTIVITY_CONCURRENT_KERNEL ||
	    activity->kind == ACTIVITY_KERNEL)
		name = names_get(&trace->names, activity->kernel.name);
	return name ? name->text : activity->kind == ACTIVITY_GRAPH_TRACE ?
		"CUDA graph" : "other GPU work";
}

static void count(struct unfinished *unfinished, const char *name)
{
	struct by_name *at = unfinished->names;

	while (at < unfinished->names + NAMES_MAX && at->name &&
	       strcmp(at->name, name))
		at++;
	if (at == unfinished->names + NAMES_MAX)
		return;
	at->name = name;
	at->nr++;
}

/* Not in the middle of a character. */
static uint32_t copy(char *to, size_t size, const char *from, uint32_t len)
{
	if (len > size) {
		len = (uint32_t)size;
		while (len && (from[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(to, from, len);
	return len;
}

/* The innermost range at the launch, where that is still in memory: it is if
 * its projection waits for this work. */
static void add_range(const struct trace *trace, struct launched *launched,
		      const struct call *call)
{
	const struct node *node = &trace->ranges.nodes[call->node];
	const char *name;
	uint32_t len;

	if (!call->node || node->turn != call->node_turn ||
	    node->flags & NODE_DEAD)
		return;
	name = range_name(node, &len);
	launched->range_len = copy(launched->range, RANGE_MAX, name, len);
}

static void add_launch(struct trace *trace, struct launched *launched)
{
	const struct call *call = calls_find(&trace->calls,
					     launched->correlation);
	const struct cpu_thread *thread;

	if (!call)
		return;
	launched->launched_ns = call->start_ns;
	thread = call->lane->user ? call->lane->user : call->lane->thread;
	if (thread) {
		launched->tid = thread->tid;
		launched->thread_len = copy(launched->thread, THREAD_NAME_MAX,
					    thread->name, thread->name_len);
	}
	add_range(trace, launched, call);
}

void unfinished_add(struct trace *trace, const struct activity *activity)
{
	struct unfinished *unfinished = trace->unfinished;
	const struct gpu_op *op = &activity->op;
	const char *name = name_of(trace, activity);
	struct launched *launched;

	loss_add(LOSS_UNFINISHED, 1);
	count(unfinished, name);
	launched = &unfinished->launches[unfinished->nr_launches++ %
					 LAUNCHES_MAX];
	*launched = (struct launched){
		.name = name, .seen_ns = clock_now_ns(),
		.started_ns = op->start_ns, .correlation = op->correlation,
		.device = op->device, .context = op->context,
		.stream = op->stream,
	};
	add_launch(trace, launched);
}

/* ---- In the file ---- */

/* The oldest that is kept. */
static uint32_t oldest(const struct unfinished *unfinished)
{
	uint32_t nr = unfinished->nr_launches;

	return nr > LAUNCHES_MAX ? nr - LAUNCHES_MAX : 0;
}

static const struct launched *nth(const struct unfinished *unfinished,
				  uint32_t i)
{
	return &unfinished->launches[i % LAUNCHES_MAX];
}

uint32_t unfinished_since(const struct trace *trace, uint64_t t_ns)
{
	const struct unfinished *unfinished = trace->unfinished;
	uint32_t i, nr = 0;

	for (i = oldest(unfinished); i < unfinished->nr_launches; i++)
		nr += nth(unfinished, i)->seen_ns >= t_ns;
	return nr;
}

static void add_time(const struct trace *trace, struct bytes *out,
		     const char *key, uint64_t t_ns)
{
	if (t_ns > trace->base_ns)
		json_member_u64(out, key, t_ns - trace->base_ns);
}

static void add_text(struct bytes *out, const char *key, const char *text,
		     uint32_t len)
{
	if (!len)
		return;
	json_key(out, key);
	json_string(out, text, len);
}

static void tell_one(const struct trace *trace, struct bytes *out,
		     const struct launched *launched)
{
	json_open(out, '{');
	json_member_text(out, "name", launched->name);
	json_member_u64(out, "correlation", launched->correlation);
	json_member_u64(out, "device", launched->device);
	json_member_u64(out, "context", launched->context);
	json_member_u64(out, "stream", launched->stream);
	add_time(trace, out, "launched_ns", launched->launched_ns);
	add_time(trace, out, "started_ns", launched->started_ns);
	add_time(trace, out, "seen_ns", launched->seen_ns);
	if (launched->tid)
		json_member_u64(out, "tid", launched->tid);
	add_text(out, "thread", launched->thread, launched->thread_len);
	add_text(out, "range", launched->range, launched->range_len);
	json_close(out, '}');
}

static void tell_launches(const struct trace *trace, struct bytes *out)
{
	const struct unfinished *unfinished = trace->unfinished;
	uint64_t since_ns = trace->file->begun_ns;
	uint32_t i;

	json_key(out, "unfinished_launches");
	json_open(out, '[');
	for (i = oldest(unfinished); i < unfinished->nr_launches; i++)
		if (nth(unfinished, i)->seen_ns >= since_ns)
			tell_one(trace, out, nth(unfinished, i));
	json_close(out, ']');
}

void unfinished_tell(const struct trace *trace, struct bytes *out)
{
	const struct by_name *at = trace->unfinished->names, *end;

	json_key(out, "unfinished");
	json_open(out, '{');
	for (end = at + NAMES_MAX; at < end && at->name; at++)
		json_member_u64(out, at->name, at->nr);
	json_close(out, '}');
	tell_launches(trace, out);
}
