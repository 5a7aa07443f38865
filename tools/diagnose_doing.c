/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tools/diagnose.h"

/*
 * Who was the GPU waiting for?  Where the trace has the rows of the sources
 * osrt and cpu: the blocking calls and the states of the thread that ended a
 * gap, for as long as the gap lasted, summed over all gaps.
 */
static struct doing *doing_of(struct subject *d, const struct model_row *row)
{
	uint32_t i = MODEL_NONE;
	bool is_new = false;

	if (VEC_ROOM(d->doing, d->nr_doing, d->cap_doing))
		i = pairs_put(&d->doing_by, row->kind, row->name, d->nr_doing,
			      &is_new);
	if (i == MODEL_NONE) {
		d->no_memory = true;
		return NULL;
	}
	if (is_new)
		d->doing[d->nr_doing++] = (struct doing){
			row->name, row->kind, 0,
		};
	return &d->doing[i];
}

/* Of calls inside one another the outer one counts. */
static void add_kind(struct subject *d, const struct gap *g,
		     enum row_kind kind)
{
	const struct model *m = d->m;
	size_t i = model_row_at(m, g->lane, kind, g->start);
	int64_t at = g->start;

	for (; i < m->nr_rows; i++) {
		const struct model_row *row = &m->row[i];
		int64_t end = row->end < g->end ? row->end : g->end;
		struct doing *doing;

		if (row->lane != g->lane || row->kind != kind ||
		    row->start >= g->end)
			return;
		at = row->start > at ? row->start : at;
		if (end <= at)
			continue;
		doing = doing_of(d, row);
		if (!doing)
			return;
		model_sum(&doing->ns, end - at);
		at = end;
	}
}

void subject_add_doing(struct subject *d, const struct gap *gap)
{
	if (!d->m->nr_rows || gap->lane == MODEL_NONE)
		return;
	add_kind(d, gap, ROW_STATE);
	add_kind(d, gap, ROW_CALL);
}

/* The longest of a kind that is below `below`, or NULL. */
static const struct doing *next_longest(const struct subject *d,
					enum row_kind kind,
					const struct doing *below)
{
	const struct doing *best = NULL;

	for (size_t i = 0; i < d->nr_doing; i++) {
		const struct doing *at = &d->doing[i];

		if (at->kind != kind || (below && (at->ns > below->ns ||
		    (at->ns == below->ns && at <= below))))
			continue;
		if (!best || at->ns > best->ns)
			best = at;
	}
	return best;
}

static void say_kind(const struct subject *d, struct found *f,
		     enum row_kind kind, const char *words)
{
	enum { SHOWN = 3 };
	const struct doing *at = NULL;
	char text[256] = "";
	size_t len = 0;

	for (int i = 0; i < SHOWN && len < sizeof(text) &&
	     (at = next_longest(d, kind, at)); i++)
		len += snprintf(text + len, sizeof(text) - len, "%s%.40s %s",
				i ? ", " : "", model_name(d->m, at->name),
				ns_text(subject_a_step(d, at->ns)).text);
	if (len)
		found_say(f, "%s %s%s", words, text, subject_per(d));
}

static int64_t state_ns(const struct subject *d, const char *name)
{
	for (size_t i = 0; i < d->nr_doing; i++)
		if (d->doing[i].kind == ROW_STATE &&
		    !strcmp(model_name(d->m, d->doing[i].name), name))
			return d->doing[i].ns;
	return 0;
}

/* A container that is throttled looks like a program that launches slowly. */
static void say_throttled(const struct subject *d, struct found *f)
{
	int64_t periods = 0, ns = 0, quota = 0;

	for (size_t i = 0; i < d->m->nr_throttles; i++) {
		const struct model_throttle *t = &d->m->throttle[i];

		if (t->file != d->steps->file || t->at < d->start ||
		    t->at > d->end)
			continue;
		model_sum(&periods, t->periods);
		model_sum(&ns, t->ns);
		quota = t->quota;
	}
	if (!periods)
		return;
	found_say(f, "the container used up its CPU quota (%lld %%) in %lld "
		  "periods: its threads stood still, %s of CPU time in all",
		  (long long)quota, (long long)periods, ns_text(ns).text);
	found_number(f, "throttled_periods", periods);
	found_number(f, "throttled_ns", ns);
	found_advise(f, "raise the container's CPU quota (--cpus, "
		     "limits.cpu) or leave it away: threads that are throttled "
		     "launch nothing");
}

void subject_say_doing(const struct subject *d, struct found *f)
{
	const struct doing *call = next_longest(d, ROW_CALL, NULL);
	/* Exact, and sampled. */
	int64_t preempted = state_ns(d, "Preempted") +
		state_ns(d, "Runnable");

	say_throttled(d, f);
	say_kind(d, f, ROW_STATE, "the thread that launches was then:");
	say_kind(d, f, ROW_CALL, "of it, blocked in:");
	if (next_longest(d, ROW_STATE, NULL)) {
		found_number(f, "thread_running_ns", state_ns(d, "Running"));
		found_number(f, "thread_preempted_ns", preempted);
	}
	if (call) {
		found_number(f, "blocked_ns", call->ns);
		found_text(f, "blocked_in", model_name(d->m, call->name));
	}
	if (subject_share(d, preempted) >= 20000)
		found_advise(f, "the thread was ready to run and had no CPU "
			     "for %s%s: more CPUs, fewer threads, or a larger "
			     "quota of the container",
			     ns_text(subject_a_step(d, preempted)).text,
			     subject_per(d));
}
