/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "tools/series.h"
#include "tools/table.h"

/*
 * On a lane ranges come by start, the longest first, so that those around the
 * next one are a stack:
 *
 *      [step                ]      step
 *        [forward  ]               step > forward
 *          [layer]                 step > forward > layer
 *                [sample]          step > sample: ends behind forward
 */
struct node {
	uint32_t parent, name;
	uint64_t count;
	int64_t total_ns, gpu_ns;
};

struct tree {
	const struct model *m;
	struct node *node;
	size_t nr;
	struct pairs by_name;   /* (parent, name) -> node */
	uint32_t *node_of;      /* of each range: its own, or that around it */
	uint64_t left_out;
	struct open_range {
		int64_t end;
		uint32_t node;
	} open[SERIES_DEPTH];
	unsigned depth;
	bool no_memory;
};

/* Its node, or MODEL_NONE where there is no room for a new one. */
static uint32_t find_node(struct tree *t, uint32_t parent, uint32_t name)
{
	bool is_new;
	uint32_t n;

	if (t->nr == SERIES_NODES)
		return pairs_find(&t->by_name, parent, name);
	n = pairs_put(&t->by_name, parent, name, t->nr, &is_new);
	if (n == MODEL_NONE)
		t->no_memory = true;
	else if (is_new)
		t->node[t->nr++] = (struct node){
			.parent = parent, .name = name,
		};
	return n;
}

static void add_range(struct tree *t, size_t i)
{
	const struct model_range *r = &t->m->range[i];
	uint32_t around, node = MODEL_NONE;

	while (t->depth && (t->open[t->depth - 1].end <= r->start ||
			    t->open[t->depth - 1].end < r->end))
		t->depth--;
	around = t->depth ? t->open[t->depth - 1].node : MODEL_NONE;
	if (t->depth < SERIES_DEPTH)
		node = find_node(t, around, r->name);
	t->node_of[i] = node == MODEL_NONE ? around : node;
	if (node == MODEL_NONE) {
		t->left_out++;
		return;
	}
	t->node[node].count++;
	model_sum(&t->node[node].total_ns, r->end - r->start);
	t->open[t->depth++] = (struct open_range){ r->end, node };
}

static void add_ranges(struct tree *t)
{
	const struct model *m = t->m;

	for (size_t i = 0; i < m->nr_ranges && !t->no_memory; i++) {
		if (!i || m->range[i].lane != m->range[i - 1].lane)
			t->depth = 0;
		t->node_of[i] = MODEL_NONE;
		if (!m->range[i].is_op)
			add_range(t, i);
	}
}

/* Each operation to the innermost range; then, from the last node to the
 * first, to those around: parents come before their children. */
static void add_gpu_work(struct tree *t)
{
	const struct model *m = t->m;

	for (size_t i = 0; i < m->nr_work; i++) {
		const struct model_work *w = &m->work[i];
		const struct model_call *c;
		uint32_t range;

		if (w->call == MODEL_NONE)
			continue;
		c = &m->call[w->call];
		range = model_range_at(m, c->lane, c->start, false);
		if (range != MODEL_NONE && t->node_of[range] != MODEL_NONE)
			model_sum(&t->node[t->node_of[range]].gpu_ns,
				  w->end - w->start);
	}
	for (size_t i = t->nr; i-- > 0;)
		if (t->node[i].parent != MODEL_NONE)
			model_sum(&t->node[t->node[i].parent].gpu_ns,
				  t->node[i].gpu_ns);
}

static void print_tree(const struct tree *t, FILE *to)
{
	fputs(",\n\"ranges\":[", to);
	for (size_t i = 0; i < t->nr; i++) {
		const struct node *n = &t->node[i];

		fprintf(to, "%s\n{\"parent\":%" PRId64 ",\"name\":",
			i ? "," : "", n->parent == MODEL_NONE ? -1 :
			(int64_t)n->parent);
		table_json_text(to, model_name(t->m, n->name));
		fprintf(to, ",\"count\":%" PRIu64 ",\"total_ns\":%" PRId64
			",\"gpu_ns\":%" PRId64 "}", n->count, n->total_ns,
			n->gpu_ns);
	}
	fprintf(to, "],\n\"ranges_left_out\":%" PRIu64, t->left_out);
}

int series_print_ranges(const struct model *m, FILE *to)
{
	struct tree t = { .m = m };

	t.node = calloc(SERIES_NODES, sizeof(*t.node));
	t.node_of = malloc((m->nr_ranges + 1) * sizeof(*t.node_of));
	t.no_memory = !t.node || !t.node_of;
	add_ranges(&t);
	if (!t.no_memory) {
		add_gpu_work(&t);
		print_tree(&t, to);
	}
	pairs_fini(&t.by_name);
	free(t.node);
	free(t.node_of);
	return t.no_memory ? -ENOMEM : 0;
}
