/* SPDX-License-Identifier: MIT */
/*
 * Finding the structures of NVTX users in memory: real ones (this program is
 * such a user), and memory that looks nearly like one, is cut short, cannot be
 * read, or lies.
 */
#include "collector/nvtx_late.h"

#include <nvtx3/nvToolsExt.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/check.h"

enum { PAGES = 8, PAGE = 4096, WORDS = PAGES * PAGE / 8 };
enum { NR_SLOTS = 64, FIRST = 6, TABLE = FIRST + NR_SLOTS, CORE = 17,
       CORE2 = 17, SIZE = TABLE + CORE + CORE2 };
enum { FRESH, STARTED, COMPLETE };

/* ---- A module of our making ---- */

static uint64_t *memory, *user;
static const char *name = "";
static int nr_calls;
static size_t lie;      /* words by which the second table is elsewhere */
static uint32_t lie_nr;

/* What ends a range must be there before what begins it (ids of NVTX): asked
 * between any two stores. */
static void check_order(void)
{
	static const int pairs[][2] = { { 8, 11 }, { 9, 11 }, { 10, 11 },
		{ 4, 7 }, { 5, 7 }, { 6, 7 }, { 44, 45 }, { 42, 43 } };

	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		CHECK(!user[FIRST - 1 + pairs[i][0]] ||
		      user[FIRST - 1 + pairs[i][1]]);
}

static int tables(uint32_t module, uint64_t **table, uint32_t *nr)
{
	nr_calls++;
	check_order();
	if (module != 1 && module != 5)
		return 0;
	*table = user + TABLE + (module == 5 ? CORE + lie : 0);
	*nr = module == 5 && lie_nr ? lie_nr : 16;
	return 1;
}

static void set_version(uint32_t version)
{
	(void)version;
}

static void make_table(size_t at, size_t first_slot)
{
	user[at] = 0;
	for (size_t i = 0; i < 15; i++)
		user[at + 1 + i] = (uintptr_t)&user[first_slot + i];
	user[at + 16] = 0;
}

/* A sound one at that word, unused. */
static void make(size_t at, uint32_t state)
{
	memset(memory, 0, WORDS * sizeof *memory);
	nr_calls = 0;
	user = memory + at;
	user[0] = state;
	user[1] = 16;
	user[2] = (uintptr_t)tables;
	user[3] = 24;
	user[4] = 3;
	user[5] = (uintptr_t)set_version;
	make_table(TABLE, FIRST);
	make_table(TABLE + CORE, FIRST + 40);
}

/* Looks through the first nr words, in passes of so many bytes. */
static struct nvtx_late look(size_t nr, size_t pass)
{
	uintptr_t low = (uintptr_t)tables < (uintptr_t)set_version ?
		(uintptr_t)tables : (uintptr_t)set_version;
	uintptr_t high = (uintptr_t)tables ^ (uintptr_t)set_version ^ low;
	ElfW(Phdr) parts[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = low,
		  .p_memsz = high + 1 - low },
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_W,
		  .p_vaddr = (uintptr_t)memory, .p_filesz = nr * 8,
		  .p_memsz = WORDS * 8 },
	};
	struct dl_phdr_info module = {
		.dlpi_name = name, .dlpi_phdr = parts, .dlpi_phnum = 2,
	};
	struct nvtx_late late = { 0 };
	int passes = 0;

	do
		late.left = pass;
	while (!nvtx_late_look(&late, &module) && ++passes < 1000);
	CHECK(passes < 1000);
	return late;
}

static bool is_untouched(void)
{
	for (size_t i = 0; i < NR_SLOTS; i++)
		if (user[FIRST + i])
			return false;
	return true;
}

/* ---- Cases ---- */

static void test_found(void)
{
	struct nvtx_late late;

	/* Also across the pages' borders. */
	for (size_t at = 0; at < PAGE / 4; at += 3) {
		make(at, COMPLETE);
		late = look(WORDS, at % 2 ? PAGE : 1u << 20);
		CHECK_EQ(late.filled, 1);
		CHECK(user[FIRST + 8] && user[FIRST + 10]);
		CHECK(user[FIRST + 40 + 3] && user[FIRST + 40 + 4]);
		late = look(WORDS, 1u << 20);
		CHECK_EQ(late.filled, 0);
		CHECK_EQ(late.taken, 1);
	}
}

static void test_left_alone(void)
{
	struct nvtx_late late;

	make(5, FRESH);
	late = look(WORDS, 1u << 20);
	CHECK(!late.filled && !late.busy && !late.taken && is_untouched());
	make(5, STARTED);
	late = look(WORDS, 1u << 20);
	CHECK(!late.filled && late.busy == 1 && is_untouched());
	make(5, COMPLETE);
	user[FIRST + 63] = 1;           /* another tool's, if only one */
	late = look(WORDS, 1u << 20);
	CHECK(!late.filled && late.taken == 1 && nr_calls == 0);
}

static void test_near_misses(void)
{
	static const uint64_t wrong[] = { 1, 8, 16, 1u << 31, 1ull << 32,
					  1ull << 63 };

	for (size_t at = 0; at < SIZE; at++)
		for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
			/* The state, the code's address: another is as good;
			 * slots: taken. */
			if (at == 0 || at == 2 || at == 5 ||
			    (at >= FIRST && at < TABLE))
				continue;
			make(7, COMPLETE);
			user[at] ^= wrong[i];
			/* In the second table only what leads outside. */
			if (at > TABLE + 16 && user[at] - 8 >=
			    (uintptr_t)user && user[at] <
			    (uintptr_t)&user[TABLE])
				continue;
			if (at == TABLE + CORE || at == SIZE - 1)
				continue;
			CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
			CHECK(is_untouched());
		}
}

