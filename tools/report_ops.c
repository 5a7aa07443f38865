/* SPDX-License-Identifier: MIT */
#include "tools/report_ops.h"

#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/order.h"
#include "tools/report.h"

/*
 * On each thread everything in the order of its start, the longest first; what
 * is open is a stack:
 *
 *      aten::linear      [--------------------------]
 *      aten::addmm           [------------------]
 *      cudaLaunchKernel              [----]             -> a kernel
 *
 * Self CPU time is a slice's without that of what is directly inside.  A
 * kernel's time is the operator's, or range's, that is innermost around its
 * launch, and in the total of all around that.
 *
 * An operator that does nothing but call one of its own name (an overload) is
 * one with it.
 */
enum kind { KIND_RANGE, KIND_OP, KIND_CALL };

struct item {
	int64_t start, end;
	uint32_t lane, name;
	uint32_t call;          /* of KIND_CALL */
	enum kind kind;
};

struct open_item {
	const struct item *item;        /* NULL: nothing */
	int64_t inside_ns;      /* of what is directly in it */
	int64_t self_gpu_ns, gpu_ns;
	size_t nr_inside;
};

/* An open one, and what it may be one with: its only child, closed. */
struct level {
	struct open_item open, same;
};

struct sweep {
	struct report *r;
	struct item *item;
	size_t nr;
	int64_t *gpu_ns;        /* that each call launched */
	struct level *level;
	size_t depth, cap;
	uint32_t step_name;
};

static int by_nesting(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = ORDER_NESTED(x, y);

	return order ? order : order_of(x->kind, y->kind);
}

/* ---- What there is ---- */

static void add_ranges(struct sweep *s, const struct range *range, size_t nr,
		       enum kind kind)
{
	for (size_t i = 0; i < nr; i++)
		s->item[s->nr++] = (struct item){
			range[i].start, range[i].end, range[i].lane,
			range[i].name, 0, kind,
		};
}

static void collect(struct sweep *s)
{
	const struct report *r = s->r;

	add_ranges(s, r->around.of[AROUND_OP].slice, r->ops_of.nr, KIND_OP);
	add_ranges(s, r->range, r->nr_ranges, KIND_RANGE);
	for (size_t i = 0; i < r->nr_calls; i++)
		if (!r->calls[i].out)
			s->item[s->nr++] = (struct item){
				r->calls[i].start, r->calls[i].end,
				r->calls[i].lane, r->calls[i].name, i,
				KIND_CALL,
			};
	order_sort(s->item, s->nr, sizeof(*s->item), by_nesting);
}

static void collect_gpu(struct sweep *s)
{
	struct report *r = s->r;

	for (size_t i = 0; i < r->nr_work; i++) {
		const struct work *w = &r->work[i];
		int64_t ns = w->end - w->start;

		report_sum(&r->ops_of.self_gpu_ns, ns);
		if (w->correlation)
			report_sum(&s->gpu_ns[w->correlation - 1], ns);
	}
}

/* ---- Groups ---- */

/* All steps are one row, as PyTorch has it. */
static uint32_t row_name(const struct sweep *s, const struct item *item)
{
	static const char step[] = "ProfilerStep#";
	const char *name = intern_get(&s->r->names, item->name);

	return strncmp(name, step, sizeof(step) - 1) ? item->name :
		s->step_name;
}

static void add_value(struct stats *st, int64_t ns)
{
	report_sum(&st->total, ns);
	st->min = st->count && st->min < ns ? st->min : ns;
	st->max = st->max > ns ? st->max : ns;
	st->count++;
}

static void close_groups(struct groups *groups)
{
	for (size_t i = 0; i < groups->nr; i++)
		for (int set = 0; set < GROUP_SETS; set++) {
			struct stats *st = &groups->group[i].stats[set];
			unsigned __int128 sum = st->total;

			if (st->count)
				st->avg = (int64_t)((sum + st->count / 2) /
						    st->count);
		}
}

