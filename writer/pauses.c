/* SPDX-License-Identifier: MIT */
#include "collector/clock.h"
#include "collector/loss.h"
#include "collector/pause.h"
#include "writer/trace.h"

/*
 * Stretches in which another profiler had CUPTI, on a lane of their own: there
 * the GPU's rows are empty though the GPU was not.  Correlation: writer.c.
 */
static void encode_pause(struct trace *trace, const struct pause *pause,
			 uint64_t end_ns)
{
	static const char name[] = "another profiler has CUPTI";
	struct lane *lane = track_own(&trace->tracks, ROLE_PAUSE);
	uint64_t start_ns = pause->begin_ns;

	if (!lane)
		return;
	if (start_ns < trace->base_ns)
		start_ns = trace->base_ns;
	if (end_ns < start_ns)
		return;
	event_begin(trace, "overhead", name, sizeof(name) - 1, lane, start_ns,
		    end_ns);
	json_member_u64(&trace->out, "correlation", UINT32_MAX);
	event_end(trace);
}

void pauses_write(struct trace *trace, bool is_end)
{
	uint32_t nr = pause_count();
	struct pause pause;

	/* More than are kept, since the last look. */
	if (nr - trace->nr_pauses > PAUSES_KEPT) {
		loss_add(LOSS_TABLE_FULL, nr - trace->nr_pauses - PAUSES_KEPT);
		trace->nr_pauses = nr - PAUSES_KEPT;
	}
	while (pause_get(trace->nr_pauses + 1, &pause)) {
		if (pause.end_ns == UINT64_MAX && !is_end)
			return;
		if (pause.end_ns == UINT64_MAX)
			pause.end_ns = clock_now_ns();
		encode_pause(trace, &pause, pause.end_ns);
		trace->nr_pauses++;
	}
}
