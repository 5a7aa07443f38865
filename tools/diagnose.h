/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DIAGNOSE_H
#define GPUTRACE_TOOLS_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/model.h"
#include "tools/steps.h"

/*
 * What is slow and why: the checks of `gputrace diagnose`, in the order in
 * which people look.
 *
 *      model -> steps -> subject, one for each GPU that works
 *                          |
 *                 the checks, one after the other
 *                          |
 *                 at most one finding an id -> printed
 *
 * A check that finds something fills a finding: a title, lines for people,
 * the same as numbers for JSON, places in the trace, what to do, and what it
 * would save where that can be estimated from the trace.  Where several GPUs
 * have the same finding the worst is shown and the others are counted.
 *
 * Times are ns.  "A step" stands for the mean over the steps; where no steps
 * were found all is for the whole trace.  A saving is of that change alone.
 */
#define DIAGNOSE_IDS(X) \
	X(GAPS, "gaps", "the GPU idle, and why") \
	X(LAUNCH_BOUND, "launch_bound", "the GPU waiting for launches") \
	X(SYNC, "sync", "waits that let the GPU run dry") \
	X(COPIES, "copies", "copies that hold up the loop") \
	X(SERIALISED, "serialised", "streams that take turns") \
	X(DOMINANT, "dominant_kernel", \
	  "one kernel that takes most of the time") \
	X(TINY, "tiny_kernels", "many tiny kernels") \
	X(WARMUP, "warmup", "slow first steps inside the window") \
	X(IMBALANCE, "imbalance", "GPUs and ranks with unequal work") \
	X(GRAPHS, "graphs", "CUDA graphs whose nodes are not seen")
#define X(id, text, what) FOUND_##id,
enum found_id { DIAGNOSE_IDS(X) FOUND_IDS };
#undef X

enum severity { SEVERITY_NONE, SEVERITY_INFO, SEVERITY_WARNING,
	SEVERITY_CRITICAL, SEVERITIES };
extern const char *const severity_names[SEVERITIES];

struct limits {                 /* shares are millionths */
	int64_t idle;           /* of the window: gaps */
	int64_t launch;         /* ... of it waiting for launches */
	int64_t sync;           /* ... of it a thread in one place's waits */
	int64_t copy;           /* ... of it copies that block */
	int64_t overlap;        /* ... of it work that could overlap */
	int64_t dominant;       /* of the kernels' time */
	int64_t tiny_saving;    /* of the window */
	int64_t imbalance;      /* between the most and the least busy GPU */
	int64_t host_wait_ns;   /* a pause between calls that is no launching */
	int64_t tiny_ns;        /* a kernel this short is tiny */
};
extern const struct limits default_limits;

struct found_number {
	const char *key;
	const char *text;       /* NULL: n counts */
	int64_t n;
};

struct found_place {
	int64_t start, end;     /* as in the file: from its own base */
	char *what;
};

enum { FOUND_NUMBERS = 24, FOUND_PLACES = 3 };

struct found {
	enum severity severity; /* NONE: nothing was found */
	char *title, *lines, *advice;
	char *estimated;        /* how, or why not */
	int64_t saving;         /* in the window; -1: not estimated */
	int64_t cost;           /* of two GPUs' the larger one is shown */
	struct found_number number[FOUND_NUMBERS];
	struct found_place place[FOUND_PLACES];
	unsigned nr_numbers, nr_places;
	unsigned nr_others;     /* GPUs with the same */
	int64_t steps;          /* in its window; 0: none were found */
	bool no_memory;
};

/* Why the GPU idled. */
enum cause {
	CAUSE_LAUNCH,   /* a thread was launching: in calls, or between them */
	CAUSE_HOST,     /* it did something else for long */
	CAUSE_SYNC,     /* it waited in a synchronisation, or came from one */
	CAUSE_COPY,     /* it was in a copy that blocks */
	CAUSE_QUEUED,   /* the work was there already: order, graph nodes */
	CAUSE_UNKNOWN,  /* no launch is known */
	CAUSES,
};

struct gap {
	int64_t start, end;
	int64_t part[CAUSES];
	uint32_t next;          /* in model.work, or MODEL_NONE */
	uint32_t lane;          /* who launched it, or MODEL_NONE */
};

enum { TOP_GAPS = 3 };