static void test_not_code(void)
{
	make(7, COMPLETE);
	user[2] = (uintptr_t)memory;
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	make(7, COMPLETE);
	user[5] = 0;
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	CHECK_EQ(nr_calls, 0);
}

static void test_lies(void)
{
	make(7, COMPLETE);
	lie = 1u << 20;
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	lie = -(size_t)CORE - 60;
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	lie = 0;
	lie_nr = 1u << 31;
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	lie_nr = 0;
	CHECK(nr_calls > 0 && is_untouched());
	CHECK_EQ(look(WORDS, 1u << 20).filled, 1);
}

/* The segment ends, or cannot be read, in the middle of its first table. */
static void test_cut_short(void)
{
	for (size_t nr = 0; nr < TABLE + CORE; nr++) {
		make(100, COMPLETE);
		CHECK_EQ(look(100 + nr, 1u << 20).filled, 0);
		CHECK(is_untouched() && nr_calls == 0);
	}
}

static void test_unreadable(void)
{
	size_t border = 3 * PAGE / 8;

	for (size_t at = border - TABLE - CORE + 1; at < border; at++) {
		make(at, COMPLETE);
		mprotect(memory + border, PAGE, PROT_NONE);
		CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
		CHECK_EQ(nr_calls, 0);
		mprotect(memory + border, PAGE, PROT_READ | PROT_WRITE);
	}
	make(border + 9, COMPLETE);
	mprotect(memory, PAGE, PROT_NONE);
	CHECK_EQ(look(WORDS, PAGE).filled, 1);
	mprotect(memory, PAGES * PAGE, PROT_NONE);
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	mprotect(memory, PAGES * PAGE, PROT_READ | PROT_WRITE);
}

/* Memory of nothing but the words that matter, and a user in it that is
 * damaged in some places: nothing crashes, what is not sound is not called. */
static void test_random(void)
{
	uint64_t state = 88172645463325252u;

	for (int round = 0; round < 300; round++) {
		make((size_t)round * 7, COMPLETE);
		for (size_t i = 0; i < WORDS; i++) {
			const uint64_t words[] = { 0, 1, 2, 3, 16, 24,
				(uintptr_t)tables, (uintptr_t)set_version,
				(uintptr_t)&memory[i + 3],
				(uintptr_t)&user[FIRST], ~0ull, state };
			bool inside = memory + i >= user &&
				memory + i < user + SIZE;

			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			if (!inside || state % (1 + round % 100) == 0)
				memory[i] = words[(state >> 20) % 12];
		}
		CHECK(look(WORDS, 1u << 20).filled <= 1);
	}
}

/* ---- NVTX 2's library ---- */

enum { TABLES = 40, LIBRARY_SIZE = 7 + 6 * 2 + 63 };
static const size_t lengths[] = { 15, 8, 14, 6, 14, 6 };

/* 63 slots from word 1000 on, six tables, the table of these. */
static void make_library(void)
{
	size_t table = TABLES + 7, slot = 1000;

	memset(memory, 0, WORDS * sizeof *memory);
	for (size_t module = 0; module < 6; module++) {
		memory[TABLES + 1 + module] = (uintptr_t)&memory[table];
		for (size_t i = 0; i < lengths[module]; i++)
			memory[table + 1 + i] = (uintptr_t)&memory[slot++];
		table += lengths[module] + 2;
	}
}

static void test_library(void)
{
	struct nvtx_late late;

	name = "/usr/lib/libnvToolsExt.so.1";
	make_library();
	late = look(WORDS, 1u << 20);
	CHECK_EQ(late.filled, 1);
	/* RangePushA, RangePop, DomainRangePop */
	CHECK(memory[1008] && memory[1010] && memory[1000 + 43 + 4]);
	CHECK_EQ(look(WORDS, 1u << 20).taken, 1);

	for (size_t at = TABLES; at < TABLES + LIBRARY_SIZE; at++) {
		make_library();
		memory[at] += 1u << 20;
		CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	}
	for (size_t slot = 0; slot < 63; slot++) {
		make_library();
		memory[1000 + slot] = 1;
		CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	}
	for (size_t nr = 0; nr < 1063; nr++) {
		make_library();
		CHECK_EQ(look(nr, 1u << 20).filled, 0);
	}
	make_library();
	mprotect(memory + PAGE / 8, PAGE, PROT_NONE);
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	mprotect(memory + PAGE / 8, PAGE, PROT_READ | PROT_WRITE);
	name = "/usr/lib/libother.so.1";
	CHECK_EQ(look(WORDS, 1u << 20).filled, 0);
	name = "";
}

/* This program is a user; and it is the only one. */
static void test_real(void)
{
	unsetenv("NVTX_INJECTION64_PATH");
	CHECK_EQ(nvtx_late_attach(), 0);        /* not used yet */
	CHECK(nvtxRangePushA("nobody listens") < 0);
	nvtxRangePop();
	CHECK_EQ(nvtx_late_attach(), 1);
	CHECK_EQ(nvtxRangePushA("outer"), 0);
	CHECK_EQ(nvtxRangePushA("inner"), 1);
	CHECK_EQ(nvtxRangePop(), 1);
	CHECK_EQ(nvtxRangePop(), 0);
	CHECK(nvtxDomainCreateA("domain") != NULL);
	CHECK_EQ(nvtx_late_attach(), 0);        /* ours already */
}

int main(void)
{
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return EXIT_FAILURE;
	test_found();
	test_left_alone();
	test_near_misses();
	test_not_code();
	test_lies();
	test_cut_short();
	test_unreadable();
	test_random();
	test_library();
	test_real();
	return check_result();
}
