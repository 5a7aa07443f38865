/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diagnose.h"

/*
 * sync and copies: calls in which a thread waits.
 *
 * A wait does harm if it drains the GPU: when it returns, nothing that was
 * launched before is still to be done, and the GPU idles until the thread has
 * launched again.  A program that runs ahead and only waits for an earlier
 * step does not drain it.
 */
enum { TOP_CALLS = 3 };

struct site {           /* calls of a name in a range of a thread, by line */
	uint32_t name, lane, range_name, line;
	int64_t nr, wait;
	int64_t useful;         /* of the wait: until the GPU was done */
	uint32_t longest[TOP_CALLS];    /* calls; MODEL_NONE: no more */
};

struct sites {
	struct site *site;
	size_t nr, cap;
	struct pairs places;
};

static bool is_wait(const struct model_call *c)
{
	return c->kind == CALL_SYNC || c->kind == CALL_ALLOCATE ||
		(c->kind == CALL_COPY && c->end - c->start >= 20000);
}

/* The first work of the device that starts at or after a time. */
static size_t work_at(const struct subject *d, int64_t at)
{
	const struct model_device *device = &d->m->device[d->device];
	size_t lo = device->first, hi = lo + device->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->m->work[mid].start < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Is nothing left to do on the GPU when the call returns?  What starts next
 * was then launched later.  Returns when it starts, or 0. */
static int64_t drained_until(const struct subject *d,
			     const struct model_call *c)
{
	const struct model_device *device = &d->m->device[d->device];
	const struct model *m = d->m;
	size_t i = work_at(d, c->end), end = device->first + device->nr;

	if (i > device->first && m->work[i - 1].end > c->end)
		return 0;
	if (i == end)
		return c->end;
	if (m->work[i].call == MODEL_NONE)
		return 0;
	return m->call[m->work[i].call].start >= c->end ? m->work[i].start : 0;
}

/* How long a draining call really waited for the GPU.  Behind that it wakes
 * up, which takes some us, or the thread has lost its CPU: no saving. */
static int64_t useful_wait(const struct subject *d, const struct model_call *c)
{
	enum { STREAMS = 8 };
	const int64_t wake_up = 50000;
	const struct model_device *device = &d->m->device[d->device];
	int64_t done = c->start, end = c->end;
	size_t i = work_at(d, c->end);

	for (int n = 0; n < STREAMS && i-- > device->first; n++)
		if (d->m->work[i].end > done)
			done = d->m->work[i].end;
	return (done + wake_up < end ? done + wake_up : end) - c->start;
}

static void keep_longest(const struct model *m, struct site *s, uint32_t call)
{
	int64_t ns = m->call[call].end - m->call[call].start;
	int i = TOP_CALLS;

	while (i > 0 && (s->longest[i - 1] == MODEL_NONE ||
	       ns > m->call[s->longest[i - 1]].end -
		    m->call[s->longest[i - 1]].start))
		i--;
	if (i == TOP_CALLS)
		return;
	for (int k = TOP_CALLS - 1; k > i; k--)
		s->longest[k] = s->longest[k - 1];
	s->longest[i] = call;
}

static struct site *site_of(struct subject *d, struct sites *s,
			    const struct model_call *c)
{
	uint32_t range = model_range_at(d->m, c->lane, c->start, true), place;
	uint32_t name = range == MODEL_NONE ? MODEL_NONE :
		d->m->range[range].name;
	bool is_new;

	place = pairs_put(&s->places, (uint64_t)c->name << 32 | name,
			  (uint64_t)c->line << 32 | c->lane, s->nr, &is_new);
	if (place == MODEL_NONE || !VEC_ROOM(s->site, s->nr, s->cap)) {
		d->no_memory = true;
		return NULL;
	}
	if (is_new)
		s->site[s->nr++] = (struct site){
			.name = c->name, .lane = c->lane, .range_name = name,
			.line = c->line,
			.longest = { MODEL_NONE, MODEL_NONE, MODEL_NONE },
		};
	return &s->site[place];
}

/* The place whose draining waits are longest in sum, of those that are in at
 * least every second step; false if there is none. */
static bool find_site(struct subject *d, struct site *worst)
{
	const struct model *m = d->m;
	struct sites s = { 0 };

	*worst = (struct site){ .line = MODEL_NONE };
	for (size_t i = 0; i < m->nr_calls && !d->no_memory; i++) {
		const struct model_call *c = &m->call[i];
		struct site *site;

		if (c->file != d->steps->file || c->start < d->start ||
		    c->end > d->end || !is_wait(c) || !drained_until(d, c))
			continue;
		site = site_of(d, &s, c);
		if (!site)
			break;
		site->nr++;
		model_sum(&site->wait, c->end - c->start);
		model_sum(&site->useful, useful_wait(d, c));
		keep_longest(m, site, i);
	}
	for (size_t i = 0; i < s.nr; i++)
		if (s.site[i].wait > worst->wait &&
		    s.site[i].nr >= (int64_t)d->steps->nr / 2)
			*worst = s.site[i];
	free(s.site);
	pairs_fini(&s.places);
	return worst->wait > 0;
}

/* "sample < step < main": the innermost frames of the longest call. */
static void say_stack(const struct subject *d, struct found *f,
		      const struct model_call *c)
{
	enum { FRAMES = 8 };
	const char *stack = model_stack(d->m, c), *at = stack;
	char text[1024];
	size_t len = 0, n;

	for (int i = 0; i < FRAMES && *at; i++, at += n + (at[n] == '\n')) {
		n = strcspn(at, "\n");
		if (len + n + 4 > sizeof(text))
			break;
		len += snprintf(text + len, sizeof(text) - len, "%s%.*s",
				len ? " < " : "", (int)n, at);
	}
	if (len)
		found_say(f, "the longest one's stack: %s%s", text,
			  *at ? " < ..." : "");
	found_text(f, "stack", stack);
}

/* The line of the program, and the framework's operator, that led to it. */
static void say_origin(const struct subject *d, struct found *f,
		       const struct site *s)
{
	const struct model_call *c = &d->m->call[s->longest[0]];
	uint32_t op = model_op_at(d->m, s->lane, c->start);
	const char *line = s->line == MODEL_NONE ? "" :
		model_name(d->m, s->line);
	const char *name = op == MODEL_NONE ? "" :
		model_name(d->m, d->m->range[op].name);

	if (*line && *name)
		found_say(f, "it comes from %s, by the operator %s", line,
			  name);
	else if (*line)
		found_say(f, "it comes from %s", line);
	else if (*name)
		found_say(f, "it comes from the operator %s", name);
	say_stack(d, f, c);
	found_text(f, "line", line);
	found_text(f, "operator", name);
}

static void say_site(const struct subject *d, struct found *f,
		     const struct site *s)
{
	const struct model_call *c = &d->m->call[s->longest[0]];
	struct range_path path = subject_path(d, s->lane, c->start);

	found_say(f, "%s waits in %s%s%s: %lld times, %s on average, %s at "
		  "most", subject_thread(d, s->lane).text,
		  model_name(d->m, s->name), path.text[0] ? " in " : "",
		  path.text, (long long)s->nr, ns_text(s->wait / s->nr).text,
		  ns_text(c->end - c->start).text);
	say_origin(d, f, s);
	found_number(f, "count", s->nr);
	found_number(f, "wait_ns", s->wait);
	found_number(f, "until_done_ns", s->useful);
	found_number(f, "max_ns", c->end - c->start);
	found_text(f, "call", model_name(d->m, s->name));
	found_text(f, "range", s->range_name == MODEL_NONE ? "" :
		   model_name(d->m, s->range_name));
	found_text(f, "path", path.text);
	found_text(f, "thread", subject_thread(d, s->lane).text);
	for (int i = 0; i < TOP_CALLS && s->longest[i] != MODEL_NONE; i++) {
		c = &d->m->call[s->longest[i]];
		found_place(f, d, c->start, c->end, "%s, then the GPU idles "
			    "%s", model_name(d->m, c->name),
			    ns_text(drained_until(d, c) - c->end).text);
	}
}

/* Without the wait a step takes as long as the GPU needs, or the thread
 * without its waiting, whichever is longer. */
void find_sync(struct subject *d, struct found *f)
{
	int64_t slack = subject_window(d) - d->busy - d->idle[CAUSE_QUEUED];
	struct range_path path;
	struct site s;
	int64_t saving;

	if (!find_site(d, &s) || subject_share(d, s.wait) < d->limits->sync)
		return;
	saving = s.useful < slack ? s.useful : slack > 0 ? slack : 0;
	path = subject_path(d, s.lane, d->m->call[s.longest[0]].start);
	found_title(f, found_severity(d, saving), "a synchronisation%s%s%s%s%s"
		    ": the thread waits %s%s (%s), and the GPU runs dry",
		    path.text[0] ? " inside '" : "", path.text,
		    path.text[0] ? "'" : "",
		    s.line == MODEL_NONE ? "" : ", from ",
		    s.line == MODEL_NONE ? "" : model_name(d->m, s.line),
		    ns_text(subject_a_step(d, s.wait)).text, subject_per(d),
		    share_text(subject_share(d, s.wait)).text);
	say_site(d, f, &s);
	found_say(f, "the GPU then waits %s%s for the next launch",
		  ns_text(subject_a_step(d, d->idle[CAUSE_SYNC])).text,
		  subject_per(d));
	found_number(f, "gpu_idle_ns", d->idle[CAUSE_SYNC]);
	found_advise(f, "keep the value on the GPU, or read it one step later "
		     "(.item(), .cpu(), print() and if on a tensor wait; a "
		     "copy to pinned memory with non_blocking=True and an "
		     "event does not)");
	if (s.line == MODEL_NONE)
		found_advise(f, "a trace recorded with --trace cuda,nvtx,"
			     "stacks names the line");
	found_saves(f, saving, "the thread goes on instead of waiting; a step "
		    "is then as long as its other CPU time, at least the "
		    "GPU's %s", ns_text(subject_a_step(d, d->busy)).text);
}

/* Copies of the loop that hold up the thread: synchronous ones, and those
 * from or to pageable memory, which is staged by the CPU. */
struct copies {
	int64_t pageable, blocking, bytes, gpu_ns, call_ns;
	uint32_t longest;       /* work */
};

static bool is_slow_copy(const struct model *m, const struct model_work *w)
{
	if (w->kind > WORK_COPY_OTHER || w->kind == WORK_KERNEL)
		return false;
	return w->flags & WORK_PAGEABLE || (w->call != MODEL_NONE &&
		m->call[w->call].flags & CALL_BLOCKING);
}

static struct copies count_copies(const struct subject *d)
{
	const struct model *m = d->m;
	const struct model_device *device = &m->device[d->device];
	struct copies n = { .longest = MODEL_NONE };

	for (size_t i = device->first; i < device->first + device->nr; i++) {
		const struct model_work *w = &m->work[i];

		if (w->start < d->start || w->end > d->end ||
		    !is_slow_copy(m, w))
			continue;
		n.pageable += !!(w->flags & WORK_PAGEABLE);
		model_sum(&n.bytes, w->bytes);
		model_sum(&n.gpu_ns, w->end - w->start);
		if (w->call != MODEL_NONE) {
			const struct model_call *c = &m->call[w->call];

			n.blocking += c->flags & CALL_BLOCKING;
			model_sum(&n.call_ns, c->end - c->start);
		}
		if (n.longest == MODEL_NONE || w->end - w->start >
		    m->work[n.longest].end - m->work[n.longest].start)
			n.longest = i;
	}
	return n;
}

void find_copies(struct subject *d, struct found *f)
{
	const struct model_work *w;
	struct copies n = count_copies(d);
	int64_t cost = n.call_ns > n.gpu_ns ? n.call_ns : n.gpu_ns;
	int64_t idle = d->idle[CAUSE_COPY];

	if (n.longest == MODEL_NONE ||
	    subject_share(d, cost) < d->limits->copy)
		return;
	w = &d->m->work[n.longest];
	found_title(f, found_severity(d, idle), "copies that hold up the "
		    "loop: %lld from or to pageable memory, %lld "
		    "synchronous, %s%s in their calls",
		    (long long)n.pageable, (long long)n.blocking,
		    ns_text(subject_a_step(d, n.call_ns)).text,
		    subject_per(d));
	found_say(f, "%.3f MB%s; the GPU copies %s, and idles %s because of "
		  "them", subject_a_step(d, n.bytes) / 1e6, subject_per(d),
		  ns_text(subject_a_step(d, n.gpu_ns)).text,
		  ns_text(subject_a_step(d, idle)).text);
	found_number(f, "pageable", n.pageable);
	found_number(f, "blocking", n.blocking);
	found_number(f, "bytes", n.bytes);
	found_number(f, "gpu_ns", n.gpu_ns);
	found_number(f, "call_ns", n.call_ns);
	found_number(f, "gpu_idle_ns", idle);
	found_place(f, d, w->start, w->end, "%s, the longest",
		    model_name(d->m, w->name));
	found_advise(f, "copy from pinned memory (pin_memory=True, "
		     "non_blocking=True; cudaMallocHost, cudaMemcpyAsync), "
		     "on a stream of its own, a step ahead");
	found_saves(f, idle, "the time that the GPU idles in these calls; "
		    "that pinned copies are faster is not counted");
}
