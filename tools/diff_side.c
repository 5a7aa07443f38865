/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"

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
 * device, summed over devices. */
static void add_busy(const struct diff_side *s, int64_t *busy, int64_t *until)
{
	const struct model *m = &s->m;

	for (size_t i = 0; i < m->nr_work; i++) {
		const struct model_work *w = &m->work[i];
		uint32_t step = steps_of_work(&s->steps, m, w);
		int64_t from;

		if (!i || w->device != w[-1].device)
			for (size_t k = 0; k < s->steps.nr; k++)
				until[k] = INT64_MIN;
		if (step == MODEL_NONE)
			continue;
		from = w->start > until[step] ? w->start : until[step];
		if (w->end <= from)
			continue;
		busy[step] += w->end - from;
		until[step] = w->end;
	}
}

/* Takes the time in which a device works off the steps' idle time; steps are in
 * order and do not overlap, so `at` only moves forward. */
static void take_off(const struct steps *s, size_t *at, int64_t start,
		     int64_t end, int64_t *idle)
{
	while (*at < s->nr && s->step[*at].end <= start)
		++*at;
	for (size_t i = *at; i < s->nr && s->step[i].start < end; i++) {
		int64_t from = s->step[i].start, to = s->step[i].end;

		from = start > from ? start : from;
		to = end < to ? end : to;
		idle[i] -= to > from ? to - from : 0;
	}
}

static void take_off_device(const struct diff_side *s,
			    const struct model_device *device, int64_t *idle)
{
	const struct model_work *w = &s->m.work[device->first];
	int64_t until = INT64_MIN;
	size_t at = 0;

	for (size_t i = 0; i < s->steps.nr; i++)
		idle[i] += s->steps.step[i].end - s->steps.step[i].start;
	for (size_t i = 0; i < device->nr; i++) {
		int64_t start = w[i].start > until ? w[i].start : until;

		if (w[i].end <= start)
			continue;
		take_off(&s->steps, &at, start, w[i].end, idle);
		until = w[i].end;
	}
}

static void side_metrics(struct diff *d, enum diff_sides side)
{
	const struct diff_side *s = &d->side[side];
	int64_t *until = new_values(d, s);

	for (int i = 0; i < DIFF_METRICS; i++)
		d->metric[i].value[side] = new_values(d, s);
	if (!d->no_memory) {
		for (size_t i = 0; i < s->steps.nr; i++)
			d->metric[DIFF_STEP].value[side][i] =
				s->steps.step[i].end - s->steps.step[i].start;
		add_busy(s, d->metric[DIFF_BUSY].value[side], until);
		for (size_t i = 0; i < s->m.nr_devices; i++)
			take_off_device(s, &s->m.device[i],
					d->metric[DIFF_IDLE].value[side]);
	}
	free(until);
}

void diff_metrics(struct diff *d)
{
	side_metrics(d, DIFF_A);
	side_metrics(d, DIFF_B);
}
