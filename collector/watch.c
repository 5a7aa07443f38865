/* SPDX-License-Identifier: MIT */
#include "collector/watch.h"

#include <stdatomic.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/pool.h"
#include "collector/window.h"

enum {
	/* A share is told of no fewer kernels: a program with 20 of them, one
	 * of which was aborted, is not ill. */
	KERNELS_MIN = 256,
	/* In percent of those.  CUPTI's fault spoils all that follow (start
	 * and end 0 when its device buffers are out); single ones are known
	 * from contexts that were destroyed. */
	FEW_PERCENT = 2,
	MOST_PERCENT = 50,
	/* Launches of which nothing was heard. */
	LAUNCHES_MIN = 100,
	LOOKS_MIN = 5,
	/* Forced flushes that a buffer has to have missed. */
	FORCED_KEPT = 3,
};

/*
 * Longer than a flush waits before it is forced (cupti.c: 5 s), so that
 * kernels in flight have shown themselves as such before.
 */
#define SILENCE_NS UINT64_C(6000000000)

/* What CUPTI keeps of a launch (watch.h), and from which size on it is told:
 * at 35,000 launches a second behind four minutes. */
#define KEPT_BYTES UINT64_C(32)
#define KEPT_TOLD_BYTES (UINT64_C(256) << 20)
#define CUPTI_13_0 130000u
#define CUPTI_13_4 130400u

/* A buffer that is younger is not given up, however often flushes are forced:
 * CUPTI's thread may be late. */
#define LOST_NS UINT64_C(10000000000)

static uint64_t bad_times(const struct watch_counts *counts)
{
	return counts->no_time + counts->reversed;
}

static enum watch_fault decide_times(struct watch *watch,
				     const struct watch_counts *now,
				     struct watch_verdict *verdict)
{
	uint64_t kernels = now->kernels - watch->times_since.kernels;
	uint64_t bad = bad_times(now) - bad_times(&watch->times_since);

	if (kernels < KERNELS_MIN)
		return WATCH_FINE;
	watch->times_since = *now;
	verdict->n = bad;
	verdict->m = kernels;
	if (bad * 100 >= kernels * MOST_PERCENT)
		return WATCH_TIMES;
	return bad * 100 >= kernels * FEW_PERCENT ? WATCH_FEW_TIMES :
		WATCH_FINE;
}

static enum watch_fault decide_buffers(struct watch *watch,
				       const struct watch_sample *sample,
				       struct watch_verdict *verdict)
{
	bool is_new = sample->lost > watch->lost;

	watch->lost = sample->lost;
	verdict->n = sample->lost;
	verdict->m = sample->buffers;
	if (!is_new)
		return WATCH_FINE;
	return sample->lost * 2 >= sample->buffers ? WATCH_BUFFERS :
		WATCH_FEW_BUFFERS;
}

/* Something that explains why launches have no kernels, or kernels came. */
static bool is_explained(const struct watch *watch,
			 const struct watch_sample *sample)
{
	const struct watch_counts *since = &watch->silent_since;
	const struct watch_counts *now = &sample->counts;

	/* With an even number of calls to begin and end it, none is captured
	 * now; one that began before the window does no more than warn. */
	return now->kernels != since->kernels ||
	       sample->forced != watch->forced ||
	       now->captures != since->captures || now->captures % 2;
}

static enum watch_fault decide_kernels(struct watch *watch,
				       const struct watch_sample *sample,
				       struct watch_verdict *verdict)
{
	const struct watch_counts *now = &sample->counts;
	uint64_t launches = now->launches - watch->silent_since.launches;
	uint64_t graphs = now->graphs - watch->silent_since.graphs;

