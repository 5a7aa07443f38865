/* SPDX-License-Identifier: MIT */
#include "collector/loss.h"
#include "writer/output.h"
#include "writer/trace.h"

bool event_times(const struct trace *trace, uint64_t start_ns, uint64_t end_ns)
{
	enum loss cause;

	if (start_ns >= trace->base_ns && end_ns >= start_ns &&
	    end_ns <= trace->last_ns)
		return true;
	if (!start_ns || !end_ns)
		cause = LOSS_NO_TIME;
	else if (end_ns > trace->last_ns)
		cause = LOSS_FUTURE;
	else if (end_ns < start_ns)
		cause = LOSS_REVERSED;
	else
		cause = LOSS_BEFORE_BASE;
	loss_add(cause, 1);
	return false;
}

/* Behind its kind: what it is called, where and when it begins. */
static void begin(struct trace *trace, const char *cat, const char *name,
		  size_t name_len, struct lane *lane, uint64_t start_ns)
{
	struct bytes *out = &trace->out;

	json_member_text(out, "cat", cat);
	json_key(out, "name");
	/* Readers drop slices without a name. */
	json_string(out, name_len ? name : "(no name)", name_len ? name_len : 9);
	json_comma(out);
	bytes_add(out, lane->where, lane->where_len);
	json_key(out, "ts");
	json_us(out, start_ns - trace->base_ns);
	lane->nr_events++;
}

static void begin_args(struct trace *trace, uint64_t end_ns)
{
	json_key(&trace->out, "args");
	json_open(&trace->out, '{');
	event_ends(trace, end_ns);
}

void event_begin(struct trace *trace, const char *cat, const char *name,
		 size_t name_len, struct lane *lane, uint64_t start_ns,
		 uint64_t end_ns)
{
	struct bytes *out = &trace->out;

	json_next_event(out);
	json_open(out, '{');
	json_member_text(out, "ph", "X");
	begin(trace, cat, name, name_len, lane, start_ns);
	json_key(out, "dur");
	json_us(out, end_ns - start_ns);
	begin_args(trace, end_ns);
}

void event_end(struct trace *trace)
{
	json_close(&trace->out, '}');
	json_close(&trace->out, '}');
	trace->nr_events++;
}

void event_instant_begin(struct trace *trace, const char *name,
			 size_t name_len, struct lane *lane, uint64_t t_ns)
{
	struct bytes *out = &trace->out;

	json_next_event(out);
	json_open(out, '{');
	json_member_text(out, "ph", "i");
	json_member_text(out, "s", "t");
	begin(trace, "cpu_instant_event", name, name_len, lane, t_ns);
	begin_args(trace, t_ns);
}

void event_counter_begin(struct trace *trace, uint32_t pid, const char *name,
			 uint64_t t_ns)
{
	struct bytes *out = &trace->out;
	uint32_t device = pid - TRACK_GPU_COUNTERS_PID;

	trace->has_counters[device < 255 ? device : 255] = 1;
	event_ends(trace, t_ns);
	json_next_event(out);
	json_open(out, '{');
	json_member_text(out, "ph", "C");
	json_member_text(out, "name", name);
	json_member_u64(out, "pid", pid);
	json_key(out, "ts");
	json_us(out, t_ns - trace->base_ns);
	json_key(out, "args");
	json_open(out, '{');
}

void event_counter(struct trace *trace, uint32_t pid, const char *name,
		   uint64_t t_ns, const char *key, uint64_t value)
{
	event_counter_begin(trace, pid, name, t_ns);
	json_member_u64(&trace->out, key, value);
	event_end(trace);
}

/* The older half. */
static void forget_windows(struct trace *trace)
{
	uint32_t gone = trace->nr_windows / 2;

	trace->forgotten_ns = trace->windows[gone - 1].close_ns;
	trace->nr_windows -= gone;
	memmove(trace->windows, trace->windows + gone,
		trace->nr_windows * sizeof(*trace->windows));
}

void windows_refresh(struct trace *trace)
{
	struct window *window;
	uint32_t last;

	trace->epoch_seen = window_epoch();
	last = (trace->epoch_seen + 1) / 2;

	/* The latest known one may have closed since. */
	if (trace->nr_windows && trace->windows_seen)
		(void)window_get(trace->windows_seen,
				 &trace->windows[trace->nr_windows - 1]);
	while (trace->windows_seen < last) {
		if (trace->nr_windows == WINDOWS_KEPT)
			forget_windows(trace);
		window = &trace->windows[trace->nr_windows];
		if (window_get(++trace->windows_seen, window))
			trace->nr_windows++;
		output_window_opened(trace, trace->windows_seen);
	}
}

const struct window *windows_find(const struct trace *trace, uint64_t t_ns)
{
	uint32_t from = 0, to = trace->nr_windows, middle;

	/* The last that opened by then; most ask for the newest. */
	if (to && trace->windows[to - 1].open_ns <= t_ns)
		return &trace->windows[to - 1];
	while (from < to) {
		middle = from + (to - from) / 2;
		if (trace->windows[middle].open_ns <= t_ns)
			from = middle + 1;
		else
			to = middle;
	}
	return from ? &trace->windows[from - 1] : NULL;
}

bool windows_hold(const struct trace *trace, uint64_t t_ns)
{
	const struct window *window = windows_find(trace, t_ns);

	if (!window && t_ns <= trace->forgotten_ns)
		loss_add(LOSS_TABLE_FULL, 1);
	return window && t_ns <= window->close_ns;
}
