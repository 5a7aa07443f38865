/* SPDX-License-Identifier: MIT */
#include "tools/report_osrt.h"

#include "tools/big.h"
#include "tools/report.h"

/* Their row is beside that of the thread, which they name. */
void report_osrt_add(struct report *r, const struct trace_event *ev,
		     uint32_t name, int64_t start, int64_t end)
{
	const struct json_value *thread = trace_arg(ev, ARG_THREAD);
	uint32_t lane = report_event_lane(r, ev, thread->type == JSON_NUMBER ?
					  thread : trace_field(ev, EV_TID));

	if (lane == UINT32_MAX ||
	    !BIG_ROOM(r->osrt.call, r->osrt.nr, r->osrt.cap)) {
		r->no_memory = true;
		return;
	}
	r->osrt.call[r->osrt.nr++] = (struct range){
		.start = start, .end = end, .name = name, .lane = lane,
	};
}
