/* SPDX-License-Identifier: MIT */
#include "collector/nvtx_record.h"

#include <stdatomic.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/nvtx_marks.h"
#include "collector/nvtx_payload.h"
#include "collector/nvtx_text.h"
#include "collector/open_ranges.h"
#include "collector/ring.h"
#include "collector/started_ranges.h"
#include "collector/thread.h"
#include "collector/window.h"

static uint32_t record_size(const struct nvtx_message *message)
{
	return (uint32_t)(sizeof(struct range_record) +
			  ((message->len + message->args_len + 7u) & ~7u));
}

static void copy_args(char *to, const struct nvtx_message *message)
{
	if (message->flags & RECORD_PAYLOAD)
		nvtx_payload_copy(message, to);
	else
		memcpy(to, message->args, message->args_len);
}

static void fill(struct range_record *record, uint16_t kind, uint64_t id,
		 const struct nvtx_message *message)
{
	record->head.kind = kind;
	record->head.size = (uint16_t)record_size(message);
	record->head.len = message->len;
	record->head.t_ns = 0;
	record->domain = message->domain;
	record->string = message->string;
	record->id = id;
	record->payload = message->payload;
	record->color = message->color;
	record->category = message->category;
	record->payload_type = message->payload_type;
	record->flags = message->flags;
	record->args_len = (uint16_t)message->args_len;
	if (message->wide)      /* shorter where the program changed it */
		record->head.len = (uint32_t)nvtx_utf8(record->text,
			message->len, message->wide);
	else if (message->len)
		memcpy(record->text, message->text, message->len);
	if (message->args_len) {
		copy_args(record->text + record->head.len, message);
		record->head.len += message->args_len;
	}
}

static void put(struct ring *ring, uint16_t kind, uint64_t id,
		const struct nvtx_message *message)
{
	struct range_record *record = ring_reserve(ring,
						   record_size(message));

	if (!record)
		return;
	fill(record, kind, id, message);
	record->head.t_ns = clock_now_ns();
	ring_commit(ring);
}

/* POP and END: what they close, when, and what the program says last (NULL:
 * nothing). */
static void put_end(struct ring *ring, uint16_t kind,
		    const struct nvtx_domain *domain, uint64_t id,
		    const struct nvtx_message *last)
{
	struct range_record *record;

	if (last) {
		put(ring, kind, id, last);
		return;
	}
	record = ring_reserve(ring, RECORD_END_SIZE);
	if (!record)
		return;
	record->head.kind = kind;
	record->head.size = RECORD_END_SIZE;
	record->head.len = 0;
	record->domain = domain;
	record->id = id;
	record->head.t_ns = clock_now_ns();
	ring_commit(ring);
}

/* A start/end range from before the window, which the writer may not have
 * seen yet: the thread that ends it carries it in. */
static void put_started(struct ring *ring, uint64_t id, uint32_t epoch)
{
	uint32_t size = started_ranges_old(id, epoch);
	struct range_record *record = size ? ring_reserve(ring, size) : NULL;

	if (record && started_ranges_get(id, epoch, record, size))
		ring_commit(ring);
}

/* A copy of a record that was made before the window. */
static void put_carried(struct ring *ring, const struct range_record *open,
			uint64_t opened_ns)
{
	struct range_record *record = ring_reserve(ring, open->head.size);

	if (!record)
		return;
	memcpy(record, open, open->head.size);
	record->head.t_ns = opened_ns;
	record->flags |= RECORD_CARRIED;
	ring_commit(ring);
}

static _Atomic uint32_t muted;

void nvtx_mute(bool is_muted)
{
	atomic_store(&muted, is_muted);
}

bool nvtx_is_muted(void)
{
	return atomic_load_explicit(&muted, memory_order_relaxed);
}

static inline bool is_of_source(const struct nvtx_domain *domain)
{
	return domain && domain->cat;
}

/* Even, as between windows, in one that has no ranges of NVTX. */
static inline uint32_t own_epoch(const struct nvtx_domain *domain)
{
	uint32_t epoch = window_epoch();

	if (window_is_open(epoch) && !is_of_source(domain))
		epoch &= ~(uint32_t)nvtx_is_muted();
	return epoch;
}

