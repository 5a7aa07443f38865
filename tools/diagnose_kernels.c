/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diagnose.h"
#include "tools/stats.h"

/* serialised, dominant_kernel, tiny_kernels and graphs: the GPU's own time. */

/* The part of a device's work that begins in the window. */
static bool next_work(const struct subject *d, size_t *i)
{
	const struct model_device *device = &d->m->device[d->device];

	for (; *i < device->first + device->nr; ++*i)
		if (d->m->work[*i].start >= d->start &&
		    d->m->work[*i].start < d->end)
			return true;
	return false;
}

/*
 * Two streams that take turns:
 *
 *      stream 7    ======        ======
 *      stream 13         ======
 *
 * counts where the second was launched before the first ended, began at once
 * when it ended, had nothing before it on its own stream, and no wait for an
 * event was put in front of it.  What could have been saved is the shorter
 * of the two.
 */
struct turns {
	int64_t nr, saving, ns, longest_ns;
	size_t longest;
};

static bool waits_for_event(const struct model *m,
			    const struct model_work *w)
{
	enum { BACK = 3 };

	for (uint32_t i = w->call, n = 0; n < BACK && i > 0; n++) {
		const struct model_call *c = &m->call[--i];

		if (c->lane != m->call[w->call].lane || c->nr_work)
			return false;
		if (c->kind == CALL_EVENT)
			return true;
	}
	return false;
}

static bool took_turns(const struct model *m, const struct model_work *a,
		       const struct model_work *b, int64_t before_b)
{
	const int64_t at_once = 5000, early = 5000;

	return a->stream != b->stream && a->call != MODEL_NONE &&
		b->call != MODEL_NONE && !(b->flags & WORK_IN_GRAPH) &&
		b->start >= a->end && b->start - a->end < at_once &&
		before_b <= a->start &&
		m->call[b->call].end + early < a->end &&
		!waits_for_event(m, b);
}

static struct turns count_turns(struct subject *d)
{
	const struct model *m = d->m;
	int64_t *stream_end = calloc(m->nr_streams + 1, sizeof(*stream_end));
	const struct model_work *last = NULL;
	struct turns t = { 0 };

	if (!stream_end) {
		d->no_memory = true;
		return t;
	}
	for (size_t i = m->device[d->device].first; next_work(d, &i); i++) {
		const struct model_work *w = &m->work[i];

		if (last && took_turns(m, last, w, stream_end[w->stream])) {
			int64_t a = last->end - last->start;
			int64_t b = w->end - w->start;

			t.nr++;
			model_sum(&t.saving, a < b ? a : b);
			if (b > t.longest_ns) {
				t.longest_ns = b;
				t.longest = i;
			}
		}
		if (!last || w->end > last->end)
			last = w;
		if (w->end > stream_end[w->stream])
			stream_end[w->stream] = w->end;
	}
	free(stream_end);
	return t;
}

void find_serialised(struct subject *d, struct found *f)
{
	struct turns t = count_turns(d);
	const struct model_work *w;

	if (!t.nr || subject_share(d, t.saving) < d->limits->overlap)
		return;
	w = &d->m->work[t.longest];
	found_title(f, found_severity(d, t.saving), "streams take turns: "
		    "%lld times%s work waited for another stream, though it "
		    "was launched", (long long)subject_a_step(d, t.nr),
		    subject_per(d));
	found_say(f, "no wait for an event stands before it; the legacy "
		  "default stream waits for all others, and they for it");
	found_number(f, "count", t.nr);
	found_place(f, d, w->start, w->end, "%.60s, the longest",
		    model_name(d->m, w->name));
	found_advise(f, "use non-blocking streams (cudaStreamNonBlocking, "
		     "per-thread default stream); if the kernels fill the "
		     "GPU, they cannot overlap");
	found_saves(f, t.saving, "at most: the shorter of each two as if "
		    "both ran at once");
}

struct kernel_sum {
	int64_t ns, nr;
	size_t longest;
};

/* The sums of the kernels' names, by name; all of them together in *total. */
static struct kernel_sum *sum_kernels(struct subject *d, int64_t *total)
{
	const struct model *m = d->m;
	struct kernel_sum *sum = calloc(m->names.nr + 1, sizeof(*sum));

