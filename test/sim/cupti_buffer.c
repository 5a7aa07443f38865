// SPDX-License-Identifier: MIT
/* Activity buffers: asked for, filled, and handed back by the worker. */
#include "test/sim/cupti_sim.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work, done;	/* for the worker, from the worker */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static struct sim_buffer *first, **last = &first;	/* not handed back */
static struct sim_buffer *shared;
static struct sim_buffer *ready, **ready_last = &ready;	/* for the worker */
static size_t handed_over, handed_back, dropped, record_count;
static pid_t owner;

static void close_buffer(struct sim_buffer *b)
{
	if (b->slot)
		*b->slot = NULL;
	b->slot = NULL;
}

static bool is_complete(const struct sim_buffer *b)
{
	return b->end <= sim_now();
}

/* From the list to the worker; caller holds the lock. */
static void hand_over(struct sim_buffer **at)
{
	struct sim_buffer *b = *at;

	close_buffer(b);
	*at = b->next;
	if (last == &b->next)
		last = at;
	b->next = NULL;
	*ready_last = b;
	ready_last = &b->next;
	handed_over++;
	pthread_cond_signal(&work);
}

/* Not before an unfinished one of the same thread; of another's it may. */
static bool may_go(const struct sim_buffer *b)
{
	if (!is_complete(b))
		return false;
	for (const struct sim_buffer *o = first; o != b; o = o->next)
		if (o->thread == b->thread && !is_complete(o))
			return false;
	return true;
}

/* Closed buffers go by themselves. */
static void hand_over_closed(void)
{
	struct sim_buffer **at = &first;

	while (*at) {
		if (!(*at)->slot && may_go(*at))
			hand_over(at);
		else
			at = &(*at)->next;
	}
}

static bool something_closed(void)
{
	for (struct sim_buffer *b = first; b; b = b->next)
		if (!b->slot)
			return true;
	return false;
}

static void free_buffer(struct sim_buffer *b)
{
	free(b->pending);
	free(b);
}

static void hand_back(struct sim_buffer *b)
{
	uint64_t late = sim_env_number("SIM_LATE_MS", 0);

	if (late)
		usleep((useconds_t)(late * 1000));
	if (complete)
		complete(NULL, 0, b->memory, b->size, b->used);
	free_buffer(b);
}

static void wait_for_work(void)
{
	struct timespec t;
	uint64_t wake = sim_now() + (something_closed() ? 1000000u :
				     1000000000u);

	t.tv_sec = (time_t)(wake / 1000000000u);
	t.tv_nsec = (long)(wake % 1000000000u);
	pthread_cond_timedwait(&work, &lock, &t);
}

static void *worker(void *unused)
{
	struct sim_buffer *b;

	pthread_setname_np(pthread_self(), "cupti-sim");
	pthread_mutex_lock(&lock);
	for (;;) {
		hand_over_closed();
		b = ready;
		if (!b) {
			wait_for_work();
			continue;
		}
		ready = b->next;
		if (!ready)
			ready_last = &ready;
		pthread_mutex_unlock(&lock);
		hand_back(b);
		pthread_mutex_lock(&lock);
		handed_back++;
		pthread_cond_broadcast(&done);
	}
	return unused;
}

/* An ending thread's buffer goes back by itself (seen on an H200). */
static void thread_ends(void *slot)
{
	struct sim_buffer **s = slot;

	pthread_mutex_lock(&lock);
	if (*s)
		close_buffer(*s);
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	free(slot);
}

static void start(void)
{
	pthread_condattr_t a;
	pthread_t t;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&work, &a);
	pthread_cond_init(&done, &a);
	pthread_condattr_destroy(&a);
	pthread_key_create(&key, thread_ends);
	owner = getpid();
	if (!pthread_create(&t, NULL, worker, NULL))
		pthread_detach(t);
}

static struct sim_buffer **active_slot(void)
{
	struct sim_buffer **slot;

	if (!sim_attribute_per_thread())
		return &shared;
	slot = pthread_getspecific(key);
	if (!slot) {
		slot = calloc(1, sizeof(*slot));
		pthread_setspecific(key, slot);
	}
	return slot;
}

/* CUPTI before 12.9 did not survive a refusal. */
static void refused(void)
{
	if (sim_cupti_version() < 27)
		raise(SIGSEGV);
}

static struct sim_buffer *new_buffer(struct sim_buffer **slot)
{
	struct sim_buffer *b;
	uint8_t *memory = NULL;
	size_t size = 0, limit = 0;

	if (!request)
		return NULL;
	request(&memory, &size, &limit);
	if (!memory || !size) {
		refused();
		return NULL;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	if (!sim_attribute_zeroed())
		memset(memory, 0, size);
	b->memory = memory;
	b->size = size;
	b->limit = limit;
	b->slot = slot;
	b->thread = slot == &shared ? 0 : gettid();
	*slot = b;
	*last = b;
	last = &b->next;
	return b;
}

static bool fits(const struct sim_buffer *b, size_t size)
{
	return b->used + size <= b->size &&
	       (!b->limit || b->records < b->limit);
}

static struct sim_buffer *buffer_for(size_t size, bool *is_new)
{
	struct sim_buffer **slot = active_slot();

