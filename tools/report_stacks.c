/* SPDX-License-Identifier: MIT */
#include "tools/report_stacks.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/jsonval.h"
#include "tools/order.h"
#include "tools/report_print.h"

static const struct column columns[] = {
	{ "Self (%)", "share", CELL_SHARE, COLUMN_BOTH },
	{ "Self Samples", "self_samples", CELL_COUNT, COLUMN_BOTH },
	{ "Total Samples", "total_samples", CELL_COUNT, COLUMN_BOTH },
	{ "Function", "name", CELL_TEXT, COLUMN_BOTH },
};
enum { NR = sizeof(columns) / sizeof(*columns) };
enum { DEPTH_MAX = 256, PATH_MAX_LEN = 16 << 10 };

void report_stacks_add(struct report *r, const struct trace_event *ev,
		       uint32_t name, int64_t start, int64_t end)
{
	struct report_stacks *s = &r->stacks;
	const struct json_value *args = trace_field(ev, EV_ARGS);
	struct json_value nr = trace_none;
	uint32_t lane = report_event_lane(r, ev, trace_field(ev, EV_TID));
	int64_t n;

	if (args->type == JSON_OBJECT)
		nr = jsonval_member(args, "samples");
	if (!jsonval_int(&nr, &n) || n <= 0)
		return;
	if (lane == UINT32_MAX ||
	    !BIG_ROOM(s->sample, s->nr_samples, s->cap_samples)) {
		r->no_memory = true;
		return;
	}
	s->sample[s->nr_samples] = (struct sample){
		.start = start, .end = end, .nr = n, .lane = lane,
		.name = name, .order = (uint32_t)s->nr_samples,
	};
	s->nr_samples++;
}

void report_stacks_fini(struct report_stacks *s)
{
	pairs_fini(&s->by_name);
	pairs_fini(&s->by_text);
	big_free(s->sample);
	free(s->function);
	free(s->path);
}

/* Of two with the same times the inner one was written first: it ended
 * first. */
static int by_nesting(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	int order = ORDER_NESTED(x, y);

	return order ? order : order_of(y->order, x->order);
}

static struct sampled *function_of(struct report *r, uint32_t name)
{
	struct report_stacks *s = &r->stacks;
	bool is_new;
	uint32_t i;

	if (!VEC_ROOM(s->function, s->nr_functions, s->cap_functions))
		return NULL;
	i = pairs_put(&s->by_name, name, 0, s->nr_functions, &is_new);
	if (i == UINT32_MAX)
		return NULL;
	if (is_new)
		s->function[s->nr_functions++] = (struct sampled){
			.name = name,
		};
	return &s->function[i];
}

/* ---- The stack of slices that are open ---- */

struct open_samples {
	struct {
		const struct sample *sample;
		int64_t left;           /* not in what is inside */
	} level[DEPTH_MAX];
	size_t nr;
};

/* "main (a);work (a)": what separates frames is not part of a name. */
static uint32_t path_of(struct report *r, const struct open_samples *open)
{
	static char text[PATH_MAX_LEN];
	const struct lane *lane = &r->lane[open->level[0].sample->lane];
	const char *name = lane->name == INTERN_NONE ? "thread" :
		intern_get(&r->names, lane->name);
	size_t i = 0, at = 0, len;

	for (;; name = intern_get(&r->names, open->level[i++].sample->name)) {
		len = strlen(name);
		if (at + len + 2 > sizeof(text))
			break;
		if (at)
			text[at++] = ';';
		for (; len; len--, name++)
			text[at++] = *name == ';' ? ':' :
				(unsigned char)*name < ' ' ? ' ' : *name;
		if (i == open->nr)
			break;
	}
	return intern_text(&r->names, text, at);
}

static void add_path(struct report *r, const struct open_samples *open,
		     int64_t nr)
{
	struct report_stacks *s = &r->stacks;
	uint32_t text = path_of(r, open), i;
	bool is_new;

	if (text == INTERN_NONE ||
	    !VEC_ROOM(s->path, s->nr_paths, s->cap_paths) ||
	    (i = pairs_put(&s->by_text, text, 0, s->nr_paths, &is_new)) ==
	    UINT32_MAX) {
		r->no_memory = true;
		return;
	}
	if (is_new)
		s->path[s->nr_paths++] = (struct stack_path){ text, 0 };
	report_sum(&s->path[i].nr, nr);
}