	/* A graph may hold copies alone. */
	if (now->work != watch->silent_since.work)
		graphs = 0;
	if (is_explained(watch, sample) || !(launches + graphs)) {
		watch->silent_since = *now;
		watch->silent_ns = sample->now_ns;
		watch->silent_looks = 0;
		watch->forced = sample->forced;
		return WATCH_FINE;
	}
	watch->silent_looks++;
	verdict->n = launches + graphs;
	verdict->m = (sample->now_ns - watch->silent_ns) / 1000000000;
	return verdict->n >= LAUNCHES_MIN && watch->silent_looks > LOOKS_MIN &&
	       sample->now_ns >= watch->silent_ns + SILENCE_NS ?
	       WATCH_NO_KERNELS : WATCH_FINE;
}

/* CUPTI tells its devices at each start: after one that is not the first
 * (that may be before the driver knows them) something comes. */
static enum watch_fault decide_window(struct watch *watch,
				      const struct watch_sample *sample,
				      struct watch_verdict *verdict)
{
	if (watch->epoch != sample->epoch) {
		watch->epoch = sample->epoch;
		watch->window_since = sample->counts;
		watch->window_ns = sample->now_ns;
		watch->window_looks = 0;
		return WATCH_FINE;
	}
	watch->window_looks++;
	verdict->n = (sample->now_ns - watch->window_ns) / 1000000000;
	if (sample->counts.activities != watch->window_since.activities ||
	    !window_is_open(sample->epoch) || sample->epoch == 1 ||
	    !sample->counts.activities || watch->window_looks <= LOOKS_MIN ||
	    sample->now_ns < watch->window_ns + SILENCE_NS)
		return WATCH_FINE;
	return WATCH_SILENT;
}

static enum watch_fault decide_memory(const struct watch_sample *sample,
				      struct watch_verdict *verdict)
{
	uint64_t bytes = sample->counts.plain * KEPT_BYTES;

	verdict->n = bytes >> 20;
	verdict->m = sample->counts.plain;
	return bytes >= KEPT_TOLD_BYTES &&
		sample->cupti_version >= CUPTI_13_0 &&
		sample->cupti_version < CUPTI_13_4 ? WATCH_MEMORY : WATCH_FINE;
}

/* All look each time; the first of what stops, else of what warns. */
struct watch_verdict watch_decide(struct watch *watch,
				  const struct watch_sample *sample)
{
	struct watch_verdict verdicts[5] = { { 0 } }, *found = &verdicts[0];

	verdicts[0].fault = decide_times(watch, &sample->counts,
					 &verdicts[0]);
	verdicts[1].fault = decide_buffers(watch, sample, &verdicts[1]);
	verdicts[2].fault = decide_kernels(watch, sample, &verdicts[2]);
	verdicts[3].fault = decide_window(watch, sample, &verdicts[3]);
	verdicts[4].fault = decide_memory(sample, &verdicts[4]);
	for (int i = 1; i < 5; i++)
		if (!watch_stops(found->fault) &&
		    (found->fault == WATCH_FINE ||
		     watch_stops(verdicts[i].fault)))
			found = &verdicts[i];
	return *found;
}

bool watch_stops(enum watch_fault fault)
{
	return fault == WATCH_TIMES || fault == WATCH_BUFFERS;
}

static const struct {
	const char *name, *line;
} texts[NR_WATCH_FAULTS] = {
	[WATCH_FINE] = { "fine", "" },
	[WATCH_FEW_TIMES] = { "some kernels without times",
		"%llu of %llu kernels came without usable times (counted as "
		"lost); if it gets worse, tracing will stop" },
	[WATCH_TIMES] = { "kernels without times",
		"%llu of %llu kernels came without usable times, as CUPTI does "
		"when its device buffers are used up; tracing stops, what was "
		"written stays; start the program anew, or use a newer CUPTI "
		"(GPUTRACE_CUPTI)" },
	[WATCH_FEW_BUFFERS] = { "some buffers never returned",
		"CUPTI does not return %llu of %llu buffers (counted as lost)"
		"; another profiler in this process may have taken them over" },
	[WATCH_BUFFERS] = { "buffers never returned",
		"CUPTI does not return %llu of %llu buffers; tracing stops, "
		"what was written stays; another profiler in this process may "
		"have taken them over" },
	[WATCH_NO_KERNELS] = { "launches without kernels",
		"no kernel was told for %llu launches in %llu s: CUPTI may be "
		"too old for this GPU (set GPUTRACE_CUPTI to a newer one) or "
		"have stopped (trace the program from its start)" },
	[WATCH_SILENT] = { "silent after a start",
		"CUPTI has told nothing in the %llu s since recording was "
		"started again; trace the program from its start, or use a "
		"newer CUPTI (GPUTRACE_CUPTI)" },
	[WATCH_MEMORY] = { "CUPTI keeps memory",
		"this CUPTI (13.0 to 13.3) keeps memory of each kernel that is "
		"launched once a CUDA graph was made: %llu MiB of %llu kernels "
		"by now, until the process ends; versions 12.9 and 13.4 do not "
		"(GPUTRACE_CUPTI, or in place of the program's own)" },
};

