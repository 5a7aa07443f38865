/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "writer/range.h"

static void remove_index(uint32_t *list, uint32_t *nr, uint32_t index)
{
	uint32_t i;

	for (i = *nr; i-- > 0;) {
		if (list[i] == index) {
			memmove(list + i, list + i + 1,
				(*nr - i - 1) * sizeof(*list));
			(*nr)--;
			return;
		}
	}
}

/* A range of another domain that began inside and is still open. */
static bool holds_open(const struct ranges *ranges, const struct node *node)
{
	const struct range_log *log = node->thread->log;
	const struct node *other;
	uint32_t i;

	for (i = log->nr_open; i-- > 0;) {
		other = &ranges->nodes[log->open[i]];
		if (other == node)
			return false;
		if (!(other->flags & NODE_STARTED) &&
		    other->start_ns > node->start_ns &&
		    other->start_ns < node->end_ns)
			return true;
	}
	return false;
}

/* What was written since it opened outlives it, or it what it opened in. */
static bool crosses_written(const struct node *node)
{
	const struct gap *latest = &node->thread->latest;

	if (node->start_ns == node->end_ns)
		return false;
	return (node->start_ns < latest->start_ns &&
		latest->start_ns < node->end_ns &&
		node->end_ns < latest->end_ns) ||
	       (node->inside_ns && node->inside_ns < node->end_ns);
}

uint64_t range_open_end(const struct ranges *ranges, const struct node *node,
			uint64_t now_ns, bool *is_running)
{
	const struct range_log *log = node->thread->log;
	const struct node *other;
	uint32_t i;

	*is_running = true;
	if (!range_ends_inside(node))
		return now_ns;
	for (i = log->nr_open; i-- > 0;) {
		other = &ranges->nodes[log->open[i]];
		if (other == node)
			break;
		/* An operator began inside; others perhaps when it was over. */
		if (!(other->flags & NODE_STARTED) && other->domain &&
		    other->domain->is_operator)
			return now_ns;
	}
	/* Or it has just been cut itself. */
	*is_running = node->inner_end_ns >= now_ns;
	return node->inner_end_ns > node->start_ns ? node->inner_end_ns :
		node->start_ns;
}

/* An operator, or a range that holds one of the ranges that end with them.
 * The chain of parents is as long as the program is sloppy: it is followed no
 * further than to the last of those. */
static void ends_in(struct ranges *ranges, const struct node *node)
{
	bool is_operator = node->domain && node->domain->is_operator;
	uint32_t i, left = node->thread->log->nr_passing;
	struct node *around;

	for (i = node->parent; i && left; i = around->parent) {
		around = &ranges->nodes[i];
		if (!range_ends_inside(around) || around->end_ns != RANGE_OPEN)
			continue;
		left--;
		if (around->inner_end_ns < node->end_ns &&
		    (is_operator || node->start_ns < around->inner_end_ns))
			around->inner_end_ns = node->end_ns;
	}
}

void range_close(struct ranges *ranges, uint32_t index, uint64_t end_ns)
{
	struct node *node = &ranges->nodes[index];
	struct range_log *log = node->thread->log;
	bool is_running;

	end_ns = range_open_end(ranges, node, end_ns, &is_running);
	node->end_ns = end_ns < node->start_ns ? node->start_ns : end_ns;
	if (!is_running)
		node->flags &= (uint8_t)~NODE_CUT_OPEN;
	node->last_cycle = ranges->cycle;
	node->flags |= NODE_CLOSED;
	ranges->closed_bytes += range_bytes(node);
	if (node->flags & NODE_STARTED)
		remove_index(ranges->open_started, &ranges->nr_started, index);
	else
		log->nr_pushed--;
	if (!(node->flags & NODE_STARTED) &&
	    (holds_open(ranges, node) || crosses_written(node)))
		node->flags |= NODE_CROSSES;
	remove_index(log->open, &log->nr_open, index);
	log->nr_passing -= range_ends_inside(node);
	if (!(node->flags & NODE_STARTED) && !range_ends_inside(node))
		ends_in(ranges, node);
}