/* The thread's first call in this window: say which ranges it is in. */
static void carry(struct thread *thread, struct range_stack *stack,
		  uint32_t epoch)
{
	uint64_t opened_ns = window_opened_ns(epoch);
	const struct range_record *open;
	uint32_t at = 0;

	thread_grow(thread);
	while ((open = open_ranges_next(stack, &at)))
		if (!nvtx_is_muted() || is_of_source(open->domain))
			put_carried(thread_ring(thread), open, opened_ns);
	if (stack->not_kept)
		loss_add(LOSS_TABLE_FULL, stack->not_kept);
	atomic_store_explicit(&stack->epoch, epoch, memory_order_relaxed);
}

/* The default domain has no handle.  Atomic: in a late load the first calls
 * come through a pointer that NVTX reads without one. */
static atomic_bool default_is_recorded = true;

void nvtx_record_default(bool recorded)
{
	atomic_store(&default_is_recorded, recorded);
}

static bool is_recorded(const struct nvtx_domain *domain)
{
	return domain ? domain->recorded :
		atomic_load_explicit(&default_is_recorded,
				     memory_order_relaxed);
}

/* The calling thread with its stack entered, or NULL: drop the call. */
static struct thread *enter_any(const struct nvtx_domain *domain,
				uint32_t *epoch)
{
	struct thread *thread = thread_enter();
	struct range_stack *stack;

	if (!thread)
		return NULL;
	stack = thread_ranges(thread);
	*epoch = own_epoch(domain);
	if (window_is_open(*epoch) &&
	    atomic_load_explicit(&stack->epoch, memory_order_relaxed) !=
	    *epoch)
		carry(thread, stack, *epoch);
	return thread;
}

static struct thread *enter(const struct nvtx_domain *domain, uint32_t *epoch)
{
	return is_recorded(domain) ? enter_any(domain, epoch) : NULL;
}

static inline int record_push(const struct nvtx_message *message)
{
	uint32_t epoch, size = record_size(message);
	struct thread *thread = enter(message->domain, &epoch);
	struct range_record *kept;
	struct range_stack *stack;
	uint64_t level;

	if (!thread)
		return -1;
	stack = thread_ranges(thread);
	kept = open_ranges_push(stack, message->domain, size, &level);
	if (kept)
		fill(kept, RECORD_RANGE_PUSH, level, message);
	if (window_is_open(epoch))
		put(thread_ring(thread), RECORD_RANGE_PUSH, level, message);
	thread_leave(thread);
	return (int)level;
}

static inline int64_t pop(struct thread *thread,
			  const struct nvtx_domain *domain, uint32_t epoch,
			  const struct nvtx_message *last)
{
	int64_t level = open_ranges_pop(thread_ranges(thread), domain);

	if (level >= 0 && window_is_open(epoch))
		put_end(thread_ring(thread), RECORD_RANGE_POP, domain,
			(uint64_t)level, last);
	return level;
}

/* A module that began inside a range which ends: it is over, or the two would
 * cross. */
static void pop_inside(struct thread *thread, const struct nvtx_domain *domain)
{
	struct range_stack *stack = thread_ranges(thread);
	const struct nvtx_domain *inside;

	while ((inside = open_ranges_inside(stack, domain)))
		(void)pop(thread, inside, own_epoch(inside), NULL);
}

static inline int record_pop(const struct nvtx_domain *domain,
			     const struct nvtx_message *last)
{
	uint32_t epoch;
	struct thread *thread = enter(domain, &epoch);
	int64_t level;

	if (!thread)
		return -1;
	if (__builtin_expect(thread_ranges(thread)->nr_passing != 0, 0))
		pop_inside(thread, domain);
	level = pop(thread, domain, epoch, last);
	thread_leave(thread);
	return (int)level;
}

/* Without its payload where there is no room for it, and its name cut where
 * only that is in the way. */
static void cut_to(struct nvtx_message *message, uint32_t room)
{
	uint32_t len = message->len;

	if (message->flags & RECORD_PAYLOAD) {
		message->flags &= (uint8_t)~RECORD_PAYLOAD;
		message->flags |= RECORD_PAYLOAD_CUT;
		message->args_len = 0;
	}
	if (record_size(message) <= room)
		return;
	message->len = room - (uint32_t)sizeof(struct range_record);
	if (!message->wide)
		message->len = (uint32_t)nvtx_text_fit(message->text, len,
						       message->len);
	message->flags |= RECORD_CUT;
}

