/* SPDX-License-Identifier: MIT */
/*
 * From NVTX calls to records: levels, carried ranges, bounds.  What NVTX's
 * documentation promises (levels from 0, -1 without a range) and what
 * record.h says.
 */
#include "collector/nvtx.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "collector/clock.h"
#include "collector/loss.h"
#include "collector/nvtx_record.h"
#include "collector/nvtx_text.h"
#include "collector/ring.h"
#include "collector/started_ranges.h"
#include "collector/thread.h"
#include "collector/window.h"
#include "test/check.h"

static int push(const struct nvtx_domain *domain, const char *text)
{
	struct nvtx_message message = { .domain = domain };

	nvtx_set_text(&message, text);
	return nvtx_push(&message);
}

/* Drops what the ring holds. */
static void drain(void)
{
	struct ring *ring = thread_ring(thread_self());

	while (ring_peek(ring))
		ring_release(ring);
}

static int has_text(const struct range_record *record, const char *text)
{
	return record->head.len == strlen(text) &&
		!memcmp(record->text, text, record->head.len);
}

#define RECORD(wanted_kind, wanted_id) \
	do { \
		record = (const void *)ring_peek(ring); \
		CHECK(record != NULL); \
		if (record) { \
			CHECK_EQ(record->head.kind, wanted_kind); \
			CHECK_EQ(record->id, wanted_id); \
		} \
	} while (0)

static void test_window(void)
{
	struct ring *ring = thread_ring(thread_self());
	const struct nvtx_domain *d = nvtx_domain_create("lib", 3);
	const struct range_record *record;
	uint8_t copy[8192];
	uint32_t epoch;

	CHECK_EQ(push(NULL, "outer"), 0);
	CHECK_EQ(push(NULL, "inner"), 1);
	CHECK_EQ(push(d, "other domain"), 0);
	CHECK_EQ(nvtx_pop(NULL), 1);
	CHECK(!ring_peek(ring));        /* no window, no record */

	epoch = window_open();
	CHECK(window_is_open(epoch));
	/* A silent thread's ranges are there for the asking. */
	CHECK(nvtx_carry(thread_self(), epoch, copy, sizeof copy) > 0);
	record = (const void *)copy;
	CHECK(has_text(record, "outer") && record->flags & RECORD_CARRIED);
	CHECK_EQ(record->head.t_ns, window_opened_ns(epoch));
	CHECK(record->head.t_ns);

	CHECK_EQ(push(NULL, "new"), 1);
	CHECK_EQ(nvtx_carry(thread_self(), epoch, copy, sizeof copy), 0);
	RECORD(RECORD_RANGE_PUSH, 0);
	CHECK(has_text(record, "outer") && record->flags & RECORD_CARRIED);
	ring_release(ring);
	RECORD(RECORD_RANGE_PUSH, 0);
	CHECK(has_text(record, "other domain") && record->domain == d);
	ring_release(ring);
	RECORD(RECORD_RANGE_PUSH, 1);
	CHECK(has_text(record, "new") && !(record->flags & RECORD_CARRIED));
	CHECK(record->head.t_ns > 0);
	ring_release(ring);
	CHECK_EQ(nvtx_pop(d), 0);
	RECORD(RECORD_RANGE_POP, 0);
	CHECK(record->domain == d);
	ring_release(ring);
	CHECK_EQ(nvtx_pop(d), -1);
	CHECK(!ring_peek(ring));
	CHECK_EQ(nvtx_pop(NULL), 1);
	CHECK_EQ(nvtx_pop(NULL), 0);
	CHECK_EQ(nvtx_pop(NULL), -1);
	drain();
	window_close();
}

static void test_deep(void)
{
	window_open();
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(push(NULL, "deep"), i);
	for (int i = 999; i >= 0; i--)
		CHECK_EQ(nvtx_pop(NULL), i);
	CHECK_EQ(nvtx_pop(NULL), -1);
	drain();
	window_close();
}

/* Each domain has levels of its own, also where they are only counted: what
 * NVTX's documentation says of nvtxDomainRangePop. */
