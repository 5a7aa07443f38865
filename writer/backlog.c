/* SPDX-License-Identifier: MIT */
#include "writer/backlog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "collector/loss.h"
#include "collector/own_thread.h"
#include "collector/thread.h"
#include "collector/wait.h"
#include "collector/window.h"

enum {
	/* Of a ring of 2 MiB, 10 ms are 200 MB/s; where a ring had filled by
	 * that much (in %) in it, 2 ms. */
	READ_MS = 10,
	READ_SOON_MS = 2,
	FILL_SOON = 5,
	/* No window: until backlog_wake(), but not at once, for the next may
	 * open while the writer completes the last. */
	ASLEEP_MS = 60000,
	AWAKE_LOOKS = 100,
	CHUNK = 256 << 10,
	/* Empty ones that are kept, for a thread at full rate. */
	SPARES = 8,
};

#define NS_PER_MS UINT64_C(1000000)

struct chunk {
	struct chunk *next;
	uint64_t number;                /* in the order of reading */
	size_t len;
	uint8_t bytes[];
};

enum { ROOM = CHUNK - sizeof(struct chunk) };

_Static_assert(ROOM > UINT16_MAX + sizeof(struct backlog_run), "any record");

struct backlog {
	pthread_mutex_t lock;           /* of all down to the spares */
	struct chunk *first, *last;     /* of which the last is filled */
	struct chunk *spares;
	uint32_t nr_spares, nr, max;    /* nr: with those that are spare */
	uint64_t nr_read;               /* numbers given to chunks */
	bool is_over;
	_Atomic uint32_t owners;        /* the creator and the reader */
	_Atomic uint32_t turn;          /* changed to wake the reader */
	_Atomic bool is_asleep;
	uint32_t nr_idle;               /* the reader's own: without a window */
	/* The writer's own. */
	struct chunk *taken;
	size_t at;                      /* in it */
	uint64_t newest;                /* chunk that it may take */
};

static void free_all(struct chunk *chunk)
{
	struct chunk *next;

	for (; chunk; chunk = next) {
		next = chunk->next;
		munmap(chunk, CHUNK);
	}
}

static struct chunk *map_chunk(struct backlog *backlog)
{
	struct chunk *chunk;

	if (backlog->nr == backlog->max)
		return NULL;
	chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chunk == MAP_FAILED)
		return NULL;
	backlog->nr++;
	return chunk;
}

struct backlog *backlog_create(uint64_t bytes)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	struct backlog *backlog = mmap(NULL, sizeof(*backlog),
				       PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (backlog == MAP_FAILED)
		return NULL;
	backlog->lock = fresh;
	backlog->max = bytes > 2 * CHUNK ? (uint32_t)(bytes / CHUNK) : 2;
	backlog->owners = 1;
	/* For a process that gets no more memory later. */
	backlog->spares = map_chunk(backlog);
	backlog->nr_spares = backlog->spares != NULL;
	return backlog;
}

static void disown(struct backlog *backlog)
{
	if (atomic_fetch_sub(&backlog->owners, 1) > 1)
		return;
	free_all(backlog->first);
	free_all(backlog->spares);
	munmap(backlog, sizeof(*backlog));
}

void backlog_end(struct backlog *backlog)
{
	pthread_mutex_lock(&backlog->lock);
	backlog->is_over = true;
	pthread_mutex_unlock(&backlog->lock);
	wait_wake(&backlog->turn);
}

void backlog_destroy(struct backlog *backlog)
{
	if (!backlog)
		return;
	backlog_end(backlog);
	if (backlog->taken)
		munmap(backlog->taken, CHUNK);
	disown(backlog);
}

/* ---- Reading, with the lock held ---- */

static bool add_chunk(struct backlog *backlog)
{
	struct chunk *chunk = backlog->spares;

	if (chunk) {
		backlog->spares = chunk->next;
		backlog->nr_spares--;
	} else {
		chunk = map_chunk(backlog);
		if (!chunk)
			return false;
	}
	chunk->next = NULL;
	chunk->len = 0;
	chunk->number = ++backlog->nr_read;
	if (backlog->last)
		backlog->last->next = chunk;
	else
		backlog->first = chunk;
	backlog->last = chunk;
	return true;
}

/* What of it fits into the last chunk; returns bytes. */
static size_t move(struct backlog *backlog, struct thread *state)
{
	struct chunk *chunk = backlog->last;
	struct backlog_run *run;

	if (!chunk || ROOM - chunk->len <= sizeof(*run))
		return 0;
	run = (void *)(chunk->bytes + chunk->len);
	run->state = state;
	run->len = ring_move(thread_read_ring(state), run + 1,
			     ROOM - chunk->len - sizeof(*run));
	if (run->len)
		chunk->len += sizeof(*run) + run->len;
	return run->len;
}

