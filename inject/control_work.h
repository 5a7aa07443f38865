/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_WORK_H
#define GPUTRACE_INJECT_CONTROL_WORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/control_parse.h"
#include "writer/writer.h"

/*
 * What the control socket's clients ask for, done by threads that may wait:
 *
 *   gputrace-work   starts and stops, as long as the driver holds its locks.
 *                   CUPTI may use the driver's descriptors, so it has the
 *                   program's table of them, not that of the socket's thread
 *   gputrace-dump   dumps, as long as the writer writes.  It has the table of
 *                   the socket's thread, into which descriptors are passed
 *
 *   FREE --work_queue()--> QUEUED --(a worker)--> DONE --> FREE
 *   (the socket's thread)                  (the socket's thread)
 *
 * What is QUEUED or QUEUED_DUMP is one thread's alone: the other one looks at
 * nothing but the state, as all the rest may be filled in anew meanwhile.
 */
enum work_state { WORK_FREE, WORK_QUEUED, WORK_QUEUED_DUMP, WORK_DONE };
enum work_kind { WORK_START, WORK_STOP, WORK_DUMP, WORK_ABANDON };

struct work {
	_Atomic uint32_t state;
	_Atomic uint32_t is_cancelled;  /* nobody waits for it any more */
	uint32_t order;
	/* Asked for: */
	enum work_kind kind;
	struct request request;
	uint64_t at_ns;                 /* by clock.h; 0: now */
	int fd;                         /* that came with it, or -1 */
	struct writer_target target;    /* of a start: fd, opened */
	/* The answer.  ABANDON: window is the one to close. */
	const char *code;               /* NULL: done; or an error's */
	uint32_t window;
	uint64_t opened_ns;
	struct writer_result result;
	char why[2 * 4096];
};

/* Those that the threads look after.  0 or -errno.  Context: attach, once. */
int work_init(struct work *list, size_t nr);

/* The one for dumps.  0 or -errno.  Context: the socket's thread, once. */
int work_start_dumps(void);

/* Opens a window's descriptor, before its start is queued: 0, or -errno with
 * the answer.  Context: the socket's thread. */
int work_open_target(struct work *work);

/* After all that was done, and where it is not queued: a descriptor that the
 * writer has not taken is closed.  Context: the socket's thread. */
void work_close(struct work *work);

/* at_ns from what the request says, by our clock, which knows no steps.  False:
 * it is more than a day away.  Context: the socket's thread. */
bool work_set_moment(struct work *work);

/* Context: the socket's thread. */
void work_queue(struct work *work);

/* A start that succeeded, and whose window nobody else will end. */
bool work_has_owner(const struct work *work);

/* Somebody is gone: one that waits for its time does not begin. */
void work_cancel(struct work *work);

/* What is not yet begun is refused from now on.  Context: the exiting
 * thread. */
void work_end(void);

#endif