	*total = 0;
	d->no_memory |= !sum;
	for (size_t i = m->device[d->device].first; sum && next_work(d, &i);
	     i++) {
		const struct model_work *w = &m->work[i];
		struct kernel_sum *s = &sum[w->name];
		int64_t ns = w->end - w->start;

		if (w->kind != WORK_KERNEL || w->flags & WORK_COMMUNICATES)
			continue;
		if (!s->nr++ || ns > m->work[s->longest].end -
				     m->work[s->longest].start)
			s->longest = i;
		model_sum(&s->ns, ns);
		model_sum(total, ns);
	}
	return sum;
}

/* The function's own name, as ncu filters by it: without namespaces, template
 * arguments and parameters. */
static struct range_path base_name(const char *name)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *at = name, *from = name;
	struct range_path p;

	for (; *at && *at != '<'; at++) {
		if (!strncmp(at, anonymous, strlen(anonymous)))
			at += strlen(anonymous) - 1;
		else if (*at == '(')
			break;
		if (!isalnum((unsigned char)*at) && *at != '_')
			from = at + 1;
	}
	snprintf(p.text, sizeof(p.text), "%.*s", (int)(at - from), from);
	return p;
}

void find_dominant(struct subject *d, struct found *f)
{
	const struct model_work *w;
	const struct kernel_sum *s;
	struct kernel_sum *sum;
	struct range_path path;
	const char *name;
	size_t best = 0;
	int64_t total;

	sum = sum_kernels(d, &total);
	for (size_t i = 1; sum && i < d->m->names.nr; i++)
		best = sum[i].ns > sum[best].ns ? i : best;
	s = sum ? &sum[best] : NULL;
	if (!s || !s->ns || (double)s->ns / total * 1e6 < d->limits->dominant)
		goto out;
	w = &d->m->work[s->longest];
	name = model_name(d->m, w->name);
	path = subject_path(d, w->call == MODEL_NONE ? MODEL_NONE :
			    d->m->call[w->call].lane, w->call == MODEL_NONE ?
			    0 : d->m->call[w->call].start);
	found_title(f, subject_share(d, s->ns) >= 500000 ? SEVERITY_WARNING :
		    SEVERITY_INFO, "the kernel to look at next: %.80s, %s of "
		    "the kernels' time", name,
		    share_text((double)s->ns / total * 1e6).text);
	found_say(f, "%lld times, %s%s, %s at most%s%s", (long long)s->nr,
		  ns_text(subject_a_step(d, s->ns)).text, subject_per(d),
		  ns_text(w->end - w->start).text,
		  path.text[0] ? ", launched in " : "", path.text);
	found_text(f, "kernel", name);
	found_number(f, "count", s->nr);
	found_number(f, "total_ns", s->ns);
	found_number(f, "kernel_time_ns", total);
	found_place(f, d, w->start, w->end, "%.60s, the longest", name);
	found_advise(f, "gputrace report -t kernels FILE: its spread; then "
		     "its counters: ncu -k %s -c 3 PROGRAM",
		     base_name(name).text);
	found_saves(f, -1, "not estimated: how much faster it can be is not "
		    "in a trace");
out:
	free(sum);
}

struct tiny {
	int64_t nr, ns, all, saving, wait;
	bool in_graph;
	size_t first;
};

/*
 * Two kernels k fused into one of 2k, by the gap g before each:
 *
 *      launch-bound    2(g + k) -> max(g + k, 2k)     saves min((g + k)/2, g)
 *                                                     for each of the two
 *      queued          2(g + k) -> g + 2k             saves g/2
 *
 * A graph is launched once, however many nodes it has; and a thread that lost
 * its CPU does so with fewer launches, too: g counts up to `most`.
 */
static int64_t fusion_saves(const struct model_work *w, int64_t gap,
			    enum cause cause, int64_t most)
{
	int64_t half;

	gap = gap < most ? gap : most;
	half = (gap + w->end - w->start) / 2;
	if (cause == CAUSE_LAUNCH && w->flags & WORK_IN_GRAPH)
		return 0;
	if (cause == CAUSE_LAUNCH)
		return half < gap ? half : gap;
	return cause == CAUSE_QUEUED ? gap / 2 : 0;
}

/* Four times what is usual before work of this GPU that was not there at
 * once. */