struct subject {                /* one GPU in its window */
	const struct model *m;
	const struct limits *limits;
	const struct steps *steps;
	uint32_t device;        /* in model.device */
	int64_t start, end;     /* the window */
	int64_t busy;           /* union over streams */
	int64_t compute;        /* kernels that do not communicate, summed */
	int64_t idle[CAUSES];
	struct gap longest[CAUSES][TOP_GAPS];
	struct doing {          /* what the threads that launch were in */
		uint32_t name;  /* while the GPU idled */
		uint8_t kind;   /* enum row_kind */
		int64_t ns;
	} *doing;
	size_t nr_doing, cap_doing;
	struct pairs doing_by;  /* (kind, name) -> its place */
	int64_t in_calls;       /* of idle[CAUSE_LAUNCH]: inside API calls */
	int64_t *gap_before;    /* of each work of the device */
	uint8_t *gap_cause;     /* its largest part */
	int64_t *pause_median;  /* see diagnose_pauses.c */
	uint32_t *pause_count, *pause_kind;
	bool no_memory;
};

typedef void find_fn(struct subject *d, struct found *f);
find_fn find_gaps, find_launch_bound, find_sync, find_copies,
	find_serialised, find_dominant, find_tiny, find_graphs;

/* How long the CPU usually pauses before such a call (by this and the call
 * before): tells a thread that lost its CPU for once from one that waits. */
void subject_pauses(struct subject *d);
bool subject_is_wait(const struct subject *d, uint32_t call, int64_t pause);
/* What the thread of a gap was in, where the trace has such rows; and what
 * that comes to. */
void subject_add_doing(struct subject *d, const struct gap *gap);
void subject_say_doing(const struct subject *d, struct found *f);
/* Finds the gaps and their causes. */
void subject_gaps(struct subject *d);
void subject_fini(struct subject *d);

static inline int64_t subject_window(const struct subject *d)
{
	return d->end - d->start;
}

/* Part of the window, in millionths. */
static inline int64_t subject_share(const struct subject *d, int64_t ns)
{
	int64_t window = subject_window(d);

	return window > 0 ? (int64_t)((double)ns / window * 1e6) : 0;
}

static inline int64_t subject_steps(const struct subject *d)
{
	return d->steps->nr ? d->steps->nr : 1;
}

static inline int64_t subject_a_step(const struct subject *d, int64_t n)
{
	return n / subject_steps(d);
}

/* " a step", or "" where there are none. */
static inline const char *subject_per(const struct subject *d)
{
	return d->steps->nr ? " a step" : "";
}

/* "forward > layer": the ranges around a time, from the outermost; the steps'
 * own is left out.  Empty if there are none. */
struct range_path { char text[160]; };
struct range_path subject_path(const struct subject *d, uint32_t lane,
			       int64_t at);
/* "thread 18613 (decode)" */
struct range_path subject_thread(const struct subject *d, uint32_t lane);

/* "11.0 ms" */
struct ns_text { char text[24]; };
struct ns_text ns_text(int64_t ns);
/* "61 %" */
struct ns_text share_text(int64_t millionths);

#define PRINTF(n) __attribute__((format(printf, n, n + 1)))
void found_title(struct found *f, enum severity severity, const char *format,
		 ...) PRINTF(3);
void found_say(struct found *f, const char *format, ...) PRINTF(2);
void found_advise(struct found *f, const char *format, ...) PRINTF(2);
void found_saves(struct found *f, int64_t saving, const char *how, ...)
	PRINTF(3);
void found_number(struct found *f, const char *key, int64_t n);
void found_text(struct found *f, const char *key, const char *text);
void found_place(struct found *f, const struct subject *d, int64_t start,
		 int64_t end, const char *format, ...) PRINTF(5);
void found_fini(struct found *f);

/* By the part of the window that it costs: a fifth is critical, a twentieth a
 * warning. */
enum severity found_severity(const struct subject *d, int64_t cost);

struct diagnosis {
	struct model m;
	struct limits limits;
	struct steps *steps;            /* of each file */
	struct subject *subject;
	size_t nr_subjects;
	struct found found[FOUND_IDS];
	bool checked[FOUND_IDS];
};

/* After model_finish().  step: a range's name or NULL.  Returns 0 or
 * -ENOMEM. */
int diagnose(struct diagnosis *d, const char *step);
void diagnose_fini(struct diagnosis *d);

int diagnose_print(const struct diagnosis *d, FILE *to, bool json);

#endif
