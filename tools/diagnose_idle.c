/* SPDX-License-Identifier: MIT */
#include "tools/diagnose.h"
#include "tools/stats.h"

/* gaps and launch_bound: is the GPU idle, and does it wait for launches? */

static const char *const cause_words[CAUSES] = {
	"waiting for launches", "the CPU did something else (host wait)",
	"in or right after a synchronisation", "in a copy that blocks",
	"between work that was queued already", "the launch is not in the trace",
};

static const char *const cause_keys[CAUSES] = {
	"launch_ns", "host_ns", "sync_ns", "copy_ns", "queued_ns",
	"unknown_ns",
};

/* Between two nodes of a CUDA graph, or two kernels that are queued, the GPU
 * takes some time, too: what the trace shows, else 1 us is assumed. */
static int64_t queued_gap(const struct subject *d)
{
	const struct model_device *device = &d->m->device[d->device];
	const int64_t assumed = 1000, largest = 5000;
	int64_t sum = 0, nr = 0;

	for (size_t i = 0; i < device->nr; i++)
		if (d->gap_before[i] && d->gap_before[i] <= largest &&
		    d->gap_cause[i] == CAUSE_QUEUED) {
			sum += d->gap_before[i];
			nr++;
		}
	return nr >= 20 ? sum / nr : assumed;
}

static void put_longest(const struct subject *d, struct found *f,
			enum cause cause)
{
	const struct gap *top = d->longest[cause];

	for (int i = 0; i < TOP_GAPS && top[i].end > top[i].start; i++) {
		const struct gap *g = &top[i];
		struct range_path p = subject_path(d, g->lane, g->start);

		found_place(f, d, g->start, g->end, "gap before %.60s%s%s",
			    g->next == MODEL_NONE ? "the end" :
			    model_name(d->m, d->m->work[g->next].name),
			    p.text[0] ? ", in " : "", p.text);
	}
}

static void say_causes(const struct subject *d, struct found *f, int64_t idle)
{
	for (int c = 0; c < CAUSES; c++) {
		found_number(f, cause_keys[c], d->idle[c]);
		if (d->idle[c] >= idle / 100)
			found_say(f, "%9s%s  %s", ns_text(subject_a_step(d,
				  d->idle[c])).text, subject_per(d),
				  cause_words[c]);
	}
}

/* Launches, and those of them whose work ended a gap for want of a launch. */
struct launches {
	int64_t all, late, kernels;
	int64_t usual_ns, usual_gap;    /* medians of the late ones */
	int64_t graph_wait;     /* of the GPU, for launches of graphs */
	uint32_t lane;
};

static int64_t median(struct stats_set *set)
{
	struct stats stats = { 0 };

	if (set->nr)
		stats_compute(set, &stats);
	stats_fini(set);
	return stats.median;
}

static struct launches count_launches(struct subject *d)
{
	const struct model *m = d->m;
	const struct model_device *device = &m->device[d->device];
	struct launches l = { .lane = MODEL_NONE };
	struct stats_set ns = { 0 }, gap = { 0 };

	for (size_t i = 0; i < device->nr; i++) {
		const struct model_work *w = &m->work[device->first + i];

		if (w->start < d->start || w->start >= d->end ||
		    w->call == MODEL_NONE ||
		    m->call[w->call].work != device->first + i)
			continue;
		l.all++;
		l.kernels += w->kind == WORK_KERNEL;
		if (!d->gap_before[i] || d->gap_cause[i] != CAUSE_LAUNCH)
			continue;
		l.late++;
		if (!stats_add(&ns, w->end - w->start) ||
		    !stats_add(&gap, d->gap_before[i]))
			d->no_memory = true;
		l.lane = m->call[w->call].lane;
		if (m->call[w->call].kind == CALL_GRAPH_LAUNCH)
			model_sum(&l.graph_wait, d->gap_before[i]);
	}
	l.usual_ns = median(&ns);
	l.usual_gap = median(&gap);
	return l;
}

/* A thread that is late for once was interrupted; one that is late for every
 * tenth launch cannot launch fast enough. */
static bool is_often_late(const struct launches *l)
{
	return l->late && l->late >= l->all / 10;
}

static void advise_gaps(struct subject *d, struct found *f,
			enum cause most)
{
	struct launches l = count_launches(d);

	if (most == CAUSE_QUEUED)
		found_advise(f, "the work was there in time: only fewer and "
			     "larger kernels shorten these gaps");
	else if (most == CAUSE_LAUNCH && !is_often_late(&l))
		found_advise(f, "only %lld of %lld launches came too late: "
			     "see what interrupts the thread there (other "
			     "threads on its CPU, a lock, garbage "
			     "collection)", (long long)l.late,
			     (long long)l.all);
	else
		found_advise(f, "first the causes below: faster kernels "
			     "would only make longer gaps");
}

