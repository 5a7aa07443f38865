/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CAPTURE_H
#define GPUTRACE_INJECT_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

/*
 * What starts and stops windows, whoever asks for it:
 *
 *   attach (GPUTRACE_START=now) -----\
 *   profiler-api, nvtx:, schedule ----+--> capture_start(), capture_stop()
 *   signals, timers, control socket -/         |              |
 *                                   writer_set_target()  cupti_start/stop()
 *
 * One window at a time.
 */
enum capture_by {
	BY_SETTING, BY_PROFILER_API, BY_NVTX, BY_SCHEDULE, BY_SIGNAL,
	BY_CONTROL,
};

struct capture_request {
	enum capture_by by;
	uint64_t duration_ns;           /* 0: until it is stopped */
	uint64_t sources;               /* SOURCE_ bits; 0: as GPUTRACE_TRACE */
	/* Where the window goes: */
	bool has_target;                /* false: as GPUTRACE_OUT says */
	struct writer_target target;
};

/* What the settings say about windows. */
struct capture_options {
	const char *start;              /* GPUTRACE_START as in force; stays */
	uint64_t sources;               /* SOURCE_ bits of GPUTRACE_TRACE */
	uint64_t duration_ns;           /* GPUTRACE_DURATION; 0: none */
	bool is_recorder;
};

/* From now on windows can be opened.  Context: attach, once. */
void capture_init(const struct capture_options *options);

/* In the child of a fork: no more.  Context: atfork child. */
void capture_forget(void);

/* Room for a sentence that names a file. */
#define CAPTURE_WHY (4096 + 256)

/* Opens a window.  0; -EBUSY: one is open; other -errno.  Unless it is 0,
 * `why` holds a sentence for people.  A descriptor in the target is ours after
 * 0 and the caller's otherwise.
 * Context: any thread of the program or of ours, not in a signal handler. */
int capture_start(const struct capture_request *request, char *why,
		  size_t why_size);

/* Turns recording on before a window that begins soon; capture_stop(), or that
 * of the window, turns it off.  0 or -errno.
 * Context: as capture_start(). */
int capture_warm_up(void);

/* Closes the window if its duration is over.  Context: timer.h's thread. */
void capture_expire(void);

/* Closes the window; what was launched in it is still fetched, by the flush
 * thread.  Returns its number for capture_wait(), or -ENOENT: none is open, or
 * it is not for him to close: a mark of the program (profiler-api, nvtx,
 * schedule) closes what such a mark has opened.
 * Context: as capture_start(). */
int capture_stop(enum capture_by by);

/* Waits until the file of that window is complete.  0 or -ETIMEDOUT.
 * Context: one of our own threads. */
int capture_wait(uint32_t window, uint64_t deadline_ns,
		 struct writer_result *result);

/* Writes the flight recorder, or brings the file that is being written up to
 * date; also what was launched and never finished (a forced flush).
 * 0 or -errno with `why`.  Context: one of our own threads. */
int capture_dump(const struct writer_target *target, uint64_t deadline_ns,
		 struct writer_result *result, char *why, size_t why_size);

struct capture_status {
	bool is_open, is_recorder;
	uint32_t windows;               /* opened so far */
	uint64_t opened_ns;             /* the newest: epoch ns */
	const char *start;              /* GPUTRACE_START as in force */
	char path[4096];                /* the last file, or "" */
	uint64_t kernels, lost;
};
/* Context: any thread but the program's hot path. */
void capture_status(struct capture_status *status);

#endif
