/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tools/report.h"

/*
 * From arrays to groups: by name, and by whatever else a table tells apart.
 */
struct group *report_group_get(struct report *r, struct groups *g,
			       struct group_key key)
{
	struct group *group;
	bool is_new;
	uint32_t at;

	if (!VEC_ROOM(g->group, g->nr, g->cap))
		goto no_memory;
	at = pairs_put(&g->by_key, (uint64_t)key.second << 32 | key.name,
		       (uint64_t)key.place << 32 | key.lane, g->nr, &is_new);
	if (at == UINT32_MAX)
		goto no_memory;
	group = &g->group[at];
	if (is_new) {
		memset(group, 0, sizeof(*group));
		group->key = key;
		g->nr++;
	}
	return group;

no_memory:
	r->no_memory = true;
	return NULL;
}

uint32_t report_lane_place(const struct report *r, uint32_t lane)
{
	return r->by == BY_PROCESS ? r->lane[lane].process : INTERN_NONE;
}

uint32_t report_call_place(const struct report *r, const struct call *c)
{
	return r->by >= BY_RANGE ? r->around.name[c - r->calls] :
		report_lane_place(r, c->lane);
}

/* No thread has so high a number (the kernel's limit is 2^22): these lanes of
 * a process are where the tracer puts start/end ranges. */
struct group_key report_range_key(const struct report *r,
				  const struct range *range)
{
	enum { NO_THREAD = 5000000 };
	uint64_t tid = r->lane[range->lane].tid;
	bool lane = !(tid & REPORT_TEXT) && tid >= NO_THREAD;

	return (struct group_key){
		range->name, r->style[lane], INTERN_NONE,
		report_lane_place(r, range->lane),
	};
}

/* The process of GPU work is the one that launched it; where that is not
 * known, the GPU's own one. */
uint32_t report_work_place(const struct report *r, const struct work *w)
{
	uint32_t device = report_work_device(r, w);
	const struct call *call = report_work_call(r, w);

	switch (r->by) {
	case BY_PROCESS:
		return call ? r->lane[call->lane].process :
			r->device[device].process;
	case BY_DEVICE:
		return device;
	case BY_STREAM:
		return w->stream;
	case BY_ALL:
		return INTERN_NONE;
	default:
		return call ? report_call_place(r, call) : INTERN_NONE;
	}
}

/* What a table is made from: items by number, with a key (false: not in this
 * table) and values (false: none). */
struct source {
	size_t nr;
	bool (*key)(struct report *r, size_t i, struct group_key *key);
	bool (*value)(const struct report *r, size_t i, enum group_set set,
		      int64_t *value);
};

static bool work_key(struct report *r, size_t i, struct group_key *key)
{
	const struct work *w = &r->work[i];

	*key = (struct group_key){
		w->name, INTERN_NONE, INTERN_NONE, report_work_place(r, w),
	};
	return true;
}

static bool kernel_key(struct report *r, size_t i, struct group_key *key)
{
	return r->work[i].cat == CAT_KERNEL && work_key(r, i, key);
}

static bool shape_key(struct report *r, size_t i, struct group_key *key)
{
	if (!kernel_key(r, i, key))
		return false;
	key->second = r->work[i].detail;
	return true;
}

static bool graph_key(struct report *r, size_t i, struct group_key *key)
{
	return r->work[i].cat == CAT_GRAPH && work_key(r, i, key);
}

static bool copy_key(struct report *r, size_t i, struct group_key *key)
{
	return r->work[i].class == WORK_COPY && work_key(r, i, key);
}

static bool work_value(const struct report *r, size_t i, enum group_set set,
		       int64_t *value)
{
	const struct work *w = &r->work[i];

	if (set == SET_TIME) {
		*value = w->end - w->start;
		return true;
	}
	if (set != SET_BYTES || w->class != WORK_COPY ||
	    w->detail == UINT32_MAX)
		return false;
	*value = r->bytes[w->detail];
	return true;
}

static bool launch_key(struct report *r, size_t i, struct group_key *key)
{
	const struct work *w = &r->work[i];
	const struct call *c = report_work_call(r, w);

	if (!c || w->cat != CAT_KERNEL)
		return false;
	*key = (struct group_key){
		w->name, c->name, c->lane, report_work_device(r, w),
	};
	return true;
}

static bool launch_value(const struct report *r, size_t i, enum group_set set,
			 int64_t *value)
{
	const struct work *w = &r->work[i];
	const struct call *c = report_work_call(r, w);

	switch (set) {
	case SET_TIME:
		*value = (w->end > c->end ? w->end : c->end) - c->start;
		return true;
	case SET_API:
		*value = c->end - c->start;
		return true;
	case SET_QUEUE:
		*value = w->start - c->end;
		return *value > 0;
	default:
		*value = w->end - w->start;
		return true;
	}
}

