/* SPDX-License-Identifier: MIT */
#include "tools/report_around.h"

#include <string.h>

#include "tools/big.h"
#include "tools/order.h"
#include "tools/report.h"

static bool begins(const struct json_value *name, const char *with)
{
	size_t len = strlen(with);

	return name->len >= len && !memcmp(name->text, with, len);
}

/* AROUNDS: of no interest.  The PyTorch profiler's Python frames are
 * "serve.py(123): sample", its modules "nn.Module: Linear_0"; of what is built
 * in no line is known. */
static enum around kind_of(const struct trace_event *ev)
{
	const struct json_value *name = trace_field(ev, EV_NAME);

	if (ev->cat == CAT_CPU_OP)
		return AROUND_OP;
	if (ev->cat != CAT_PYTHON || begins(name, "<"))
		return AROUNDS;
	return begins(name, "nn.Module: ") ? AROUND_MODULE : AROUND_LINE;
}

static void add(struct report *r, enum around kind, struct range slice)
{
	struct around_slices *of = &r->around.of[kind];

	if (slice.lane == UINT32_MAX || slice.name == INTERN_NONE ||
	    !BIG_ROOM(of->slice, of->nr, of->cap)) {
		r->no_memory = true;
		return;
	}
	of->slice[of->nr++] = slice;
}

/* An operator may say the module that it is in. */
void report_around_add(struct report *r, const struct trace_event *ev,
		       uint32_t name, int64_t start, int64_t end)
{
	const struct json_value *module = trace_arg(ev, ARG_MODULE);
	enum around kind = kind_of(ev);
	struct range slice = { start, end, name, UINT32_MAX };

	if (kind == AROUNDS)
		return;
	slice.lane = report_event_lane(r, ev, trace_field(ev, EV_TID));
	add(r, kind, slice);
	if (module->type != JSON_STRING)
		return;
	slice.name = intern_value(&r->names, module);
	add(r, AROUND_MODULE, slice);
}

int report_range_order(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return ORDER_NESTED(x, y);
}

static int call_order(const void *a, const void *b, void *calls)
{
	const struct call *x = (struct call *)calls + *(const uint32_t *)a;
	const struct call *y = (struct call *)calls + *(const uint32_t *)b;

	return x->lane != y->lane ? order_of(x->lane, y->lane) :
		order_of(x->start, y->start);
}

/* Slices that are open, the innermost last. */
struct open_slices {
	const struct range **slice;
	size_t nr, next;        /* in the list of all */
};

static void pass_to(struct open_slices *open, const struct around_slices *of,
		    const struct call *c)
{
	while (open->next < of->nr) {
		const struct range *s = &of->slice[open->next];

		if (s->lane > c->lane ||
		    (s->lane == c->lane && s->start > c->start))
			break;
		open->slice[open->nr++] = s;
		open->next++;
	}
	while (open->nr && (open->slice[open->nr - 1]->lane != c->lane ||
			    open->slice[open->nr - 1]->end <= c->start))
		open->nr--;
}

/* Calls in the order of lane and time, and the slices in the same. */
static void sweep(struct report *r, const struct around_slices *of,
		  const uint32_t *order, uint32_t *names)
{
	struct open_slices open = {
		.slice = big_alloc((of->nr + 1) * sizeof(*open.slice)),
	};

	r->no_memory |= !open.slice;
	for (size_t i = 0; open.slice && i < r->nr_calls; i++) {
		pass_to(&open, of, &r->calls[order[i]]);
		if (open.nr)
			names[order[i]] = open.slice[open.nr - 1]->name;
	}
	big_free(open.slice);
}

void report_around_find(struct report *r, const struct around_slices *of,
			uint32_t *names)
{
	uint32_t *order = big_alloc((r->nr_calls + 1) * sizeof(*order));

	if (!order) {
		r->no_memory = true;
		return;
	}
	for (size_t i = 0; i < r->nr_calls; i++) {
		order[i] = i;
		names[i] = INTERN_NONE;
	}
	order_sort_by(order, r->nr_calls, sizeof(*order), call_order,
		      r->calls);
	order_sort(of->slice, of->nr, sizeof(*of->slice), report_range_order);
	sweep(r, of, order, names);
	big_free(order);
}

/* The program's ranges are kept in any case, and sorted for other ends. */
static struct around_slices slices_of(struct report *r)
{
	switch (r->by) {
	case BY_OP:
		return r->around.of[AROUND_OP];
	case BY_MODULE:
		return r->around.of[AROUND_MODULE];
	case BY_LINE:
		return r->around.of[AROUND_LINE];
	default:
		return (struct around_slices){ r->range, r->nr_ranges, 0 };
	}
}

void report_around(struct report *r)
{
	struct around_slices of = slices_of(r);

	r->around.name = big_alloc((r->nr_calls + 1) *
				   sizeof(*r->around.name));
	if (!r->around.name) {
		r->no_memory = true;
		return;
	}
	report_around_find(r, &of, r->around.name);
	for (size_t i = 0; r->by == BY_LINE && i < r->nr_calls; i++)
		if (r->calls[i].line != INTERN_NONE)
			r->around.name[i] = r->calls[i].line;
}

void report_around_fini(struct report_around *around)
{
	for (int i = 0; i < AROUNDS; i++)
		big_free(around->of[i].slice);
	big_free(around->name);
}
