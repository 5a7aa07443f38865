/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_CONTROL_WORK_H
#define GPUTRACE_INJECT_CONTROL_WORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/control_parse.h"
#include "writer/writer.h"

/*
 * What the control socket's clients ask for, done by a thread of its own: a
 * start or stop may wait as long as the driver holds its locks, and CUPTI may
 * use the driver's descriptors, which are in the program's table and not in
 * that of the socket's thread.
 *
 *   FREE --work_queue()--> QUEUED --> DONE --work_free()--> FREE
 *   (the socket's thread)  (the worker)     (the socket's thread)
 */
enum work_state { WORK_FREE, WORK_QUEUED, WORK_DONE };
enum work_kind { WORK_START, WORK_STOP, WORK_DUMP, WORK_ABANDON };

struct work {
	_Atomic uint32_t state;
	_Atomic uint32_t is_cancelled;  /* nobody waits for it any more */
	uint32_t order;
	/* Asked for: */
	enum work_kind kind;
	struct request request;
	uint64_t at_ns;                 /* by clock.h; 0: now */
	int fd;                         /* in the writer's table, or -1 */
	/* The answer.  ABANDON: window is the one to close. */
	const char *code;               /* NULL: done; or an error's */
	uint32_t window;
	uint64_t opened_ns;
	struct writer_result result;
	char why[2 * 4096];
};

/* Those that the thread looks after.  0 or -errno.  Context: attach, once. */
int work_init(struct work *list, size_t nr);

/* at_ns from what the request says, by our clock, which knows no steps.  False:
 * it is more than a day away.  Context: the socket's thread. */
bool work_set_moment(struct work *work);

/* Context: the socket's thread. */
void work_queue(struct work *work);

/* Somebody is gone: one that waits for its time does not begin. */
void work_cancel(struct work *work);

/* What is not yet begun is refused from now on.  Context: the exiting
 * thread. */
void work_end(void);

#endif
