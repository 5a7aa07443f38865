/* SPDX-License-Identifier: MIT */
#include "tools/steps.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool steps_is_name(const char *name, const char *base)
{
	size_t len = strlen(base);

	if (strncmp(name, base, len))
		return false;
	name += len;
	if (*name && strchr(" _#:-", *name) && isdigit((unsigned char)name[1]))
		name++;
	while (isdigit((unsigned char)*name))
		name++;
	return !*name;
}

/* Of the lanes of the file that have such a range: that with most launches. */
static uint32_t find_lane(const struct model *m, uint32_t file,
			  const char *base)
{
	uint32_t best = MODEL_NONE;

	for (uint32_t i = 0; i < m->nr_lanes; i++) {
		const struct model_lane *l = &m->lane[i];
		size_t r = l->first_range, end = r + l->nr_ranges;

		if (l->file != file || (best != MODEL_NONE &&
		    l->nr_launches <= m->lane[best].nr_launches))
			continue;
		while (r < end && !steps_is_name(model_name(m,
				m->range[r].name), base))
			r++;
		if (r < end)
			best = i;
	}
	return best;
}

static int add_step(struct steps *s, size_t *cap, int64_t start, int64_t end)
{
	if (!VEC_ROOM(s->step, s->nr, *cap))
		return -ENOMEM;
	if (s->nr)
		s->step[s->nr - 1].end = start;
	s->step[s->nr++] = (struct step){ start, end };
	return 0;
}

static int from_ranges(const struct model *m, const char *base,
		       enum steps_source source, struct steps *s)
{
	uint32_t lane = find_lane(m, s->file, base);
	const struct model_lane *l;
	int64_t until = INT64_MIN;
	size_t cap = 0;

	if (lane == MODEL_NONE)
		return 0;
	l = &m->lane[lane];
	for (size_t i = l->first_range; i < l->first_range + l->nr_ranges;
	     i++) {
		const struct model_range *r = &m->range[i];

		if (r->start < until || r->is_op ||
		    !steps_is_name(model_name(m, r->name), base))
			continue;
		until = r->end;
		if (!s->nr)
			s->name = r->name;
		if (add_step(s, &cap, r->start, r->end))
			return -ENOMEM;
	}
	if (s->nr)
		s->source = source;
	s->lane = lane;
	return 0;
}

static void find_window(const struct model *m, struct steps *s)
{
	bool any = s->nr > 0;

	s->window_start = any ? s->step[0].start : INT64_MAX;
	s->window_end = any ? s->step[s->nr - 1].end : INT64_MIN;
	for (size_t i = 0; i < m->nr_work; i++) {
		const struct model_work *w = &m->work[i];

		if (m->device[w->device].file != s->file)
			continue;
		if (!any && w->start < s->window_start)
			s->window_start = w->start;
		if (w->end > s->window_end && (!any ||
		    (s->source != STEPS_KERNELS &&
		     steps_of_work(s, m, w) != MODEL_NONE)))
			s->window_end = w->end;
	}
	if (s->window_start > s->window_end)
		s->window_start = s->window_end = 0;
}

int steps_find(const struct model *m, uint32_t file, const char *name,
	       struct steps *s)
{
	int err = 0;

	*s = (struct steps){
		.file = file, .lane = MODEL_NONE, .name = MODEL_NONE,
		.stream = MODEL_NONE,
	};
	if (name) {
		err = from_ranges(m, name, STEPS_NAMED, s);
	} else {
		err = from_ranges(m, "ProfilerStep", STEPS_PROFILER, s);
		if (!err && !s->nr)
			err = from_ranges(m, "step", STEPS_RANGE, s);
		if (!err && !s->nr)
			err = steps_from_kernels(m, s);
	}
	if (err)
		steps_fini(s);
	else
		find_window(m, s);
	return err;
}

void steps_fini(struct steps *s)
{
	free(s->step);
	s->step = NULL;
	s->nr = 0;
}

uint32_t steps_at(const struct steps *s, int64_t at)
{
	size_t lo = 0, hi = s->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->step[mid].start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && at < s->step[lo - 1].end ? lo - 1 : MODEL_NONE;
}

uint32_t steps_of_work(const struct steps *s, const struct model *m,
		       const struct model_work *w)
{
	if (s->source != STEPS_KERNELS && w->call != MODEL_NONE)
		return steps_at(s, m->call[w->call].start);
	return steps_at(s, w->start);
}
