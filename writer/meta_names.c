/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "writer/meta.h"

/*
 * Metadata events: the names of processes and lanes, and their order:
 *
 *   the program     its threads, busiest first; then start/end ranges,
 *                   overhead, our own work
 *   GPU 0, 1 ...    streams by context and number: ranges, work, waits
 *   counters        last
 */
enum {
	SORT_COUNTERS = 1 << 30,
};

static void begin(struct bytes *out, const char *kind, uint32_t pid,
		  uint32_t tid)
{
	json_next_event(out);
	json_open(out, '{');
	json_member_text(out, "ph", "M");
	json_member_text(out, "name", kind);
	json_member_u64(out, "pid", pid);
	json_member_u64(out, "tid", tid);
	json_key(out, "args");
	json_open(out, '{');
}

static void end(struct bytes *out)
{
	json_close(out, '}');
	json_close(out, '}');
}

static void add_name(struct bytes *out, const char *kind, uint32_t pid,
		     uint32_t tid, const struct bytes *name)
{
	begin(out, kind, pid, tid);
	json_key(out, "name");
	json_string(out, name->data, name->len);
	end(out);
}

static void add_index(struct bytes *out, const char *kind, uint32_t pid,
		      uint32_t tid, uint32_t index)
{
	begin(out, kind, pid, tid);
	json_member_u64(out, "sort_index", index);
	end(out);
}

static void say(struct bytes *text, const char *what)
{
	bytes_add(text, what, strlen(what));
}

static void say_number(struct bytes *text, const char *format, long number)
{
	char buffer[64];

	snprintf(buffer, sizeof(buffer), format, number);
	say(text, buffer);
}

static void add_process(struct trace *trace, struct bytes *out, uint32_t pid,
			uint32_t index)
{
	add_name(out, "process_name", pid, pid, &trace->scratch);
	add_index(out, "process_sort_index", pid, pid, index);
}

/* "python3 (rank 1)"; "GPU 0 NVIDIA H200" */
static void name_own(struct trace *trace)
{
	struct bytes *text = &trace->scratch;

	bytes_clear(text);
	say(text, trace->program);
	if (trace->options.world_size > 1)
		say_number(text, " (rank %ld)", (long)trace->options.rank);
}

static void name_gpu(struct trace *trace, uint32_t id)
{
	struct bytes *text = &trace->scratch;
	const struct device *device = objects_device(&trace->objects, id);
	uint32_t i;

	bytes_clear(text);
	say_number(text, "GPU %ld", (long)id);
	if (device && device->name) {
		say(text, " ");
		say(text, device->name);
	}
	for (i = 0; i < trace->objects.nr_devices; i++) {
		const struct known_device *known = &trace->objects.devices[i];

		if (known->device.id == id && known->name.len) {
			say(text, " ");
			bytes_add(text, known->name.text, known->name.len);
		}
	}
}

/* More than one context has lanes on this GPU: say which is meant.  The lanes
 * of a GPU are sorted by context; lanes[0] is its first. */
static bool is_shared(struct lane *const *lanes, uint32_t nr)
{
	uint32_t last = nr;

	while (last && lanes[last - 1]->pid != lanes[0]->pid)
		last--;
	return last && lanes[last - 1]->context != lanes[0]->context;
}

static void name_stream(struct trace *trace, const struct lane *lane,
			bool is_shared)
{
	struct bytes *text = &trace->scratch;
	const struct known_context *context;
	const struct known_stream *stream;

	if (lane->stream == LANE_NO_STREAM) {
		say_number(text, "context %ld", (long)lane->context);
		return;
	}
	if (lane->stream == LANE_OTHER_STREAMS) {
		say(text, "other streams");
		if (is_shared)
			say_number(text, " context %ld", (long)lane->context);
		return;
	}
	context = objects_context(&trace->objects, lane->context);
	stream = objects_stream(&trace->objects, lane->context, lane->stream);
	say_number(text, "stream %ld", (long)lane->stream);
	if (context && context->has_null_stream &&
	    context->null_stream == lane->stream)
		say(text, " (default)");
	if (stream && stream->name.len) {
		say(text, " ");
		bytes_add(text, stream->name.text, stream->name.len);
	}
	if (stream && stream->has_priority && stream->priority)
		say_number(text, " (priority %ld)",
			   (long)(int32_t)stream->priority);
	if (is_shared)
		say_number(text, " context %ld", (long)lane->context);
}