static void test_deep_domains(void)
{
	const struct nvtx_domain *domains[40];
	char name[16];
	int i, d;

	for (d = 0; d < 40; d++) {
		snprintf(name, sizeof name, "deep %d", d);
		domains[d] = nvtx_domain_create(name, strlen(name));
	}
	window_open();
	CHECK_EQ(push(domains[1], "kept"), 0);
	for (i = 0; i < 1000; i++)
		CHECK_EQ(push(domains[0], "deep"), i);
	CHECK_EQ(push(domains[1], "beyond"), 1);
	CHECK_EQ(push(domains[2], "beyond"), 0);
	for (i = 0; i < 700; i++)
		CHECK_EQ(nvtx_pop(domains[0]), 999 - i);
	CHECK_EQ(nvtx_pop(domains[1]), 1);
	CHECK_EQ(nvtx_pop(domains[1]), 0);
	CHECK_EQ(nvtx_pop(domains[1]), -1);
	for (i = 300; i-- > 0;)
		CHECK_EQ(nvtx_pop(domains[0]), i);
	CHECK_EQ(nvtx_pop(domains[2]), 0);
	CHECK_EQ(nvtx_pop(domains[2]), -1);
	/* Popped below others, there is room again, but not in turn. */
	for (i = 0; i < 300; i++)
		CHECK_EQ(push(NULL, "deep"), i);
	for (d = 0; d < 40; d++)
		CHECK_EQ(push(domains[d], "many"), d < 31 ? 0 : d - 30);
	for (d = 40; d-- > 0;)
		CHECK(nvtx_pop(domains[d]) >= 0);
	for (i = 300; i-- > 0;)
		CHECK_EQ(nvtx_pop(NULL), i);
	CHECK_EQ(nvtx_pop(NULL), -1);
	drain();
	window_close();
}

static void test_long_text(void)
{
	struct ring *ring = thread_ring(thread_self());
	static char text[10000];
	const struct range_record *record;

	memset(text, 'x', sizeof text - 1);
	window_open();
	CHECK_EQ(push(NULL, text), 0);
	RECORD(RECORD_RANGE_PUSH, 0);
	CHECK_EQ(record->head.len, RECORD_TEXT_MAX);
	CHECK(record->flags & RECORD_CUT);
	nvtx_pop(NULL);
	drain();
	window_close();
}

static void test_started(void)
{
	struct ring *ring = thread_ring(thread_self());
	struct nvtx_message message = { 0 };
	const struct range_record *record;
	uint8_t copy[8192];
	uint64_t before, inside;
	uint32_t epoch;

	nvtx_set_text(&message, "request");
	before = nvtx_start(&message);
	epoch = window_open();
	inside = nvtx_start(&message);
	CHECK(before && inside && before != inside);
	CHECK(nvtx_carry_started(epoch, copy, sizeof copy) > 0);
	record = (const void *)copy;
	CHECK_EQ(record->id, before);
	CHECK(record->flags & RECORD_CARRIED && has_text(record, "request"));
	RECORD(RECORD_RANGE_START, inside);
	ring_release(ring);
	/* Nobody knows here that the writer has asked. */
	nvtx_end(before);
	RECORD(RECORD_RANGE_START, before);
	CHECK(record->flags & RECORD_CARRIED && has_text(record, "request"));
	CHECK_EQ(record->head.t_ns, window_opened_ns(epoch));
	ring_release(ring);
	RECORD(RECORD_RANGE_END, before);
	ring_release(ring);
	nvtx_end(inside);
	nvtx_end(12345678);             /* unknown: recorded, harmless */
	drain();
	CHECK_EQ(nvtx_carry_started(epoch + 2, copy, sizeof copy), 0);
	window_close();
}

/* The writer asks for a window when the program is in the next one already:
 * what was opened there is no range from before either. */
static void test_late_writer(void)
{
	struct nvtx_message message = { 0 };
	uint8_t copy[8192];
	uint32_t epoch = window_open();
	uint64_t id;

	window_close();
	window_open();
	push(NULL, "of the next");
	nvtx_set_text(&message, "of the next");
	id = nvtx_start(&message);
	CHECK_EQ(nvtx_carry(thread_self(), epoch, copy, sizeof copy), 0);
	CHECK_EQ(nvtx_carry_started(epoch, copy, sizeof copy), 0);
	nvtx_end(id);
	nvtx_pop(NULL);
	window_close();
	drain();
}

static size_t nr_records(const uint8_t *bytes, size_t size)
{
	size_t nr = 0, at;

	for (at = 0; at < size; nr++)
		at += ((const struct record *)(const void *)(bytes + at))->size;
	return nr;
}

/* 300 open ranges with a long name each, and one that holds its slot for all
 * of the 5,000 others. */
static void test_long_started(void)
{
	static uint8_t copy[4 << 20];
	static uint64_t ids[300];
	struct nvtx_message message = { 0 };
	const struct range_record *record = (const void *)copy;
	char text[3000];
	uint64_t first;
	uint32_t epoch;
	size_t size;

	nvtx_set_text(&message, "first");
	first = nvtx_start(&message);
	memset(text, 'y', sizeof text);
	text[sizeof text - 1] = 0;
	nvtx_set_text(&message, text);
	for (int i = 0; i < 5000; i++) {
		uint64_t id = nvtx_start(&message);

		epoch = window_epoch();
		CHECK(started_ranges_old(id, epoch + 1) > 3000);
		nvtx_end(id);
	}
	nvtx_end(first);
	for (int i = 0; i < 300; i++)
		ids[i] = nvtx_start(&message);
	epoch = window_open();
	size = nvtx_carry_started(epoch, copy, sizeof copy);
	CHECK_EQ(nr_records(copy, size), 300);
	CHECK(has_text(record, text) && !(record->flags & RECORD_CUT));
	size = 0;
	for (int i = 0; i < 300; i++) {
		size += record->flags & RECORD_CUT ? 1 : 0;
		record = (const void *)((const uint8_t *)record +
					record->head.size);
	}
	CHECK_EQ(size, 300 - STARTED_LONGS);
	nvtx_end(UINT64_MAX);
	for (int i = 0; i < 300; i++) {
		nvtx_end(ids[i]);
		nvtx_end(ids[i]);
		drain();
	}
	CHECK_EQ(nvtx_carry_started(epoch + 2, copy, sizeof copy), 0);
	drain();
	window_close();
}

