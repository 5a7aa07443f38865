/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "collector/loss.h"
#include "writer/range.h"

/*
 * range.h's second half: what the ranges did on the GPU, and when that can be
 * told.
 */

/* A closed range waits for that many write-outs in which CUPTI delivered:
 * launches that we do not yet know to be launches may still show up. */
enum {
	SETTLE_CYCLES = 2,
	/* Its thread made no CUDA call since: nor will one come from before. */
	SILENT_CYCLES = 8,
};

/* However long its launches stay out, it is told after 10 s: a hung kernel
 * must not keep the ranges of a server in memory. */
#define SETTLE_MAX_NS UINT64_C(10000000000)

static bool is_live(const struct ranges *ranges, uint32_t index, uint32_t turn)
{
	return index && ranges->nodes[index].turn == turn &&
	       !(ranges->nodes[index].flags & NODE_DEAD);
}

static struct projection *projection_of(struct node *node,
					const struct projection *op)
{
	struct projection *at;

	for (at = node->projections; at; at = at->next)
		if (at->stream == op->stream && at->context == op->context &&
		    at->device == op->device)
			return at;
	at = malloc(sizeof(*at));
	if (!at) {
		loss_add(LOSS_TABLE_FULL, 1);
		return NULL;
	}
	*at = *op;
	at->nr_ops = 0;
	at->next = node->projections;
	node->projections = at;
	return at;
}

static void add(struct node *node, const struct projection *op)
{
	struct projection *at = projection_of(node, op);

	if (!at)
		return;
	if (op->start_ns < at->start_ns)
		at->start_ns = op->start_ns;
	if (op->end_ns > at->end_ns)
		at->end_ns = op->end_ns;
	at->nr_ops++;
}

/* Operators and library calls: rows of their own on each stream would hide the
 * program's ranges, and readers follow the launch. */
static bool is_of_source(const struct node *node)
{
	return node->domain && node->domain->cat &&
		!node->domain->is_projected;
}

uint32_t range_external_id(const struct ranges *ranges, uint32_t index,
			   uint32_t turn, uint64_t t_ns)
{
	const struct node *node;

	/* Most programs have no operators at all. */
	if (!ranges->last_external_id || !is_live(ranges, index, turn))
		return 0;
	for (; index; index = node->parent) {
		node = &ranges->nodes[index];
		if (node->external_id && node->end_ns > t_ns &&
		    !(node->flags & NODE_DEAD))
			return node->external_id;
	}
	return 0;
}

/* Each operation is added to so many ranges around its launch.  Those further
 * out, in a program that does not pop, are not told on the GPU. */
enum { AROUND_MAX = 512 };

void range_project(struct ranges *ranges, uint32_t index, uint32_t turn,
		   uint64_t launch_ns, const struct projection *op)
{
	struct node *node;
	uint32_t nr = 0;

	if (!is_live(ranges, index, turn))
		return;
	for (; index && nr < AROUND_MAX; index = node->parent, nr++) {
		node = &ranges->nodes[index];
		if (node->end_ns > launch_ns && !(node->flags & NODE_DEAD) &&
		    !is_of_source(node))
			add(node, op);
	}
	if (index)
		ranges->nodes[index].flags |= NODE_PARTIAL;
}

void range_expect(struct ranges *ranges, uint32_t index, uint32_t turn,
		  int change)
{
	if (is_live(ranges, index, turn))
		ranges->nodes[index].nr_pending += (uint32_t)change;
}

static bool is_settled(const struct ranges *ranges, const struct node *node,
		       bool everything, uint64_t now_ns)
{
	uint32_t cycles = ranges->cycle - node->last_cycle;

	if (node->end_ns == RANGE_OPEN || node->nr_children ||
	    (node->flags & (NODE_ENDING | NODE_CLOSED)) == NODE_ENDING)
		return false;
	if (everything || now_ns > node->end_ns + SETTLE_MAX_NS)
		return true;
	/* Near the bound on nodes nothing waits: less exact, never lost. */
	if (ranges_use(ranges) > RANGES_FULL)
		return true;
	/* Calls are told in order: a later one says that all came. */
	return !node->nr_pending && cycles >= SETTLE_CYCLES &&
	       (node->thread->last_call_ns > node->end_ns ||
		cycles >= SILENT_CYCLES || ranges_use(ranges) > RANGES_MANY);
}

static int compare(const void *a, const void *b, void *nodes)
{
	const struct node *x = (struct node *)nodes + *(const uint32_t *)a;
	const struct node *y = (struct node *)nodes + *(const uint32_t *)b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return x->depth < y->depth ? -1 : x->depth > y->depth;
}

static void settle(struct ranges *ranges, uint32_t index, uint32_t *nr)
{
	struct node *node = &ranges->nodes[index];

	node->flags |= NODE_DEAD;
	ranges->ready[(*nr)++] = index;
	if (!node->parent)
		return;
	ranges->nodes[node->parent].nr_children--;
	ranges->nodes[node->parent].flags |= node->flags & NODE_PARTIAL;
}

uint32_t ranges_collect(struct ranges *ranges, bool everything,
			uint64_t now_ns, const uint32_t **list)
{
	uint32_t *ready = realloc(ranges->ready,
				  ranges->nr * sizeof(*ranges->ready));
	uint32_t i, nr = 0;

	if (!ready) {                   /* the next time, if there is one */
		loss_add(LOSS_TABLE_FULL, everything);
		return 0;
	}
	ranges->ready = ready;
	/* From a settled range upwards, so that its parents follow at once. */
	for (i = 1; i < ranges->nr; i++) {
		uint32_t index = i;

		while (index && !(ranges->nodes[index].flags & NODE_DEAD) &&
		       is_settled(ranges, &ranges->nodes[index], everything,
				  now_ns)) {
			settle(ranges, index, &nr);
			index = ranges->nodes[index].parent;
		}
	}
	qsort_r(ready, nr, sizeof(*ready), compare, ranges->nodes);
	ranges->ready_size = nr;
	*list = ready;
	return nr;
}