	if (*slot && fits(*slot, size))
		return *slot;
	if (*slot) {
		close_buffer(*slot);
		pthread_cond_signal(&work);
	}
	*is_new = true;
	if (!new_buffer(slot))
		return NULL;
	return fits(*slot, size) ? *slot : NULL;
}

static void add_pending(struct sim_buffer *b, uint64_t end)
{
	if (b->pending_count == b->pending_space) {
		size_t space = b->pending_space ? 2 * b->pending_space : 64;
		void *more = realloc(b->pending, space * sizeof(*b->pending));

		if (!more)
			return;
		b->pending = more;
		b->pending_space = space;
	}
	b->pending[b->pending_count++] = (struct sim_pending){ b->used, end };
}

static bool wants_drop(void)
{
	uint64_t every = sim_env_number("SIM_DROP", 0);

	return every && ++record_count % every == 0;
}

static void append(struct sim_buffer *b, const void *record, size_t size,
		   uint64_t end)
{
	memcpy(b->memory + b->used, record, size);
	if (end)
		add_pending(b, end);
	if (end > b->end)
		b->end = end;
	b->used += size;
	b->records++;
}

/*
 * That a buffer was asked for is told behind the record that needed it (H200);
 * from 12.6 on, by its release notes.
 */
static void append_request(struct sim_buffer *b, uint64_t since)
{
	CUpti_ActivityOverhead3 r = sim_overhead(
		CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, since,
		sim_now());
	size_t size = sim_record_size(r.kind);

	if (sim_kind_is_on(r.kind) && sim_cupti_version() >= 24 &&
	    fits(b, size))
		append(b, &r, size, 0);
}

void sim_record_add(const void *record, uint64_t end)
{
	size_t size = sim_record_size(((const CUpti_Activity *)record)->kind);
	uint64_t since = sim_now();
	struct sim_buffer *b;
	bool is_new = false;

	pthread_once(&once, start);
	pthread_mutex_lock(&lock);
	b = request ? buffer_for(size, &is_new) : NULL;
	if (!b || wants_drop()) {
		dropped += request != NULL;
	} else {
		append(b, record, size, end);
		if (is_new)
			append_request(b, since);
	}
	pthread_mutex_unlock(&lock);
}

/* start and end are at @16 in kernel, copy and set, @8 in a graph's record. */
static void cut_record(uint8_t *record)
{
	CUpti_ActivityKernel10 *k = (void *)record;
	CUpti_ActivityGraphTrace2 *g = (void *)record;

	if (k->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
		g->start = g->end = 0;
		return;
	}
	k->start = k->end = 0;
	if (k->kind == CUPTI_ACTIVITY_KIND_KERNEL ||
	    k->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		k->completed = 0;
}

static void cut_unfinished(struct sim_buffer *b)
{
	uint64_t now = sim_now();

	for (size_t i = 0; i < b->pending_count; i++)
		if (b->pending[i].end > now)
			cut_record(b->memory + b->pending[i].offset);
	b->end = 0;
}

/* Until the worker is through; a client inside its callback may not ask. */
static void wait_for_worker(void)
{
	size_t target = handed_over;

	while (handed_back < target && !sim_env_number("SIM_LATE_MS", 0))
		pthread_cond_wait(&done, &lock);
}

void sim_buffers_flush(bool forced)
{
	struct sim_buffer **at = &first;

	pthread_once(&once, start);
	while (owner != getpid())	/* a forked child hangs, as there */
		pause();
	sim_wait_until(sim_now() + sim_env_number("SIM_FLUSH_MS", 0) * 1000000);
	pthread_mutex_lock(&flush_lock);
	pthread_mutex_lock(&lock);
	while (*at) {
		if (!forced && !may_go(*at)) {
			at = &(*at)->next;
			continue;
		}
		if (!is_complete(*at))
			cut_unfinished(*at);
		hand_over(at);
	}
	wait_for_worker();
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&flush_lock);
}

void sim_buffers_forget(void)
{
	pthread_mutex_lock(&lock);
	while (first) {
		struct sim_buffer *b = first;

		close_buffer(b);
		first = b->next;
		free_buffer(b);
	}
	last = &first;
	request = NULL;
	complete = NULL;
	pthread_mutex_unlock(&lock);
}

size_t sim_dropped_take(void)
{
	size_t n;

	pthread_mutex_lock(&lock);
	n = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return n;
}

/* The last one to register wins; buffers of the former are forgotten. */
void sim_buffers_register(CUpti_BuffersCallbackRequestFunc r,
			  CUpti_BuffersCallbackCompleteFunc c)
{
	pthread_mutex_lock(&lock);
	request = r;
	complete = c;
	pthread_mutex_unlock(&lock);
}
