/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "collector/loss.h"
#include "writer/trace.h"

/*
 * GPU work that was in flight when it was fetched: a forced flush tells it
 * once, without its end.  Counted by name, since it may be the kernel that
 * hangs; the order is that in which they were seen.
 */
static const char *name_of(struct trace *trace, const struct activity *activity)
{
	const struct name *name = NULL;

	if (activity->kind == ACTIVITY_CONCURRENT_KERNEL ||
	    activity->kind == ACTIVITY_KERNEL)
		name = names_get(&trace->names, activity->kernel.name);
	/* Names live as long as the writer. */
	return name ? name->text : activity->kind == ACTIVITY_GRAPH_TRACE ?
		"CUDA graph" : "other GPU work";
}

void unfinished_add(struct trace *trace, const struct activity *activity)
{
	const char *name = name_of(trace, activity);
	struct unfinished *at = trace->unfinished;

	loss_add(LOSS_UNFINISHED, 1);
	while (at < trace->unfinished + UNFINISHED_MAX && at->name &&
	       strcmp(at->name, name))
		at++;
	if (at == trace->unfinished + UNFINISHED_MAX)
		return;
	at->name = name;
	at->nr++;
}

void unfinished_tell(const struct trace *trace, struct bytes *out)
{
	const struct unfinished *at = trace->unfinished;

	json_key(out, "unfinished");
	json_open(out, '{');
	for (; at < trace->unfinished + UNFINISHED_MAX && at->name; at++)
		json_member_u64(out, at->name, at->nr);
	json_close(out, '}');
}
