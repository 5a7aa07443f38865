/* SPDX-License-Identifier: MIT */
/* Forgetting ranges that are written: their places in the logs, their nodes. */

#include "writer/range.h"

/* The node, or the innermost around it that is not dead.  The dead are told it
 * on the way, so that those inside them find it at once. */
static uint32_t live_around(struct ranges *ranges, uint32_t index)
{
	uint32_t live = index, next;

	while (live && ranges->nodes[live].flags & NODE_DEAD)
		live = ranges->nodes[live].parent;
	while (index != live) {
		next = ranges->nodes[index].parent;
		ranges->nodes[index].parent = live;
		index = next;
	}
	return live;
}

/* What is dead hands its place in the log to what was around it. */
static void compact(struct ranges *ranges, struct range_log *log)
{
	uint32_t i, node, nr = 0, last = 0;

	for (i = 0; i < log->nr; i++) {
		node = live_around(ranges, log->entries[i].node);
		if (node == last)
			continue;
		log->entries[nr].start_ns = log->entries[i].start_ns;
		log->entries[nr++].node = node;
		last = node;
	}
	log->nr = nr;
	log->cursor = 0;
}

void ranges_sweep(struct ranges *ranges, struct cpu_threads *threads)
{
	struct cpu_thread *thread;
	uint32_t i;

	if (!ranges->ready_size)
		return;
	for (thread = threads->list; thread; thread = thread->next) {
		if (!thread->log)
			continue;
		compact(ranges, thread->log);
		if (thread->is_gone && !thread->log->nr &&
		    !thread->log->nr_open) {
			range_log_destroy(thread->log);
			thread->log = NULL;
		}
	}
	for (i = 0; i < ranges->ready_size; i++)
		range_give_node(ranges, ranges->ready[i]);
	ranges->ready_size = 0;
}
