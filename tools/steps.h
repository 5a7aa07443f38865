/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_STEPS_H
#define GPUTRACE_TOOLS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/model.h"

/*
 * The steps of a program: decode steps, training iterations.  Of one file of a
 * model (after model_finish()) they are, the first that there is,
 *
 *      STEPS_NAMED      the ranges of the name that is asked for
 *      STEPS_PROFILER   ProfilerStep#N
 *      STEPS_RANGE      the range `step`
 *      STEPS_KERNELS    repeating kernel sequences of the busiest stream
 *
 * A trailing number of a range's name is ignored ("step 7", "step_7" and
 * "step#7" are `step`).  Where several threads have such ranges, those of the
 * thread with the most launches count; of nested ones the outermost.  One
 * range is a step; kernel sequences need three that are (nearly) equal.
 *
 * A step ends where the next one begins, the last one with its own range (or
 * kernel, and so does a kernel sequence that strangers follow):
 *
 *      range   [step  ]   [step  ]   [step  ]
 *      step    [ 0        [ 1        [ 2    ]
 *      window  [                           ...]
 *
 * The window is what analysis should look at: from the first step's start to
 * the last one's end, or, if that is later, the end of the GPU work that the
 * steps launched.  A program that runs ahead of its GPU shows its true rhythm
 * in (window_end - window_start) / nr, not in the length of single steps.
 */
enum steps_source { STEPS_NONE, STEPS_NAMED, STEPS_PROFILER, STEPS_RANGE,
	STEPS_KERNELS };

struct step {
	int64_t start, end;
};

struct steps {
	enum steps_source source;
	struct step *step;              /* in the order of time */
	size_t nr;                      /* 0: none were found */
	int64_t window_start, window_end;       /* none: of all GPU work */
	uint32_t file;
	uint32_t lane;                  /* of the ranges, or MODEL_NONE */
	uint32_t name;                  /* of the first range, likewise */
	uint32_t stream;                /* STEPS_KERNELS, or MODEL_NONE */
	size_t period;                  /* STEPS_KERNELS: kernels in a step */
};

/* name: of the range that is a step, or NULL.  A name that no range has finds
 * nothing.  Returns 0 (look at nr), or -ENOMEM. */
int steps_find(const struct model *m, uint32_t file, const char *name,
	       struct steps *out);
void steps_fini(struct steps *s);

/* The step that a GPU operation belongs to: by its launch (ranges) or by its
 * own start (kernel sequences, launches that were not traced).  MODEL_NONE: to
 * none. */
uint32_t steps_of_work(const struct steps *s, const struct model *m,
		       const struct model_work *w);
/* The step around a time, or MODEL_NONE. */
uint32_t steps_at(const struct steps *s, int64_t at);

/* Is `name` the range `base`, with a trailing number or without? */
bool steps_is_name(const char *name, const char *base);

/* Internal: kernel sequences (steps_period.c). */
int steps_from_kernels(const struct model *m, struct steps *out);

/*
 * The period of a sequence that repeats: of the lengths that were seen between
 * equal pieces of it, the shortest that explains its second half (nearly) as
 * well as the best one does, so that a model's layers inside a step are not
 * taken for steps and a warm-up in front does no harm.  Returns 0 if it does
 * not repeat at least three times, or SIZE_MAX when memory ends.
 */
size_t steps_period(const uint32_t *sequence, size_t nr);

#endif