static void name_lane(struct trace *trace, const struct lane *lane,
		      bool is_shared)
{
	static const char *const own[] = {
		[ROLE_RANGES] = " ranges",
		[ROLE_WORK] = "",
		[ROLE_SYNC] = " sync",
		[ROLE_THREAD] = "",
		[ROLE_OSRT] = " osrt",
		[ROLE_STATE] = " state",
		[ROLE_STACK] = " stacks",
		[ROLE_PROCESS] = "process",
		[ROLE_STARTED] = "start/end ranges",
		[ROLE_STARTED_OPEN] = "start/end ranges (open)",
		[ROLE_OVERHEAD] = "overhead",
		[ROLE_OWN] = "gputrace-writer",
		[ROLE_PAUSE] = "not recorded",
	};
	struct bytes *text = &trace->scratch;

	bytes_clear(text);
	if (lane->pid != trace->pid)
		name_stream(trace, lane, is_shared);
	else if (lane->thread)
		bytes_add(text, lane->thread->name, lane->thread->name_len);
	if (lane->is_shared)
		say(text, " and later threads");
	say(text, own[lane->role]);
	if (lane->number > 1)
		say_number(text, " #%ld", (long)lane->number);
}

/* Lanes in the order in which they shall stand. */
static uint64_t busy(const struct lane *lane)
{
	return lane->thread ? lane->thread->lane->nr_events : 0;
}

#define ORDER(a, b) do { \
	if ((a) != (b)) \
		return (a) < (b) ? -1 : 1; \
} while (0)

static int compare(const void *a, const void *b)
{
	const struct lane *x = *(struct lane *const *)a;
	const struct lane *y = *(struct lane *const *)b;

	ORDER(x->pid, y->pid);
	ORDER(!x->thread, !y->thread);
	ORDER(busy(y), busy(x));
	ORDER(x->thread ? x->thread->tid : 0, y->thread ? y->thread->tid : 0);
	ORDER(x->context, y->context);
	/* What belongs to the context alone comes first: +1 makes it 0. */
	ORDER(x->stream + 1, y->stream + 1);
	ORDER(x->role, y->role);
	ORDER(x->number, y->number);
	return 0;
}

static void add_lanes(struct trace *trace, struct bytes *out,
		      struct lane **lanes, uint32_t nr)
{
	uint32_t i, pid = 0;
	bool shared = false;

	for (i = 0; i < nr; i++) {
		const struct lane *lane = lanes[i];

		if (lane->pid != pid && lane->pid != trace->pid) {
			name_gpu(trace, lane->device);
			add_process(trace, out, lane->pid, lane->pid);
			shared = is_shared(lanes + i, nr - i);
		}
		pid = lane->pid;
		name_lane(trace, lane, shared);
		add_name(out, "thread_name", pid, lane->tid, &trace->scratch);
		add_index(out, "thread_sort_index", pid, lane->tid, i + 1);
	}
}

static void add_counters(struct trace *trace, struct bytes *out)
{
	uint32_t i;

	for (i = 0; i < 256; i++) {
		if (!trace->has_counters[i])
			continue;
		if (i < 255)
			name_gpu(trace, i);
		else
			name_own(trace);
		say(&trace->scratch, " counters");
		add_process(trace, out, i < 255 ? TRACK_GPU_COUNTERS_PID + i :
			    TRACK_COUNTERS_PID, SORT_COUNTERS + i);
	}
}

void meta_names(struct trace *trace, struct bytes *out)
{
	struct lane **lanes = malloc((trace->tracks.nr_lanes + 1) *
				     sizeof(*lanes));
	/* In the recorder, or forgotten: that is not known of lanes. */
	bool is_dump = trace->file->kind == FILE_DUMP;
	struct lane *lane;
	uint32_t nr = 0;

	if (!lanes) {
		out->is_cut = true;
		return;
	}
	for (lane = trace->tracks.lanes; lane; lane = lane->next)
		if (lane->nr_events > (is_dump ? 0 : lane->nr_elsewhere))
			lanes[nr++] = lane;
	qsort(lanes, nr, sizeof(*lanes), compare);
	cpu_threads_refresh(&trace->threads);
	name_own(trace);
	add_process(trace, out, trace->pid, 0);
	add_lanes(trace, out, lanes, nr);
	add_counters(trace, out);
	free(lanes);
}
