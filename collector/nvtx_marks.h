/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_MARKS_H
#define GPUTRACE_COLLECTOR_NVTX_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/nvtx_record.h"

/*
 * Ranges and marks that the settings name: whoever asked for a name is told
 * when such a range opens, before its record is written, and when it has
 * closed, after that.
 *
 *   nvtx_push(m) -- a name is set --> opens() -> record
 *   nvtx_pop()   ------------------> record -> closes()
 *
 * Of each name one range counts at a time: the first, among all threads, and
 * what it contains of the same name is a part of it.  Nothing is set: one
 * branch in the hot path.
 */
enum nvtx_name_kind {
	NAME_EXACT,
	NAME_NUMBERED,          /* and with a number behind it */
	NAME_STEP,              /* ProfilerStep#N, or "step" numbered */
};

/* Who tells two threads apart; of a range that may end on any: the one that
 * started it. */
struct nvtx_opened {
	uint64_t thread;
	bool is_profiler_step;
};

struct nvtx_name {
	enum nvtx_name_kind kind;
	const char *name;
	size_t len;
	const char *domain;     /* NULL: any; "default": the one without name */
	size_t domain_len;
	/* False: this one does not count.  Both on the program's thread, never
	 * two at once. */
	bool (*opens)(const struct nvtx_opened *opened);
	/* NULL: opens() is told of each range, and of marks, perhaps of two at
	 * once. */
	void (*closes)(void);
};

/* The strings stay the caller's and must live.  At most NVTX_NAMES_MAX.
 * Context: before the first nvtx_attach(). */
#define NVTX_NAMES_MAX 3
void nvtx_marks_add(const struct nvtx_name *name);

/* From now on only that thread's ranges are told of by this opens().
 * Context: opens(). */
void nvtx_marks_keep_to(bool (*opens)(const struct nvtx_opened *opened),
			uint64_t thread);

/* A range for this opens() is open.  Context: any thread. */
bool nvtx_marks_is_open(bool (*opens)(const struct nvtx_opened *opened));

/* The calling thread ends, and with it its ranges. */
void nvtx_marks_leave(void);

/* In the child of a fork: none is open.  Context: atfork child. */
void nvtx_marks_forget(void);

/* ---- For nvtx_record.c ---- */

extern bool nvtx_marks_are_set __attribute__((visibility("hidden")));

static inline bool nvtx_marks_wanted(void)
{
	return __builtin_expect(nvtx_marks_are_set, 0);
}

/* Around the record of each.  What the first returns is for the second. */
uint32_t nvtx_marks_before(const struct nvtx_message *message, bool is_push);
void nvtx_marks_after_start(uint32_t opened, uint64_t id);
void nvtx_marks_after_pop(const struct nvtx_domain *domain);
void nvtx_marks_after_end(uint64_t id);
void nvtx_marks_after_mark(const struct nvtx_message *message);

#endif
