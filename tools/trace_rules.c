/* SPDX-License-Identifier: MIT */
#include "tools/trace_rules.h"

#include <errno.h>
#include <stdio.h>

#include "tools/jsonval.h"

bool trace_slice_times(const struct trace_event *ev, int64_t *ts,
		       int64_t *dur)
{
	return trace_time(ev, EV_TS, ts) && trace_time(ev, EV_DUR, dur) &&
		*ts <= TRACE_TS_MAX && *dur <= TRACE_SPAN_MAX;
}

int64_t trace_shift(struct trace_base *base, const struct trace *t)
{
	int64_t own, shift;

	if (!jsonval_int(trace_header(t, HEADER_BASE), &own) || own < 0)
		return 0;
	if (!base->is_known)
		*base = (struct trace_base){ true, own };
	shift = own - base->ns;
	return shift <= TRACE_SPAN_MAX && shift >= -TRACE_SPAN_MAX ? shift : 0;
}

int trace_need_events(const struct trace *t, struct trace_problem *problem)
{
	if (trace_shape(t)->has_events)
		return 0;
	problem->has_offset = true;
	problem->offset = trace_shape(t)->size;
	snprintf(problem->text, sizeof(problem->text),
		 "the end, and no traceEvents: this is no trace");
	return -EBADMSG;
}
