/* SPDX-License-Identifier: MIT */
#include "tools/report.h"

static void add_loss(struct report *r, uint32_t cause, int64_t n)
{
	size_t i = 0;

	while (i < r->nr_losses && r->loss[i].cause != cause)
		i++;
	if (i == r->nr_losses) {
		if (cause == INTERN_NONE ||
		    !VEC_ROOM(r->loss, i, r->cap_losses)) {
			r->no_memory = true;
			return;
		}
		r->loss[r->nr_losses++] = (struct loss){ cause, 0 };
	}
	report_sum(&r->loss[i].n, n);
}

/* The tracer knows some twenty causes; what a hostile file has beyond a
 * hundred is not told apart. */
static void add_losses(struct report *r, const struct json_value *gputrace)
{
	enum { MANY = 100 };
	struct json_value losses = jsonval_member(gputrace, "losses");
	struct json_value cause, value;
	const char *at = NULL;
	int64_t n;

	if (losses.type != JSON_OBJECT)
		return;
	while (!r->no_memory && jsonval_next(&losses, &at, &cause, &value))
		if (jsonval_int(&value, &n) && n > 0)
			add_loss(r, r->nr_losses < MANY ?
				 intern_value(&r->names, &cause) :
				 intern_text(&r->names, "other", 5), n);
}

void report_add_tracer(struct report *r, const struct json_value *gputrace)
{
	struct json_value own = jsonval_member(gputrace, "own_ns");
	int64_t ns;

	if (jsonval_int(&own, &ns) && ns > 0)
		report_sum(&r->own_ns, ns);
	add_losses(r, gputrace);
}
