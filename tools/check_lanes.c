/* SPDX-License-Identifier: MIT */
#include "tools/check.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Each lane as the importer replays it: by time, the longer of two that begin
 * together first, then in the order of the file.
 *
 *      stack  [-------- step --------]
 *               [--- forward ---]             nests: pushed
 *                     [---- sample ----]      crosses forward's end: P020
 *                s                            binds to the top of the stack
 */
struct slice {
	int64_t start, end;
	const struct entry *entry;
};

struct flow_end {
	int64_t key, ts, correlation;
	uint64_t index;
	bool has_correlation, at_graph;
};

struct flow_start {
	int64_t ts, correlation;
	uint64_t index;
	bool has_correlation, is_set;
};

struct replay {
	struct check *c;
	struct slice *stack;
	size_t depth;
	struct flow_start *starts;      /* by the number of the key */
	struct flow_end *ends;
	size_t nr_ends;
	int64_t busy;
	uint64_t busy_with;
};

static int by_replay(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	if (x->dur != y->dur)
		return x->dur > y->dur ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int by_key(const void *a, const void *b)
{
	const struct flow_end *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void bind_flow(struct replay *r, const struct entry *e)
{
	const struct slice *top = r->depth ? &r->stack[r->depth - 1] : NULL;
	bool bound = top && (e->ts < top->end || e->ts == top->start);
	const struct entry *slice = bound ? top->entry : NULL;
	bool has = slice && slice->kind != ENTRY_INSTANT &&
		slice->has_correlation;
	struct flow_start *start = &r->starts[e->what];

	if (!bound)
		check_note(r->c, RULE_P032, e->index, "at %" PRId64 " ns",
			   e->ts);
	if (e->kind == ENTRY_FLOW_END) {
		r->ends[r->nr_ends++] = (struct flow_end){
			.key = e->what, .ts = e->ts, .index = e->index,
			.correlation = has ? slice->what : 0,
			.has_correlation = has,
			.at_graph = top && top->entry->is_graph,
		};
	} else if (e->kind == ENTRY_FLOW_START && start->is_set) {
		check_note(r->c, RULE_P031, e->index, "first event %" PRIu64,
			   start->index);
	} else if (e->kind == ENTRY_FLOW_START) {
		*start = (struct flow_start){
			.ts = e->ts, .index = e->index, .is_set = true,
			.correlation = has ? slice->what : 0,
			.has_correlation = has,
		};
	}
}

static void place_slice(struct replay *r, const struct entry *e)
{
	int64_t end = e->ts + e->dur;
	struct slice *top;

	for (; r->depth; r->depth--) {
		top = &r->stack[r->depth - 1];
		if (top->end > e->ts || (top->end == e->ts && !e->dur &&
					 top->start == e->ts))
			break;
	}
	top = r->depth ? &r->stack[r->depth - 1] : NULL;
	if (!top || end <= top->end)
		r->stack[r->depth++] = (struct slice){ e->ts, end, e };
	else
		check_note(r->c, RULE_P020, e->index,
			   "event %" PRIu64 ", by %" PRId64 " ns",
			   top->entry->index, end - top->end);
	if (e->kind != ENTRY_GPU)
		return;
	if (e->ts < r->busy)
		check_note(r->c, RULE_K010, e->index,
			   "event %" PRIu64 ", by %" PRId64 " ns",
			   r->busy_with, r->busy - e->ts);
	if (end > r->busy) {
		r->busy = end;
		r->busy_with = e->index;
	}
}

static void replay(struct replay *r)
{
	const struct entry *e = r->c->entries;

	for (size_t i = 0; i < r->c->nr_entries; i++, e++) {
		if (!i || e->lane != e[-1].lane) {
			r->depth = 0;
			r->busy = -1;
		}
		if (e->kind >= ENTRY_FLOW_START) {
			bind_flow(r, e);
			continue;
		}
		r->c->lanes[e->lane].is_used = true;
		place_slice(r, e);
	}
}

/* The ends of one key, and its start. */
static void judge_flow(struct replay *r, const struct flow_start *start,
		       const struct flow_end *ends, size_t nr)
{
	struct check *c = r->c;
	bool all_graph = true;

	for (size_t i = 0; i < nr; i++) {
		const struct flow_end *end = &ends[i];

		all_graph &= end->at_graph;
		if (!start->is_set) {
			check_note(c, RULE_P035, end->index, "no start");
			continue;
		}
		if (start->ts > end->ts || (start->ts == end->ts &&
					    start->index > end->index))
			check_note(c, RULE_P034, end->index,
				   "start is event %" PRIu64, start->index);
		if (start->has_correlation && end->has_correlation &&
		    start->correlation != end->correlation)
			check_note(c, RULE_K015, end->index, "%" PRId64
				   " and %" PRId64, start->correlation,
				   end->correlation);
		c->nr_arrows++;
	}
	if (start->is_set && !nr)
		check_note(c, RULE_P035, start->index, "no end");
	if (start->is_set && nr > 1 && !all_graph)
		check_note(c, RULE_P036, start->index, "%zu ends", nr);
}

static void judge_flows(struct replay *r)
{
	size_t at = 0, next;

	if (r->nr_ends)
		qsort(r->ends, r->nr_ends, sizeof(*r->ends), by_key);
	for (size_t key = 0; key < r->c->flow_of.nr; key++, at = next) {
		next = at;
		while (next < r->nr_ends && r->ends[next].key == (int64_t)key)
			next++;
		judge_flow(r, &r->starts[key], r->ends + at, next - at);
	}
}

void check_lanes(struct check *c)
{
	struct replay r = { .c = c };

	r.stack = calloc(c->nr_entries + 1, sizeof(*r.stack));
	r.ends = calloc(c->nr_entries + 1, sizeof(*r.ends));
	r.starts = calloc(c->flow_of.nr + 1, sizeof(*r.starts));
	if (r.stack && r.ends && r.starts) {
		if (c->nr_entries)
			qsort(c->entries, c->nr_entries, sizeof(*c->entries),
			      by_replay);
		replay(&r);
		judge_flows(&r);
	} else {
		c->no_memory = true;
	}
	free(r.stack);
	free(r.ends);
	free(r.starts);
}