static void keep_started(uint64_t id, uint32_t epoch,
			 const struct nvtx_message *message)
{
	uint32_t room;
	struct range_record *kept = started_ranges_add(id,
		record_size(message), &room);
	struct nvtx_message cut;

	if (!kept)
		return;
	if (record_size(message) > room) {
		cut = *message;
		cut_to(&cut, room);
		message = &cut;
	}
	fill(kept, RECORD_RANGE_START, id, message);
	started_ranges_publish(id, epoch);
}

static uint64_t record_start(const struct nvtx_message *message)
{
	uint32_t epoch = own_epoch(message->domain);
	struct thread *thread;
	uint64_t id;

	if (!is_recorded(message->domain))
		return 0;       /* as NVTX does where nobody listens */
	id = started_ranges_new_id();
	keep_started(id, epoch, message);
	if (window_is_open(epoch)) {
		thread = enter(message->domain, &epoch);
		if (thread) {
			put(thread_ring(thread), RECORD_RANGE_START, id,
			    message);
			thread_leave(thread);
		}
	}
	return id;
}

static inline void record_end(uint64_t id, const struct nvtx_message *last)
{
	uint32_t epoch = own_epoch(NULL);
	struct thread *thread = NULL;

	if (!id)
		return;
	if (window_is_open(epoch))
		thread = enter_any(NULL, &epoch);
	if (thread)
		put_started(thread_ring(thread), id, epoch);
	started_ranges_remove(id);
	if (!thread)
		return;
	put_end(thread_ring(thread), RECORD_RANGE_END, NULL, id, last);
	thread_leave(thread);
}

static void record_mark(const struct nvtx_message *message)
{
	uint32_t epoch = own_epoch(message->domain);
	struct thread *thread;

	if (!window_is_open(epoch))
		return;
	thread = enter(message->domain, &epoch);
	if (!thread)
		return;
	put(thread_ring(thread), RECORD_MARK, 0, message);
	thread_leave(thread);
}

/* ---- As the program calls them ---- */

int nvtx_push_quietly(const struct nvtx_message *message)
{
	return record_push(message);
}

int nvtx_pop_quietly(const struct nvtx_domain *domain)
{
	return record_pop(domain, NULL);
}

int nvtx_push(const struct nvtx_message *message)
{
	if (nvtx_marks_wanted())
		(void)nvtx_marks_before(message, true);
	return record_push(message);
}

int nvtx_pop(const struct nvtx_domain *domain)
{
	int level = record_pop(domain, NULL);

	if (nvtx_marks_wanted())
		nvtx_marks_after_pop(domain);
	return level;
}

int nvtx_pop_with(const struct nvtx_message *last)
{
	int level = record_pop(last->domain, last);

	if (nvtx_marks_wanted())
		nvtx_marks_after_pop(last->domain);
	return level;
}

uint64_t nvtx_start(const struct nvtx_message *message)
{
	uint32_t opened = nvtx_marks_wanted() ?
		nvtx_marks_before(message, false) : 0;
	uint64_t id = record_start(message);

	if (opened)
		nvtx_marks_after_start(opened, id);
	return id;
}

void nvtx_end(uint64_t id)
{
	record_end(id, NULL);
	if (nvtx_marks_wanted())
		nvtx_marks_after_end(id);
}

void nvtx_end_with(uint64_t id, const struct nvtx_message *last)
{
	record_end(id, last);
	if (nvtx_marks_wanted())
		nvtx_marks_after_end(id);
}

void nvtx_mark(const struct nvtx_message *message)
{
	record_mark(message);
	if (nvtx_marks_wanted())
		nvtx_marks_after_mark(message);
}

/* Names are seldom given and always kept, also outside windows. */
void nvtx_name(enum named_kind what, uint64_t handle, const char *text,
	       size_t whole_len)
{
	size_t len = nvtx_text_fit(text, whole_len, RECORD_TEXT_MAX);
	uint32_t size = (uint32_t)(sizeof(struct name_record) +
				   ((len + 7) & ~(size_t)7));
	struct thread *thread = thread_enter();
	struct name_record *record;

	if (!thread)
		return;
	record = ring_reserve(thread_ring(thread), size);
	if (record) {
		record->head = (struct record){ .kind = RECORD_NAME,
			.size = (uint16_t)size, .len = (uint32_t)len,
			.t_ns = clock_now_ns() };
		record->handle = handle;
		record->what = what;
		if (len)        /* without a name there may be no text */
			memcpy(record->text, text, len);
		ring_commit(thread_ring(thread));
	}
	thread_leave(thread);
}
