/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "tools/big.h"
#include "tools/report.h"

/*
 * CUDA graphs by launch: all operations of one correlation are one launch, and
 * its time is from their first start to their last end.
 */
struct node {
	size_t call;            /* index */
	int64_t start, end;
	uint32_t graph;         /* its name */
};

static int by_call(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return x->call < y->call ? -1 : x->call > y->call;
}

static size_t collect_nodes(const struct report *r, struct node *node)
{
	size_t nr = 0;

	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];
		const struct call *c = report_work_call(r, w);
		uint32_t graph;

		if (!c)
			continue;
		graph = pairs_find(&r->graph_ids,
				   r->device[report_work_device(r, w)].file,
				   c->correlation);
		if (graph != UINT32_MAX)
			node[nr++] = (struct node){
				w->correlation - 1, w->start, w->end, graph,
			};
	}
	if (nr)
		qsort(node, nr, sizeof(*node), by_call);
	return nr;
}

static void add_launch(struct report *r, const struct node *node, size_t nr)
{
	const struct call *c = &r->calls[node->call];
	int64_t start = node->start, end = node->end;
	struct group *g = report_group_get(r, &r->graph_launches,
					   (struct group_key){
		node->graph, INTERN_NONE, INTERN_NONE,
		report_call_place(r, c),
	});

	for (size_t i = 1; i < nr; i++) {
		start = node[i].start < start ? node[i].start : start;
		end = node[i].end > end ? node[i].end : end;
	}
	report_group_add(r, g, end - start);
	if (!g)
		return;
	report_sum(&g->range_ns, c->end - c->start);
	g->gpu_ops += nr;
}

void report_graphs(struct report *r)
{
	struct node *node;
	size_t nr;

	if (!r->graph_ids.nr)
		return;
	node = big_alloc((r->nr_work + 1) * sizeof(*node));
	if (!node) {
		r->no_memory = true;
		return;
	}
	nr = collect_nodes(r, node);
	for (size_t i = 0, next; i < nr; i = next) {
		next = i + 1;
		while (next < nr && node[next].call == node[i].call)
			next++;
		add_launch(r, node + i, next - i);
	}
	big_free(node);
	report_group_close(&r->graph_launches);
}