void find_gaps(struct subject *d, struct found *f)
{
	int64_t idle = subject_window(d) - d->busy;
	int64_t host = d->idle[CAUSE_HOST];
	enum cause most = 0;

	if (subject_share(d, idle) < d->limits->idle)
		return;
	for (int c = 1; c < CAUSES; c++)
		if (d->idle[c] > d->idle[most])
			most = c;
	found_title(f, found_severity(d, idle / 2), "%sthe GPU is idle for "
		    "%s of %s%s (%s)", idle > d->busy ?
		    "not a kernel problem: " : "",
		    ns_text(subject_a_step(d, idle)).text,
		    ns_text(subject_a_step(d, subject_window(d))).text,
		    subject_per(d),
		    share_text(subject_share(d, idle)).text);
	f->cost = idle;
	found_number(f, "window_ns", subject_window(d));
	found_number(f, "gpu_busy_ns", d->busy);
	found_number(f, "gpu_idle_ns", idle);
	say_causes(d, f, idle);
	subject_say_doing(d, f);
	put_longest(d, f, most);
	if (subject_share(d, host) >= 10000) {
		found_advise(f, "host wait: see what the thread does in the "
			     "longest gaps (input, tokenizer, I/O, locks); "
			     "prepare it in another thread, one step ahead");
		found_saves(f, host, "the host waits alone, if that work "
			    "is done beside; the other causes have findings "
			    "of their own");
		return;
	}
	advise_gaps(d, f, most);
	found_saves(f, -1, "not estimated: its causes have findings of their "
		    "own");
}

static void say_launches(const struct subject *d, struct found *f,
			 const struct launches *l)
{
	int64_t wait = d->idle[CAUSE_LAUNCH];

	found_say(f, "%s launches: of the GPU's waiting it is %s%s in CUDA "
		  "calls, %s between them", subject_thread(d, l->lane).text,
		  ns_text(subject_a_step(d, d->in_calls)).text,
		  subject_per(d),
		  ns_text(subject_a_step(d, wait - d->in_calls)).text);
	found_say(f, "%lld of %lld launches%s came too late: usually the "
		  "GPU idles %s before it has %s of work",
		  (long long)subject_a_step(d, l->late),
		  (long long)subject_a_step(d, l->all), subject_per(d),
		  ns_text(l->usual_gap).text, ns_text(l->usual_ns).text);
	found_number(f, "launches", l->all);
	found_number(f, "kernel_launches", l->kernels);
	found_number(f, "late_launches", l->late);
	found_number(f, "wait_ns", wait);
	found_number(f, "usual_gap_ns", l->usual_gap);
	found_number(f, "usual_work_ns", l->usual_ns);
	found_number(f, "in_calls_ns", d->in_calls);
	found_number(f, "between_calls_ns", wait - d->in_calls);
	found_text(f, "thread", subject_thread(d, l->lane).text);
	put_longest(d, f, CAUSE_LAUNCH);
}

/* What launches the graph has nothing to gain from another graph. */
static void advise_graph(struct found *f, int64_t wait)
{
	found_advise(f, "launch the next graph before the last one ends: no "
		     "waiting between steps, or two steps in one graph");
	found_advise(f, "a trace of the nodes makes the launch of a graph "
		     "longer: measure again with GPUTRACE_GRAPH=graph");
	found_saves(f, wait, "the GPU's waiting for launches, as if all of "
		    "them came in time; part of it may be the tracer's");
}

static void advise_launches(struct found *f, int64_t saving, int64_t stays)
{
	found_advise(f, "launch the step as one CUDA graph (PyTorch: "
		     "torch.compile(mode=\"reduce-overhead\") or "
		     "torch.cuda.CUDAGraph; vLLM: without --enforce-eager)");
	found_advise(f, "or launch less: fuse kernels, larger batches; or "
		     "run ahead: no waiting between steps");
	found_saves(f, saving, "the GPU's waiting for launches, less %s "
		    "that stay between two kernels of a graph",
		    ns_text(stays).text);
}

void find_launch_bound(struct subject *d, struct found *f)
{
	int64_t wait = d->idle[CAUSE_LAUNCH], stays, saving;
	struct launches l = count_launches(d);
	bool is_graph = l.graph_wait > wait / 2;

	if (subject_share(d, wait) < d->limits->launch ||
	    !is_often_late(&l))
		return;
	stays = queued_gap(d);
	saving = wait > l.late * stays ? wait - l.late * stays : 0;
	saving = is_graph ? wait : saving;
	found_title(f, found_severity(d, saving), "launch-bound: %lld "
		    "%s%s, the CPU is busy with them and the GPU waits "
		    "%s%s", (long long)subject_a_step(d, is_graph ? l.all :
		    l.kernels), is_graph ? "launches (of CUDA graphs)" :
		    "kernel launches", subject_per(d),
		    ns_text(subject_a_step(d, wait)).text, subject_per(d));
	say_launches(d, f, &l);
	if (is_graph)
		advise_graph(f, saving);
	else
		advise_launches(f, saving, stays);
}