/* False: no room for all.  *fill: raised to what was in it, in %. */
static bool read_ring(struct backlog *backlog, struct thread *state,
		      uint64_t *fill)
{
	uint64_t bytes = 0;
	bool has_room = true;
	struct ring *ring;
	size_t len;

	while ((ring = thread_read_ring(state)) && has_room &&
	       ring_peek(ring)) {
		len = move(backlog, state);
		bytes += len;
		if (!len)
			has_room = add_chunk(backlog);
	}
	loss_add(LOSS_RING_FULL, ring_take_drops(ring));
	bytes = bytes * 100 / ring_size(ring);
	if (bytes > *fill)
		*fill = bytes;
	return has_room;
}

static bool read_rings(struct backlog *backlog, uint64_t *fill)
{
	struct thread *state = NULL;
	bool is_all = true;

	*fill = 0;
	while ((state = thread_next(state)))
		is_all &= read_ring(backlog, state, fill);
	return is_all;
}

bool backlog_read(struct backlog *backlog)
{
	uint64_t fill;
	bool is_all;

	pthread_mutex_lock(&backlog->lock);
	is_all = read_rings(backlog, &fill);
	backlog->newest = backlog->nr_read;
	pthread_mutex_unlock(&backlog->lock);
	return is_all;
}

/* ---- The writer ---- */

static void give_back(struct backlog *backlog, struct chunk *chunk)
{
	if (backlog->nr_spares < SPARES) {
		chunk->next = backlog->spares;
		backlog->spares = chunk;
		backlog->nr_spares++;
	} else {
		munmap(chunk, CHUNK);
		backlog->nr--;
	}
}

/* The next chunk, in place of the one that is done. */
static bool take_chunk(struct backlog *backlog)
{
	struct chunk *next;

	pthread_mutex_lock(&backlog->lock);
	if (backlog->taken)
		give_back(backlog, backlog->taken);
	next = backlog->first;
	if (next && next->number > backlog->newest)
		next = NULL;
	if (next) {
		backlog->first = next->next;
		if (!backlog->first)
			backlog->last = NULL;
	}
	backlog->taken = next;
	backlog->at = 0;
	pthread_mutex_unlock(&backlog->lock);
	return next;
}

const struct backlog_run *backlog_next(struct backlog *backlog)
{
	const struct backlog_run *run;

	while (!backlog->taken || backlog->at == backlog->taken->len)
		if (!take_chunk(backlog))
			return NULL;
	run = (const void *)(backlog->taken->bytes + backlog->at);
	backlog->at += sizeof(*run) + run->len;
	return run;
}

/* ---- The reader ---- */

static uint64_t look_inside(struct backlog *backlog)
{
	uint64_t fill;

	backlog->nr_idle = 0;
	return read_rings(backlog, &fill) && fill > FILL_SOON ? READ_SOON_MS :
		READ_MS;
}

static uint64_t look_outside(struct backlog *backlog)
{
	if (backlog->nr_idle < AWAKE_LOOKS) {
		backlog->nr_idle++;
		return READ_MS;
	}
	atomic_store(&backlog->is_asleep, true);
	return ASLEEP_MS;
}

/* Returns how long to sleep then; 0: it is over. */
static uint64_t look(struct backlog *backlog)
{
	uint64_t ms = 0;

	pthread_mutex_lock(&backlog->lock);
	if (!backlog->is_over)
		ms = window_is_open(window_epoch()) ? look_inside(backlog) :
			look_outside(backlog);
	pthread_mutex_unlock(&backlog->lock);
	return ms * NS_PER_MS;
}

static void *run(void *argument)
{
	struct backlog *backlog = argument;
	uint32_t seen = atomic_load(&backlog->turn);
	uint64_t ns;

	while ((ns = look(backlog))) {
		wait_change(&backlog->turn, seen, ns);
		seen = atomic_load(&backlog->turn);
	}
	disown(backlog);
	return NULL;
}

int backlog_start(struct backlog *backlog)
{
	int error;

	atomic_fetch_add(&backlog->owners, 1);
	error = own_thread_start("gputrace-reader", run, backlog);
	if (error)
		atomic_fetch_sub(&backlog->owners, 1);
	return error;
}

void backlog_wake(struct backlog *backlog)
{
	if (atomic_exchange(&backlog->is_asleep, false))
		wait_wake(&backlog->turn);
}