static bool call_key(struct report *r, size_t i, struct group_key *key)
{
	const struct call *c = &r->calls[i];

	*key = (struct group_key){
		c->name, INTERN_NONE, INTERN_NONE, report_call_place(r, c),
	};
	return !c->out;
}

static bool call_value(const struct report *r, size_t i, enum group_set set,
		       int64_t *value)
{
	*value = r->calls[i].end - r->calls[i].start;
	return set == SET_TIME;
}

static bool range_key(struct report *r, size_t i, struct group_key *key)
{
	const struct range *range = &r->range[i];

	r->lane[range->lane].nr_ranges++;
	*key = report_range_key(r, range);
	return true;
}

static bool range_value(const struct report *r, size_t i, enum group_set set,
			int64_t *value)
{
	*value = r->range[i].end - r->range[i].start;
	return set == SET_TIME;
}

static bool blocking_key(struct report *r, size_t i, struct group_key *key)
{
	const struct range *call = &r->osrt.call[i];

	*key = (struct group_key){
		call->name, INTERN_NONE, INTERN_NONE,
		report_lane_place(r, call->lane),
	};
	return true;
}

static bool blocking_value(const struct report *r, size_t i,
			   enum group_set set, int64_t *value)
{
	*value = r->osrt.call[i].end - r->osrt.call[i].start;
	return set == SET_TIME;
}

/* The group of each item, UINT32_MAX: none; nr of each group is counted. */
static void find_groups(struct report *r, struct groups *groups,
			const struct source *from, uint32_t *of)
{
	struct group_key key;

	for (size_t i = 0; i < from->nr; i++) {
		struct group *g = NULL;

		if (from->key(r, i, &key))
			g = report_group_get(r, groups, key);
		of[i] = g ? g - groups->group : UINT32_MAX;
		if (g)
			g->nr++;
	}
}

/* Items in the order of their groups. */
static void sort_items(struct groups *groups, const uint32_t *of, size_t nr,
		       uint32_t *order)
{
	size_t at = 0;

	for (size_t i = 0; i < groups->nr; i++) {
		groups->group[i].last = at;
		at += groups->group[i].nr;
	}
	for (size_t i = 0; i < nr; i++)
		if (of[i] != UINT32_MAX)
			order[groups->group[of[i]].last++] = i;
}

static void compute_group(struct report *r, struct group *g,
			  const struct source *from, const uint32_t *item,
			  struct stats_set *values)
{
	int64_t value;

	for (int set = 0; set < GROUP_SETS; set++) {
		values->nr = 0;
		for (size_t i = 0; i < g->nr; i++)
			if (from->value(r, item[i], set, &value))
				r->no_memory |= !stats_add(values, value);
		stats_compute(values, &g->stats[set]);
	}
}

/* Only one table's durations are in memory at a time, and of them those of
 * one group; an item costs 8 bytes while its table is made. */
static void make_groups(struct report *r, struct groups *groups,
			const struct source *from)
{
	uint32_t *of = malloc((from->nr + 1) * sizeof(*of));
	uint32_t *order = malloc((from->nr + 1) * sizeof(*order));
	struct stats_set values = { .nr = 0 };
	size_t at = 0;

	if (!of || !order || from->nr >= UINT32_MAX) {
		r->no_memory = true;
		goto out;
	}
	find_groups(r, groups, from, of);
	sort_items(groups, of, from->nr, order);
	for (size_t i = 0; i < groups->nr; i++) {
		compute_group(r, &groups->group[i], from, order + at, &values);
		at += groups->group[i].nr;
	}
out:
	stats_fini(&values);
	free(of);
	free(order);
}

void report_group(struct report *r)
{
	const struct source
		kernels = { r->nr_work, kernel_key, work_value },
		shapes = { r->nr_work, shape_key, work_value },
		launches = { r->nr_work, launch_key, launch_value },
		copies = { r->nr_work, copy_key, work_value },
		graphs = { r->nr_work, graph_key, work_value },
		calls = { r->nr_calls, call_key, call_value },
		ranges = { r->nr_ranges, range_key, range_value },
		blocking = { r->osrt.nr, blocking_key, blocking_value };

	make_groups(r, &r->kernels, &kernels);
	make_groups(r, &r->shapes, &shapes);
	make_groups(r, &r->launches, &launches);
	make_groups(r, &r->copies, &copies);
	make_groups(r, &r->graphs, &graphs);
	make_groups(r, &r->api, &calls);
	make_groups(r, &r->ranges, &ranges);
	make_groups(r, &r->blocking, &blocking);
}

void report_group_add(struct report *r, struct group *group, int64_t value)
{
	if (group && !stats_add(&group->values, value))
		r->no_memory = true;
}

void report_group_close(struct groups *groups)
{
	for (size_t i = 0; i < groups->nr; i++) {
		struct group *g = &groups->group[i];

		stats_compute(&g->values, &g->stats[SET_TIME]);
		stats_fini(&g->values);
	}
}
