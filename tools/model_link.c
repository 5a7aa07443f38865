/* SPDX-License-Identifier: MIT */
#include "tools/big.h"
#include "tools/model.h"
#include "tools/order.h"

/* The second step of a model: order, and the links between what was launched
 * and the call that did. */

static int work_order(const void *a, const void *b)
{
	const struct model_work *x = a, *y = b;

	if (x->device != y->device)
		return order_of(x->device, y->device);
	if (x->start != y->start)
		return order_of(x->start, y->start);
	return order_of(x->end, y->end);
}

static int call_order(const void *a, const void *b)
{
	const struct model_call *x = a, *y = b;

	return ORDER_NESTED(x, y);
}

static int range_order(const void *a, const void *b)
{
	const struct model_range *x = a, *y = b;

	return ORDER_NESTED(x, y);
}

static int row_order(const void *a, const void *b)
{
	const struct model_row *x = a, *y = b;

	if (x->lane == y->lane && x->kind != y->kind)
		return order_of(x->kind, y->kind);
	return ORDER_NESTED(x, y);
}

static int by_correlation(const struct model_call *x,
			  const struct model_call *y)
{
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->correlation < y->correlation ? -1 :
		x->correlation > y->correlation;
}

/* Of a correlation that comes twice (a driver call in a runtime call), the
 * first call counts. */
static int call_index_order(const void *a, const void *b, void *arg)
{
	const uint32_t *i = a, *k = b;
	const struct model *m = arg;
	int order = by_correlation(&m->call[*i], &m->call[*k]);

	return order ? order : order_of(*i, *k);
}

/* The calls with a correlation, in its order: 4 bytes a call. */
static uint32_t *index_calls(struct model *m, size_t *nr)
{
	uint32_t *index = big_alloc((m->nr_calls + 1) * sizeof(*index));

	*nr = 0;
	m->no_memory |= !index;
	for (size_t i = 0; index && i < m->nr_calls; i++)
		if (m->call[i].correlation)
			index[(*nr)++] = i;
	order_sort_by(index, *nr, sizeof(*index), call_index_order, m);
	return index;
}

static uint32_t find_call(const struct model *m, const uint32_t *index,
			  size_t nr, const struct model_work *w)
{
	struct model_call key = {
		.file = m->device[w->device].file,
		.correlation = w->correlation,
	};
	size_t lo = 0, hi = nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_correlation(&m->call[index[mid]], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == nr || by_correlation(&m->call[index[lo]], &key))
		return MODEL_NONE;
	return index[lo];
}

static void link_work(struct model *m)
{
	size_t nr;
	uint32_t *index = index_calls(m, &nr);

	for (size_t i = 0; index && i < m->nr_work; i++) {
		struct model_work *w = &m->work[i];
		struct model_call *c;

		if (w->correlation)
			w->call = find_call(m, index, nr, w);
		if (w->call == MODEL_NONE)
			continue;
		c = &m->call[w->call];
		if (!c->nr_work++)
			m->lane[c->lane].nr_launches++;
		if (c->work == MODEL_NONE ||
		    w->start < m->work[c->work].start)
			c->work = i;
	}
	big_free(index);
}

static void find_parts(struct model *m)
{
	for (size_t i = m->nr_work; i-- > 0;) {
		m->device[m->work[i].device].first = i;
		m->device[m->work[i].device].nr++;
	}
	for (size_t i = m->nr_calls; i-- > 0;) {
		m->lane[m->call[i].lane].first_call = i;
		m->lane[m->call[i].lane].nr_calls++;
	}
	for (size_t i = m->nr_ranges; i-- > 0;) {
		m->lane[m->range[i].lane].first_range = i;
		m->lane[m->range[i].lane].nr_ranges++;
	}
}

void model_finish(struct model *m)
{
	if (m->nr_work >= MODEL_NONE || m->nr_calls >= MODEL_NONE ||
	    m->nr_ranges >= MODEL_NONE)
		m->no_memory = true;
	if (m->no_memory)
		return;
	order_sort(m->work, m->nr_work, sizeof(*m->work), work_order);
	order_sort(m->call, m->nr_calls, sizeof(*m->call), call_order);
	order_sort(m->range, m->nr_ranges, sizeof(*m->range), range_order);
	order_sort(m->row, m->nr_rows, sizeof(*m->row), row_order);
	find_parts(m);
	link_work(m);
}

size_t model_row_at(const struct model *m, uint32_t lane, enum row_kind kind,
		    int64_t at)
{
	enum { NESTED = 8 };    /* blocking calls inside one another */
	struct model_row key = { .start = at, .end = INT64_MAX, .lane = lane,
				 .kind = kind };
	size_t lo = 0, hi = m->nr_rows, i;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (row_order(&m->row[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (i = lo; i > 0 && lo - i < NESTED && m->row[i - 1].lane == lane &&
	     m->row[i - 1].kind == kind; i--)
		if (m->row[i - 1].end > at)
			lo = i - 1;
	return lo;
}

const char *model_stack(const struct model *m, const struct model_call *c)
{
	uint32_t name = c->correlation ?
		pairs_find(&m->stacks, c->file, c->correlation) : MODEL_NONE;

	return name == MODEL_NONE ? "" : model_name(m, name);
}

uint32_t model_call_at(const struct model *m, uint32_t lane, int64_t at)
{
	size_t lo = m->lane[lane].first_call, first = lo;
	size_t hi = lo + m->lane[lane].nr_calls;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->call[mid].start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > first ? lo - 1 : MODEL_NONE;
}

/* Ranges nest, so going back from the last that began, the first that has not
 * ended is the innermost.  A lane with many short ones at one level is why the
 * steps back are bounded: the answer is evidence, not a sum. */
static uint32_t open_before(const struct model *m, uint32_t lane, size_t i,
			    int64_t at, bool ops)
{
	enum { MANY = 20000 };
	size_t first = m->lane[lane].first_range;

	for (int n = 0; i-- > first && n < MANY; n++)
		if (m->range[i].end > at && (ops || !m->range[i].is_op))
			return i;
	return MODEL_NONE;
}

uint32_t model_range_at(const struct model *m, uint32_t lane, int64_t at,
			bool ops)
{
	size_t lo = m->lane[lane].first_range;
	size_t hi = lo + m->lane[lane].nr_ranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->range[mid].start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return open_before(m, lane, lo, at, ops);
}

uint32_t model_op_at(const struct model *m, uint32_t lane, int64_t at)
{
	uint32_t i = model_range_at(m, lane, at, true), op = MODEL_NONE;

	for (; i != MODEL_NONE && m->range[i].is_op;
	     i = model_range_around(m, lane, i, at))
		op = i;
	return op;
}

uint32_t model_range_around(const struct model *m, uint32_t lane,
			    uint32_t range, int64_t at)
{
	return open_before(m, lane, range, at, true);
}