static void test_wide(void)
{
	const wchar_t pair[] = { 0xd83d, 0xde00, 0xd83d, 'x', 0xde00, 0 };
	char out[64];
	size_t n;

	/* Surrogates: two are U+1F600, one is none. */
	n = nvtx_utf8(out, sizeof out, pair);
	CHECK_EQ(n, 11);
	CHECK(!memcmp(out, "\xf0\x9f\x98\x80\xef\xbf\xbdx\xef\xbf\xbd", 11));

	/* U+00E9, U+20AC, U+1F600 as UTF-8, from the Unicode standard. */
	n = nvtx_utf8(out, sizeof out, L"\u00e9\u20ac\U0001F600");
	CHECK_EQ(n, 9);
	CHECK(!memcmp(out, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9));
	CHECK_EQ(nvtx_utf8(out, 4, L"a\u20ac\u20ac"), 4);
	CHECK_EQ(nvtx_utf8(out, sizeof out, NULL), 0);
}

static void test_texts(void)
{
	const struct nvtx_domain *d = nvtx_domain_create("lib", 3);
	uint64_t nr_cut = loss_get(LOSS_TEXT_CUT);
	static char text[6000];

	/* Cut between two characters of 2 bytes each; an odd one before. */
	memset(text, 'x', sizeof text - 1);
	for (size_t i = 1; i + 2 < sizeof text; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	CHECK_EQ(nvtx_string_create(d, text, 5000)->len, RECORD_TEXT_MAX - 1);
	CHECK(nvtx_string_create(d, text, 5000)->is_cut);
	CHECK(loss_get(LOSS_TEXT_CUT) > nr_cut);

	CHECK(d == nvtx_domain_create("lib", 3));
	CHECK(d != nvtx_domain_create("libx", 4));
	CHECK(nvtx_string_create(d, "a", 1) == nvtx_string_create(d, "a", 1));
	CHECK(nvtx_string_create(d, "a", 1) !=
	      nvtx_string_create(NULL, "a", 1));
}

/* Each of many is known by its address, and no other place is. */
static void test_known_strings(void)
{
	enum { NR = 20000 };
	static const struct nvtx_text *all[NR];
	char text[32];

	for (uint32_t i = 0; i < NR; i++) {
		snprintf(text, sizeof text, "known %u", i);
		all[i] = nvtx_string_create(NULL, text, strlen(text));
	}
	for (uint32_t i = 0; i < NR; i++) {
		CHECK(nvtx_string_is(all[i]));
		CHECK(!nvtx_string_is((const void *)all[i]->text));
	}
	CHECK(!nvtx_string_is(NULL));
	CHECK(!nvtx_string_is((const void *)(uintptr_t)0x10));
	nvtx_category_name(NULL, 77, "no string", 9);
	CHECK(!nvtx_string_is(atomic_load(
		&nvtx_default_domain()->categories)));
}

/* A name for each request: no call may look through more and more of them
 * (it was so for domains and categories). */
static void test_many_texts(void)
{
	struct nvtx_domain *d = nvtx_domain_create("many", 4), *last = NULL;
	uint64_t nr_lost = loss_get(LOSS_TABLE_FULL);
	char name[32];

	for (uint32_t i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "text %u", i);
		nvtx_category_name(d, i, name, strlen(name));
		last = nvtx_domain_create(name, strlen(name));
	}
	CHECK(last && last->recorded && last->len);
	CHECK(nvtx_domain_create("many", 4) == d);
	CHECK(loss_get(LOSS_TABLE_FULL) - nr_lost >=
	      40000 - NVTX_DOMAINS_MAX - NVTX_CATEGORIES_MAX);
}

int main(void)
{
	clock_init();
	(void)thread_self();
	drain();                        /* whose records follow */
	test_window();
	test_deep();
	test_deep_domains();
	test_long_text();
	test_started();
	test_late_writer();
	test_long_started();
	test_wide();
	test_texts();
	test_known_strings();
	test_many_texts();
	return check_result();
}
