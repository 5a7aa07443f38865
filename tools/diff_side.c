/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/big.h"
#include "tools/diff.h"
#include "tools/stats.h"

/* The keys of a document, as text; what is beyond is not compared. */
struct keys {
	char *text;
	size_t len;
};

enum { MAX_KEYS = 4 << 20 };

static void keep_key(void *arg, const char *text, size_t len,
		     bool before_events)
{
	struct keys *keys = arg;
	char *wider;

	(void)before_events;
	if (len + keys->len > MAX_KEYS)
		return;
	/* a brace or comma, the key, and what the scanner reads beyond */
	wider = realloc(keys->text, keys->len + len + 2 + JSON_PAD);
	if (!wider)
		return;
	wider[keys->len] = keys->len ? ',' : '{';
	memcpy(wider + keys->len + 1, text, len);
	keys->text = wider;
	keys->len += len + 1;
}

static void read_facts(struct diff *d, struct diff_side *s, struct keys *keys)
{
	if (!keys->len)
		return;
	keys->text[keys->len++] = '}';
	memset(keys->text + keys->len, 0, JSON_PAD);
	diff_facts_read(d, s, keys->text, keys->len);
}

/* One step, so that everything else need not ask: the whole file. */
static int whole_file(struct diff_side *s)
{
	steps_fini(&s->steps);          /* it may have room for steps */
	s->steps.source = STEPS_NONE;
	s->steps.name = MODEL_NONE;
	s->steps.step = calloc(1, sizeof(*s->steps.step));
	if (!s->steps.step)
		return -ENOMEM;
	s->steps.nr = 1;
	if (s->m.first_ns <= s->m.last_ns)
		s->steps.step[0] = (struct step){
			s->m.first_ns, s->m.last_ns,
		};
	return 0;
}

static int find_steps(struct diff *d, struct diff_side *s,
		      struct trace_problem *problem)
{
	int err = steps_find(&s->m, 0, d->step, &s->steps);

	if (err)
		return err;
	s->has_steps = s->steps.nr;
	if (s->has_steps)
		return 0;
	if (d->step) {
		snprintf(problem->text, sizeof(problem->text),
			 "no range of the name %.80s", d->step);
		return -ENOENT;
	}
	return whole_file(s);
}

int diff_side_read(struct diff *d, enum diff_sides side, const char *path,
		   struct trace_problem *problem)
{
	struct diff_side *s = &d->side[side];
	struct keys keys = { .len = 0 };
	int err;

	s->path = path;
	model_init(&s->m);
	s->m.member_fn = keep_key;
	s->m.member_arg = &keys;
	err = model_add_file(&s->m, path, problem);
	if (!err) {
		read_facts(d, s, &keys);
		model_finish(&s->m);
		d->no_memory |= s->m.no_memory;
		problem->has_offset = false;
		err = d->no_memory ? -ENOMEM : find_steps(d, s, problem);
		if (err == -ENOMEM)
			snprintf(problem->text, sizeof(problem->text),
				 "out of memory");
	}
	free(keys.text);
	return err;
}

/* ---- Metrics of each step ---- */

static int64_t *new_values(struct diff *d, const struct diff_side *s)
{
	int64_t *value = calloc(s->steps.nr, sizeof(*value));

	d->no_memory |= !value;
	return value;
}

/* GPU time of the work that each step launched, a union over the streams of a
 * device, summed over devices.  until[] is of the device in whose work the step
 * was seen last: work is sorted by device. */
struct until {
	int64_t end;
	uint32_t device;
};

static void add_busy(const struct diff_side *s, int64_t *busy,
		     struct until *until)
{
	const struct model *m = &s->m;

	for (size_t i = 0; i < m->nr_work; i++) {
		const struct model_work *w = &m->work[i];
		uint32_t step = steps_of_work(&s->steps, m, w);
		int64_t from = w->start;
		struct until *u;

		if (step == MODEL_NONE)
			continue;
		u = &until[step];
		if (u->device == w->device + 1u && u->end > from)
			from = u->end;
		if (w->end <= from)
			continue;
		model_sum(&busy[step], w->end - from);
		*u = (struct until){ w->end, w->device + 1u };
	}
}

/*
 * Busy time by the clock.  With the starts s and the ends e of all stretches
 * in which a device works, the busy time of all devices up to a moment t is
 *
 *      sum of (t - s) for s < t  -  sum of (t - e) for e < t
 *
 * and that of a step the difference of two such moments.
 */
struct stretches {
	int64_t *start, *end;           /* each sorted */
	size_t nr, at_start, at_end;    /* how many lie before the moment */
	__int128 sum;                   /* of those starts - of those ends */
};

static bool find_stretches(const struct diff_side *s, struct stretches *out)
{
	const struct model_work *w = s->m.work;
	int64_t until = INT64_MIN;

	out->start = big_alloc((s->m.nr_work + 1) * sizeof(*out->start));
	out->end = big_alloc((s->m.nr_work + 1) * sizeof(*out->end));
	if (!out->start || !out->end)
		return false;
	for (size_t i = 0; i < s->m.nr_work; i++) {
		if (i && w[i].device != w[i - 1].device)
			until = INT64_MIN;
		if (w[i].end <= until || w[i].end <= w[i].start)
			continue;
		out->start[out->nr] = w[i].start > until ? w[i].start : until;
		out->end[out->nr++] = until = w[i].end;
	}
	if (out->nr) {
		qsort(out->start, out->nr, sizeof(int64_t), stats_order);
		qsort(out->end, out->nr, sizeof(int64_t), stats_order);
	}
	return true;
}

/* Moments must not go back. */
static __int128 busy_up_to(struct stretches *s, int64_t moment)
{
	while (s->at_start < s->nr && s->start[s->at_start] < moment)
		s->sum += s->start[s->at_start++];
	while (s->at_end < s->nr && s->end[s->at_end] < moment)
		s->sum -= s->end[s->at_end++];
	return (__int128)moment * (s->at_start - s->at_end) - s->sum;
}

static bool find_idle(const struct diff_side *s, int64_t *idle)
{
	struct stretches busy = { .nr = 0 };
	bool found = find_stretches(s, &busy);

	for (size_t i = 0; found && i < s->steps.nr; i++) {
		const struct step *step = &s->steps.step[i];
		__int128 before = busy_up_to(&busy, step->start), all;

		all = (__int128)(step->end - step->start) * s->m.nr_devices -
			(busy_up_to(&busy, step->end) - before);
		idle[i] = all > INT64_MAX ? INT64_MAX : (int64_t)all;
	}
	big_free(busy.start);
	big_free(busy.end);
	return found;
}

static void side_metrics(struct diff *d, enum diff_sides side)
{
	const struct diff_side *s = &d->side[side];
	struct until *until = calloc(s->steps.nr, sizeof(*until));

	for (int i = 0; i < DIFF_METRICS; i++)
		d->metric[i].value[side] = new_values(d, s);
	d->no_memory |= !until;
	if (!d->no_memory) {
		for (size_t i = 0; i < s->steps.nr; i++)
			d->metric[DIFF_STEP].value[side][i] =
				s->steps.step[i].end - s->steps.step[i].start;
		add_busy(s, d->metric[DIFF_BUSY].value[side], until);
		d->no_memory |= !find_idle(s, d->metric[DIFF_IDLE].value[side]);
	}
	free(until);
}

void diff_metrics(struct diff *d)
{
	side_metrics(d, DIFF_A);
	side_metrics(d, DIFF_B);
}
