/* SPDX-License-Identifier: MIT */
#include "collector/source.h"

#include <string.h>

#include "collector/loss.h"
#include "collector/nvtx_record.h"
#include "collector/nvtx_text.h"
#include "collector/thread.h"

static void fill(struct slice_record *record, const struct slice_record *head,
		 const uint64_t *values, const char *text)
{
	*record = *head;
	if (head->nr_values)
		memcpy(record->values, values,
		       head->nr_values * sizeof *values);
	if (head->head.len)
		memcpy(record->values + head->nr_values, text, head->head.len);
}

static void put(struct slice_record *head, const uint64_t *values,
		const char *text)
{
	uint32_t size = (uint32_t)(sizeof *head + head->nr_values *
				   sizeof *values + ((head->head.len + 7u) &
						     ~7u));
	struct thread *thread = thread_enter();
	struct slice_record *record;

	if (!thread)
		return;
	head->head.size = (uint16_t)size;
	record = ring_reserve(thread_ring(thread), size);
	if (record) {
		fill(record, head, values, text);
		ring_commit(thread_ring(thread));
	}
	thread_leave(thread);
}

void source_slice(const struct slice_kind *kind, uint32_t tid,
		  uint64_t start_ns, uint64_t end_ns, const uint64_t *values,
		  uint32_t nr_values, const char *text, uint32_t text_len)
{
	struct slice_record head = {
		.head = { .kind = RECORD_SLICE, .t_ns = start_ns,
			  .len = text_len },
		.end_ns = end_ns, .kind = kind, .tid = tid,
		.nr_values = nr_values,
	};

	if (text_len > RECORD_TEXT_MAX)
		head.head.len = (uint32_t)nvtx_text_fit(text, text_len,
							RECORD_TEXT_MAX);
	put(&head, values, text);
}

static void put_values(enum record_kind record, const struct slice_kind *kind,
		       uint32_t device, uint64_t t_ns, const uint64_t *values,
		       uint32_t nr_values)
{
	struct slice_record head = {
		.head = { .kind = (uint16_t)record, .t_ns = t_ns },
		.kind = kind, .tid = device, .nr_values = nr_values,
	};

	put(&head, values, NULL);
}

void source_count(const struct slice_kind *kind, uint32_t device,
		  uint64_t t_ns, const uint64_t *values, uint32_t nr_values)
{
	put_values(RECORD_COUNTER, kind, device, t_ns, values, nr_values);
}

void source_instant(const struct slice_kind *kind, uint32_t device,
		    uint64_t t_ns, const uint64_t *values, uint32_t nr_values)
{
	put_values(RECORD_INSTANT, kind, device, t_ns, values, nr_values);
}

int source_range_push(struct nvtx_domain *domain, const char *name,
		      uint32_t name_len, const char *args, uint32_t args_len)
{
	struct nvtx_message message = {
		.domain = domain, .text = name, .len = name_len,
		.args = args, .args_len = args_len,
	};

	if (name_len > RECORD_TEXT_MAX / 2) {
		message.len = (uint32_t)nvtx_text_fit(name, name_len,
						      RECORD_TEXT_MAX / 2);
		message.flags |= RECORD_CUT;
	}
	/* Half a list of members is none. */
	if (args_len > RECORD_TEXT_MAX / 2) {
		message.args_len = 0;
		loss_add(LOSS_TEXT_CUT, 1);
	}
	return nvtx_push_quietly(&message);
}

int source_range_pop(struct nvtx_domain *domain)
{
	return nvtx_pop_quietly(domain);
}