const char *watch_name(enum watch_fault fault)
{
	return texts[fault].name;
}

/* ---- The one of this process ---- */

enum { NR_COUNTS = sizeof(struct watch_counts) / sizeof(uint64_t) };

static _Atomic uint64_t told[NR_COUNTS];
static _Atomic uint64_t seen_ns[NR_WATCH_FAULTS];
static _Atomic uint32_t has_ended, has_own_file;
/* The flush thread's own. */
static struct watch watch;
static uint64_t nr_forced, forced_ns[FORCED_KEPT];

void watch_tell(const struct watch_counts *counts)
{
	uint64_t values[NR_COUNTS];

	memcpy(values, counts, sizeof values);
	for (int i = 0; i < NR_COUNTS; i++)
		atomic_store_explicit(&told[i], values[i],
				      memory_order_relaxed);
}

static struct watch_counts counts_told(void)
{
	uint64_t values[NR_COUNTS];
	struct watch_counts counts;

	for (int i = 0; i < NR_COUNTS; i++)
		values[i] = atomic_load_explicit(&told[i],
						 memory_order_relaxed);
	memcpy(&counts, values, sizeof counts);
	return counts;
}

void watch_forced(uint64_t start_ns)
{
	forced_ns[nr_forced++ % FORCED_KEPT] = start_ns;
}

/* Those that the last three forced flushes should have brought. */
static void give_up_buffers(uint64_t now_ns)
{
	uint64_t before_ns = forced_ns[nr_forced % FORCED_KEPT];

	if (nr_forced < FORCED_KEPT)
		return;
	if (before_ns > now_ns - LOST_NS)
		before_ns = now_ns - LOST_NS;
	pool_give_up(before_ns);
}

static void say(const struct watch_verdict *verdict, uint64_t now_ns)
{
	uint64_t never = 0;

	if (atomic_compare_exchange_strong(&seen_ns[verdict->fault], &never,
					   now_ns))
		log_line(LOG_WARN, texts[verdict->fault].line,
			 (unsigned long long)verdict->n,
			 (unsigned long long)verdict->m);
}

bool watch_look(uint32_t cupti_version)
{
	uint64_t now_ns = clock_now_ns();
	struct watch_sample sample = {
		.now_ns = now_ns, .counts = counts_told(),
		.epoch = window_epoch(), .forced = nr_forced,
		.cupti_version = cupti_version,
	};
	struct watch_verdict verdict;

	give_up_buffers(now_ns);
	sample.buffers = pool_buffers();
	sample.lost = pool_lost();
	verdict = watch_decide(&watch, &sample);
	if (verdict.fault != WATCH_FINE)
		say(&verdict, now_ns);
	return watch_stops(verdict.fault) || (atomic_load(&has_ended) &&
					      !atomic_load(&has_own_file));
}

void watch_end(void)
{
	atomic_store(&has_ended, 1);
}

bool watch_begin(bool own)
{
	if (atomic_load(&has_ended) && !own)
		return false;
	atomic_store(&has_own_file, own);
	return true;
}

uint64_t watch_seen_ns(enum watch_fault fault)
{
	return atomic_load(&seen_ns[fault]);
}
