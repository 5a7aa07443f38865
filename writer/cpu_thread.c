/* SPDX-License-Identifier: MIT */
#include "writer/cpu_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collector/loss.h"
#include "writer/bytes.h"

enum { NR_BUCKETS = 1024 };

int cpu_threads_init(struct cpu_threads *threads, uint64_t memory)
{
	memset(threads, 0, sizeof(*threads));
	threads->max = memory / 512 < CPU_THREADS_MAX ?
		(uint32_t)(memory / 512) : CPU_THREADS_MAX;
	threads->buckets = calloc(NR_BUCKETS, sizeof(*threads->buckets));
	return threads->buckets ? 0 : -ENOMEM;
}

void cpu_threads_fini(struct cpu_threads *threads)
{
	struct cpu_thread *thread;

	while ((thread = threads->list)) {
		threads->list = thread->next;
		free(thread->held);
		free(thread->long_name);
		free(thread);
	}
	free(threads->buckets);
	memset(threads, 0, sizeof(*threads));
}

/* The kernel's name of the thread (15 bytes, perhaps cut inside a UTF-8
 * sequence).  False if the thread is no more. */
static bool read_name(struct cpu_thread *thread)
{
	char path[64], name[32];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, name, sizeof(name));
	close(fd);
	if (len > 0 && name[len - 1] == '\n')
		len--;
	if (len < 0)
		return false;
	/* A thread may have no name: then we have one for it. */
	if (len) {
		memcpy(thread->short_name, name, (size_t)len);
		thread->name_len = (uint32_t)len;
	}
	return true;
}

static struct cpu_thread *create(struct cpu_threads *threads,
				 struct tracks *tracks, uint32_t tid,
				 uint64_t begin_ns)
{
	struct cpu_thread **bucket = &threads->buckets[tid % NR_BUCKETS];
	struct cpu_thread *thread;

	if (threads->nr >= threads->max)
		return NULL;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = tid;
	thread->name = thread->short_name;
	thread->lane = track_thread(tracks, thread, tid, begin_ns);
	if (!thread->lane) {
		free(thread);
		return NULL;
	}
	thread->is_gone = !read_name(thread);
	if (!thread->name_len)
		thread->name_len = (uint32_t)snprintf(thread->short_name,
			sizeof(thread->short_name), "thread %u", tid);
	thread->next_in_bucket = *bucket;
	*bucket = thread;
	thread->next = threads->list;
	threads->list = thread;
	threads->nr++;
	return thread;
}

struct cpu_thread *cpu_thread_find(struct cpu_threads *threads, uint32_t tid)
{
	struct cpu_thread *thread = threads->buckets[tid % NR_BUCKETS];

	while (thread && thread->tid != tid)
		thread = thread->next_in_bucket;
	return thread;
}

struct cpu_thread *cpu_thread_get(struct cpu_threads *threads,
				  struct tracks *tracks, uint32_t tid)
{
	struct cpu_thread *thread = threads->last;

	/* tid 0 is no thread's, and Perfetto would take it for the pid. */
	if (!tid)
		tid = tracks->pid;
	if (thread && thread->tid == tid)
		return thread;
	thread = cpu_thread_find(threads, tid);
	if (!thread)
		thread = create(threads, tracks, tid, 0);
	if (thread)
		threads->last = thread;
	else
		loss_add(LOSS_TABLE_FULL, 1);
	return thread;
}

static void set_name(struct cpu_thread *thread, const char *name, uint32_t len)
{
	if (!len)
		return;
	thread->name_len = len < THREAD_NAME_MAX ? len : THREAD_NAME_MAX;
	memcpy(thread->short_name, name, thread->name_len);
}

/* The last one wins, also over a longer one. */
static void set_long(struct cpu_threads *threads, struct cpu_thread *thread,
		     const char *name, uint32_t len)
{
	if (thread->long_name)
		threads->long_bytes -= thread->name_len;
	free(thread->long_name);
	thread->long_name = NULL;
	thread->name = thread->short_name;
	if (len <= THREAD_NAME_MAX)
		return;
	if (threads->long_bytes + len <= THREAD_NAMES_BYTES)
		thread->long_name = bytes_copy(name, len);
	if (thread->long_name) {
		threads->long_bytes += len;
		thread->name = thread->long_name;
		thread->name_len = len;
	} else {
		loss_add(LOSS_TEXT_CUT, 1);
	}
}

void cpu_thread_name(struct cpu_threads *threads, struct cpu_thread *thread,
		     const char *name, uint32_t len)
{
	if (!len)
		return;
	set_long(threads, thread, name, len);
	if (!thread->long_name)
		set_name(thread, name, len);
	thread->is_named = true;
}

static void set_comm(struct cpu_thread *thread, const char *name, uint32_t len)
{
	if (!thread->is_named)
		set_name(thread, name, len);
}

static void forget_tid(struct cpu_threads *threads, struct cpu_thread *thread)
{
	struct cpu_thread **at = &threads->buckets[thread->tid % NR_BUCKETS];

	while (*at && *at != thread)
		at = &(*at)->next_in_bucket;
	if (*at)
		*at = thread->next_in_bucket;
	if (threads->last == thread)
		threads->last = NULL;
}

void cpu_thread_begin(struct cpu_threads *threads, struct tracks *tracks,
		      uint32_t tid, const struct name_record *record)
{
	struct cpu_thread *thread = cpu_thread_find(threads, tid);

	/* Its lane is another's by now: it is made anew. */
	if (thread && thread->lane->user != thread) {
		forget_tid(threads, thread);
		thread = NULL;
	}
	/* Only here it is known since when it is there. */
	if (!thread && track_is_shared(tracks))
		thread = create(threads, tracks, tid, record->head.t_ns);
	if (!thread)
		return;
	set_comm(thread, record->text, record->head.len);
	thread->is_gone = thread->has_ended = false;
	thread->lane->is_ended = false;
}

void cpu_thread_end(struct tracks *tracks, struct cpu_thread *thread,
		    const char *name, uint32_t len, uint64_t t_ns)
{
	set_comm(thread, name, len);
	thread->is_gone = thread->has_ended = true;
	thread->end_age = 0;
	if (thread->lane->user == thread)
		track_end_thread(tracks, thread->lane, t_ns);
}

/* Three batches: by then its last calls have come. */
static bool is_settled(struct cpu_thread *thread)
{
	return thread->has_ended && thread->lane->thread != thread &&
	       !thread->log && !thread->nr_held && ++thread->end_age > 3;
}

void cpu_threads_sweep(struct cpu_threads *threads)
{
	struct cpu_thread **at = &threads->list, *thread;

	while ((thread = *at)) {
		if (!is_settled(thread)) {
			at = &thread->next;
			continue;
		}
		*at = thread->next;
		forget_tid(threads, thread);
		if (thread->long_name)
			threads->long_bytes -= thread->name_len;
		free(thread->long_name);
		free(thread->held);
		if (thread->lane->user == thread)
			thread->lane->user = NULL;
		free(thread);
		threads->nr--;
	}
}

void cpu_threads_refresh(struct cpu_threads *threads)
{
	struct cpu_thread *thread;

	for (thread = threads->list; thread; thread = thread->next)
		if (!thread->is_named && !thread->is_gone)
			thread->is_gone = !read_name(thread);
}