static void add_to_group(struct sweep *s, const struct open_item *o)
{
	struct report *r = s->r;
	const struct item *item = o->item;
	int64_t ns = item->end - item->start, self_ns = ns - o->inside_ns;
	struct group *g = report_group_get(r, &r->ops, (struct group_key){
		row_name(s, item), INTERN_NONE, INTERN_NONE,
		report_lane_place(r, item->lane),
	});

	if (!g)
		return;
	add_value(&g->stats[SET_TIME], ns);
	add_value(&g->stats[SET_GPU], o->gpu_ns);
	report_sum(&g->self_ns, self_ns);
	report_sum(&g->range_ns, o->self_gpu_ns);
	report_sum(&r->ops_of.self_cpu_ns, self_ns);
}

/* ---- The sweep ---- */

static void close_innermost(struct sweep *s)
{
	struct level *l = &s->level[--s->depth], *around = l - 1;

	if (l->same.item) {
		l->open.inside_ns = l->same.inside_ns;
		report_sum(&l->open.self_gpu_ns, l->same.self_gpu_ns);
	}
	if (s->depth)
		report_sum(&around->open.gpu_ns, l->open.gpu_ns);
	if (s->depth && around->open.nr_inside == 1 &&
	    around->open.item->name == l->open.item->name)
		around->same = l->open;
	else
		add_to_group(s, &l->open);
}

/* What the next one is not inside of is over; one that it crosses, too. */
static void close_for(struct sweep *s, const struct item *next)
{
	while (s->depth) {
		const struct item *o = s->level[s->depth - 1].open.item;

		if (o->lane == next->lane && next->start < o->end &&
		    next->end <= o->end)
			return;
		close_innermost(s);
	}
}

/* A call's work is that of the innermost slice around it that is none. */
static void give_gpu(struct sweep *s, int64_t ns)
{
	size_t i = s->depth;

	while (i && s->level[i - 1].open.item->kind == KIND_CALL)
		i--;
	if (!i)
		return;
	report_sum(&s->level[i - 1].open.self_gpu_ns, ns);
	report_sum(&s->level[i - 1].open.gpu_ns, ns);
}

static void put_inside(struct sweep *s, struct level *around,
		       const struct item *item)
{
	report_sum(&around->open.inside_ns, item->end - item->start);
	around->open.nr_inside++;
	if (!around->same.item)
		return;
	add_to_group(s, &around->same);         /* not the only one */
	around->same.item = NULL;
}

static void take(struct sweep *s, const struct item *item)
{
	close_for(s, item);
	if (s->depth)
		put_inside(s, &s->level[s->depth - 1], item);
	if (item->kind == KIND_CALL)
		give_gpu(s, s->gpu_ns[item->call]);
	if (!VEC_ROOM(s->level, s->depth, s->cap)) {
		s->r->no_memory = true;
		return;
	}
	s->level[s->depth++] = (struct level){ .open = { .item = item } };
}

static void sweep(struct sweep *s)
{
	collect(s);
	collect_gpu(s);
	for (size_t i = 0; i < s->nr && !s->r->no_memory; i++)
		take(s, &s->item[i]);
	while (s->depth && !s->r->no_memory)
		close_innermost(s);
	close_groups(&s->r->ops);
}

void report_ops(struct report *r)
{
	struct sweep s = { .r = r };
	size_t nr = r->ops_of.nr + r->nr_ranges + r->nr_calls;

	if (!r->ops_of.nr)
		return;
	s.step_name = intern_text(&r->names, "ProfilerStep*", 13);
	s.item = big_alloc((nr + 1) * sizeof(*s.item));
	s.gpu_ns = big_alloc((r->nr_calls + 1) * sizeof(*s.gpu_ns));
	if (!s.item || !s.gpu_ns || s.step_name == INTERN_NONE) {
		r->no_memory = true;
	} else {
		memset(s.gpu_ns, 0, (r->nr_calls + 1) * sizeof(*s.gpu_ns));
		sweep(&s);
	}
	big_free(s.item);
	big_free(s.gpu_ns);
	free(s.level);
}