static int64_t longest_usual_gap(struct subject *d)
{
	const struct model_device *device = &d->m->device[d->device];
	int64_t *gap = malloc((device->nr + 1) * sizeof(*gap)), most = 0;
	size_t nr = 0;

	d->no_memory |= !gap;
	for (size_t i = 0; gap && i < device->nr; i++)
		if (d->gap_before[i])
			gap[nr++] = d->gap_before[i];
	if (nr) {
		qsort(gap, nr, sizeof(*gap), stats_order);
		most = gap[nr / 2] < INT64_MAX / 4 ? 4 * gap[nr / 2] :
			INT64_MAX;
	}
	free(gap);
	return most;
}

static struct tiny count_tiny(struct subject *d)
{
	const struct model *m = d->m;
	size_t first = m->device[d->device].first;
	int64_t most = longest_usual_gap(d);
	struct tiny t = { 0 };

	for (size_t i = first; next_work(d, &i); i++) {
		const struct model_work *w = &m->work[i];
		int64_t ns = w->end - w->start;

		if (w->kind != WORK_KERNEL)
			continue;
		t.all++;
		if (ns >= d->limits->tiny_ns)
			continue;
		if (!t.nr++)
			t.first = i;
		model_sum(&t.ns, ns);
		model_sum(&t.wait, d->gap_before[i - first]);
		t.in_graph |= w->flags & WORK_IN_GRAPH;
		model_sum(&t.saving, fusion_saves(w, d->gap_before[i - first],
			  d->gap_cause[i - first], most));
	}
	return t;
}

void find_tiny(struct subject *d, struct found *f)
{
	struct tiny t = count_tiny(d);
	const struct model_work *w;

	if (t.nr * 2 < t.all || t.nr < 2 * subject_steps(d) ||
	    subject_share(d, t.saving) < d->limits->tiny_saving)
		return;
	w = &d->m->work[t.first];
	found_title(f, found_severity(d, t.saving), "tiny kernels: %lld of "
		    "%lld%s are shorter than %s",
		    (long long)subject_a_step(d, t.nr),
		    (long long)subject_a_step(d, t.all), subject_per(d),
		    ns_text(d->limits->tiny_ns).text);
	found_say(f, "they work %s%s, and the GPU idles %s before them",
		  ns_text(subject_a_step(d, t.ns)).text, subject_per(d),
		  ns_text(subject_a_step(d, t.wait)).text);
	found_number(f, "tiny", t.nr);
	found_number(f, "kernels", t.all);
	found_number(f, "tiny_ns", t.ns);
	found_number(f, "idle_before_ns", t.wait);
	found_place(f, d, w->start, w->end, "%.60s, the first",
		    model_name(d->m, w->name));
	found_advise(f, "fuse them (torch.compile, fused kernels of the "
		     "library)%s", t.in_graph ? "" : ", or launch them as a "
		     "CUDA graph");
	found_saves(f, t.saving, "each two fused into one that takes as long "
		    "as both: half the launches; not on top of launch_bound");
}

void find_graphs(struct subject *d, struct found *f)
{
	const struct model *m = d->m;
	int64_t nr = 0, ns = 0;
	size_t longest = 0;

	for (size_t i = m->device[d->device].first; next_work(d, &i); i++) {
		const struct model_work *w = &m->work[i];

		if (w->kind != WORK_GRAPH)
			continue;
		if (!nr++ || w->end - w->start > m->work[longest].end -
						 m->work[longest].start)
			longest = i;
		model_sum(&ns, w->end - w->start);
	}
	if (!nr)
		return;
	found_title(f, SEVERITY_INFO, "%s%s of the GPU's time is in %lld "
		    "CUDA graphs recorded as a whole",
		    ns_text(subject_a_step(d, ns)).text, subject_per(d),
		    (long long)nr);
	found_say(f, "their kernels are not in the trace: the checks of "
		  "kernels do not know them");
	found_number(f, "count", nr);
	found_number(f, "total_ns", ns);
	found_place(f, d, m->work[longest].start, m->work[longest].end,
		    "%.60s, the longest", model_name(m,
		    m->work[longest].name));
	found_advise(f, "to see the nodes: GPUTRACE_GRAPH=node (the "
		     "default), for a short window");
	found_saves(f, -1, "nothing is slow because of it");
}