static void close_one(struct report *r, struct open_samples *open)
{
	const struct sample *sample = open->level[open->nr - 1].sample;
	struct sampled *function = function_of(r, sample->name);
	int64_t left = open->level[open->nr - 1].left;

	if (!function) {
		r->no_memory = true;
		open->nr--;
		return;
	}
	function->depth--;
	if (!function->depth)           /* recursion counts once */
		report_sum(&function->total, sample->nr);
	if (left) {
		report_sum(&function->self, left);
		add_path(r, open, left);
	}
	open->nr--;
}

/* What is deeper than DEPTH_MAX is in the function that is that deep. */
static void open_one(struct report *r, struct open_samples *open,
		     const struct sample *sample)
{
	struct sampled *function;
	int64_t *left;

	if (open->nr == DEPTH_MAX)
		return;
	function = function_of(r, sample->name);
	if (!function) {
		r->no_memory = true;
		return;
	}
	if (open->nr) {
		/* Not below 0: a file may say that more were inside. */
		left = &open->level[open->nr - 1].left;
		*left = *left > sample->nr ? *left - sample->nr : 0;
	}
	function->depth++;
	open->level[open->nr].sample = sample;
	open->level[open->nr++].left = sample->nr;
}

static bool is_inside(const struct sample *inner, const struct sample *outer)
{
	return inner->lane == outer->lane && inner->end <= outer->end &&
		inner->start < outer->end;
}

void report_stacks(struct report *r)
{
	struct report_stacks *s = &r->stacks;
	struct open_samples open = { .nr = 0 };
	const struct sample *sample = s->sample;

	if (!s->nr_samples)
		return;
	order_sort(s->sample, s->nr_samples, sizeof(*s->sample), by_nesting);
	for (; sample < s->sample + s->nr_samples && !r->no_memory; sample++) {
		if (sample->end <= r->first_ns || sample->start >= r->last_ns)
			continue;       /* --filter time= */
		while (open.nr && !is_inside(sample,
					     open.level[open.nr - 1].sample))
			close_one(r, &open);
		open_one(r, &open, sample);
	}
	while (open.nr)
		close_one(r, &open);
}

/* ---- What is printed ---- */

static int by_self(const void *a, const void *b, void *arg)
{
	const struct sampled *x = a, *y = b;
	const struct intern *names = arg;

	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return strcmp(intern_get(names, x->name), intern_get(names, y->name));
}

static void fill(struct report_view *view, struct report *r, struct table *t)
{
	const struct report_stacks *s = &r->stacks;
	int64_t all = 0;
	size_t i;

	for (i = 0; i < s->nr_functions; i++)
		report_sum(&all, s->function[i].self);
	for (i = 0; i < s->nr_functions; i++) {
		const struct sampled *f = &s->function[i];
		union cell *cell = t->cells + t->nr_rows * NR;

		if (view->filter &&
		    fnmatch(view->filter, intern_get(&r->names, f->name), 0))
			continue;
		cell[0].n = report_share(f->self, all);
		cell[1].n = f->self;
		cell[2].n = f->total;
		cell[3].text = intern_get(&r->names, f->name);
		t->nr_rows++;
	}
	report_table_cut(view, t);
}

int report_print_stacks(struct report_view *view, struct report *r)
{
	struct report_stacks *s = &r->stacks;
	struct table t = {
		.title = "Functions by samples of CPU time", .key = "stacks",
		.columns = columns, .nr_columns = NR, .use = COLUMN_BOTH,
	};

	t.cells = calloc(s->nr_functions * NR + 1, sizeof(*t.cells));
	if (!t.cells)
		return -1;
	if (s->nr_functions)
		qsort_r(s->function, s->nr_functions, sizeof(*s->function),
			by_self, &r->names);
	fill(view, r, &t);
	report_table_print(view, &t);
	return 0;
}

static int by_text(const void *a, const void *b, void *arg)
{
	const struct stack_path *x = a, *y = b;

	return strcmp(intern_get(arg, x->text), intern_get(arg, y->text));
}

int report_print_collapsed(struct report_view *view, struct report *r)
{
	struct report_stacks *s = &r->stacks;
	size_t i;

	if (s->nr_paths)
		qsort_r(s->path, s->nr_paths, sizeof(*s->path), by_text,
			&r->names);
	for (i = 0; i < s->nr_paths; i++)
		fprintf(view->out.to, "%s %" PRId64 "\n",
			intern_get(&r->names, s->path[i].text),
			s->path[i].nr);
	return fflush(view->out.to) || ferror(view->out.to) ? -1 : 0;
}
