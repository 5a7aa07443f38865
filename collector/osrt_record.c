/* SPDX-License-Identifier: MIT */
#include "collector/osrt_record.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/filter.h"
#include "collector/loss.h"
#include "collector/osrt_fd.h"
#include "collector/own_thread.h"
#include "collector/source.h"
#include "collector/stack_of_call.h"
#include "collector/thread.h"

/* What a call is about, and what its slice says of that. */
enum about {
	FD, OPENED, DRIVER, FDS, NOTHING, WHAT, LOCK,
	mutex = LOCK, rdlock = LOCK, wrlock = LOCK, sem = LOCK,
};

#define ABOUT_FD { "fd", VALUE_I64, NULL }, \
	{ "fd kind", VALUE_WORD, osrt_fd_kinds }, \
	{ "device", VALUE_STRING, NULL }
#define ENDED { "result", VALUE_I64, NULL }, { "errno", VALUE_ABSENT_0, NULL }

static const struct value_field fields[][SLICE_VALUES_MAX + 1] = {
	[FD] = { ABOUT_FD, ENDED },
	[OPENED] = { ABOUT_FD, ENDED },
	[DRIVER] = { ABOUT_FD, { "request", VALUE_U64, NULL }, ENDED },
	[FDS] = { { "fds", VALUE_U64, NULL }, ENDED },
	[NOTHING] = { ENDED },
	[WHAT] = { { "object", VALUE_U64, NULL }, ENDED },
	[LOCK] = { { "object", VALUE_U64, NULL }, ENDED },
};

static const char *const names[OSRT_NR] = {
#define X(call, ...) [OSRT_##call] = #call,
	OSRT_CALLS(X)
#undef X
};

/* Made when the source is wanted: 28 KB of pointers would have to be put right
 * in each process that only inherits the library. */
static struct slice_kind kinds[OSRT_NR];

static const enum about abouts[OSRT_NR] = {
#define X(call, nr, way, about, ...) [OSRT_##call] = about,
	OSRT_CALLS(X)
#undef X
};

static atomic_bool is_on;
static bool can_make_state, may_ask;
static pid_t own_pid;

static void make_kind(enum osrt_id id)
{
	kinds[id].cat = "osrt";
	kinds[id].name = names[id];
	kinds[id].row = ROW_OSRT;
	memcpy(kinds[id].fields, fields[abouts[id]], sizeof kinds[id].fields);
}

/* A filter of system calls that the program has put up may end it for a call
 * that it does not make itself. */
void osrt_record_prepare(void)
{
	for (int i = 0; i < OSRT_NR; i++)
		make_kind((enum osrt_id)i);
	osrt_fd_prepare();
	own_pid = (pid_t)syscall(SYS_getpid);
	can_make_state = thread_prepare();
	may_ask = !filter_is_own();
}

void osrt_record_open(bool is_open)
{
	atomic_store(&is_on, is_open);
}

/*
 * A thread's state takes memory from the kernel alone; but where the process
 * has many thread-specific keys, the C library's part of it takes some from
 * the allocator, inside of which this call may be.  None waits for a condition
 * or another thread there.
 */
static bool has_state(enum about about)
{
	if (thread_current || can_make_state || about == WHAT)
		return true;
	loss_add(LOSS_NO_THREAD_STATE, 1);
	return false;
}

/* A thread that polls may fill its ring with that: the last quarter is left to
 * what else it says (ranges). */
static bool has_room(void)
{
	struct thread *thread = thread_current;

	if (!thread || (thread->ring && ring_room(thread->ring) >=
			thread->ring_size / 4))
		return true;
	thread_count_drop(thread);
	return false;
}

/* The child of a vfork() runs on its parent's memory, and thread state.  Asked
 * of the kernel: an old C library would answer for the parent. */
static bool is_of_child(void)
{
	return own_pid != (pid_t)syscall(SYS_getpid);
}

/* True: it is of CUDA's driver. */
static bool add_fd(uint64_t *values, uint32_t *nr, long fd)
{
	struct osrt_fd about = { OSRT_FD_UNKNOWN, NULL };

	if (may_ask)
		about = osrt_fd_look((int)fd);
	values[(*nr)++] = (uint64_t)(int)fd;
	values[(*nr)++] = about.kind;
	values[(*nr)++] = (uintptr_t)about.driver;
	return about.driver != NULL;
}

/* False: a call that is not recorded after all. */
static bool describe(enum about about, const long call[3], uint64_t *values,
		     uint32_t *nr)
{
	switch (about) {
	case FD:
		add_fd(values, nr, call[0]);
		break;
	case OPENED:
		add_fd(values, nr, call[2]);
		break;
	case DRIVER:
		if (!add_fd(values, nr, call[0]))
			return false;
		values[(*nr)++] = (unsigned long)call[1];
		break;
	case FDS:
		values[(*nr)++] = (unsigned long)call[1];
		break;
	case NOTHING:
		break;
	case WHAT:
	case LOCK:
		values[(*nr)++] = (unsigned long)call[0];
		break;
	}
	return true;
}

void osrt_record(enum osrt_id id, uint64_t start_ns, uint64_t end_ns,
		 const long call[3])
{
	int saved = errno, result = (int)call[2];
	enum about about = abouts[id];
	uint64_t values[SLICE_VALUES_MAX];
	uint32_t nr = 0;

	/* Pairs with the store in osrt_record_open(): what was prepared. */
	if (atomic_load_explicit(&is_on, memory_order_acquire) &&
	    !own_thread_is_self() && !is_of_child() &&
	    has_room() && describe(about, call, values, &nr) &&
	    has_state(about)) {
		values[nr++] = (uint64_t)result;
		/* -1 of a barrier is not a failure. */
		values[nr++] = result == -1 && about != WHAT ?
			(uint64_t)saved : 0;
		stack_of_call(end_ns - start_ns);
		source_slice(&kinds[id], 0, start_ns, end_ns, values, nr,
			     NULL, 0);
	}
	errno = saved;
}
