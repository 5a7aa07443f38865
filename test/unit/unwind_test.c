/* SPDX-License-Identifier: MIT */
/*
 * Stacks against the C library's own unwinder, in ordinary code and in signal
 * handlers; then with registers, memory and unwind tables that are garbage.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/peek.h"
#include "collector/unwind.h"
#include "test/check.h"
#include "test/noinline.h"

enum { MAX = UNWIND_FRAMES_MAX };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static struct {
	uintptr_t ours[MAX];
	void *theirs[MAX];
	int nr_ours, nr_theirs;
} got;
static volatile int sink;

NOINLINE static void look(void)
{
	struct unwind_frame frame;

	unwind_here(&frame);
	got.nr_ours = (int)unwind(&frame, got.ours, MAX);
	got.nr_theirs = backtrace(got.theirs, MAX);
}

/* The first is inside look(), at different places; a return address is told
 * less 1, what a signal interrupted as it is. */
static void compare(int least)
{
	/* A sanitizer stands between us and backtrace(). */
	int skip = got.nr_theirs - got.nr_ours, i;

	CHECK(skip == 0 || skip == IS_SANITIZED);
	CHECK(got.nr_ours >= least);
	for (i = 1; i < got.nr_ours && i + skip < got.nr_theirs; i++)
		CHECK(got.ours[i] + 1 == (uintptr_t)got.theirs[i + skip] ||
		      got.ours[i] == (uintptr_t)got.theirs[i + skip]);
}

/* ---- Kinds of frames ---- */

NOINLINE static void plain(void)
{
	look();
	sink++;
}

NOINLINE static void aligned(void)
{
	_Alignas(64) volatile char buffer[256];

	buffer[sink & 255] = 1;
	plain();
	sink += buffer[0];
}

NOINLINE static void sized(size_t size)
{
	volatile char *buffer = __builtin_alloca(size);

	buffer[size / 2] = 1;
	aligned();
	sink += buffer[0];
}

NOINLINE static long with_many(long a, long b, long c, long d, long e, long f)
{
	sized(1000);
	return a * b + c * d + e * f + sink;
}

static int by_callback(const void *a, const void *b)
{
	static int is_done;

	if (!is_done++)
		sink += (int)with_many(1, 2, 3, 4, 5, 6);
	return *(const int *)a - *(const int *)b;
}

static void test_frames(void)
{
	int numbers[] = { 3, 1, 2 };

	qsort(numbers, 3, sizeof numbers[0], by_callback);
	compare(8);
}

NOINLINE static void deep(int n)
{
	if (n)
		deep(n - 1);
	else
		look();
	sink++;
}

static void test_depth(void)
{
	deep(40);
	compare(42);
	deep(4000);
	CHECK_EQ(got.nr_ours, MAX);
	CHECK_EQ(got.nr_theirs, MAX);
}

/* ---- Signals ---- */

static void on_signal(int number, siginfo_t *why, void *context)
{
	struct unwind_frame frame;

	(void)why;
	if (number == SIGUSR2) {        /* as the sampler sees it */
		unwind_interrupted(&frame, context);
		got.nr_ours = (int)unwind(&frame, got.ours, MAX);
		got.nr_theirs = backtrace(got.theirs, MAX);
		return;
	}
	look();
}

NOINLINE static void raiser(int number)
{
	raise(number);
	sink++;
}

static void test_signals(void)
{
	static char other[65536];
	const stack_t stack = { .ss_sp = other, .ss_size = sizeof other };
	struct sigaction action = {
		.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO,
	};
	int skip;

	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	raiser(SIGUSR1);
	compare(5);
	/* The interrupted frame is the third of the handler's own stack. */
	raiser(SIGUSR2);
	skip = got.nr_theirs - got.nr_ours;
	CHECK(skip >= 1 && skip <= 3 + 3 * IS_SANITIZED);
	CHECK_EQ(got.ours[0], (uintptr_t)got.theirs[skip]);
	for (int i = 1; i < got.nr_ours; i++)
		CHECK_EQ(got.ours[i] + 1, (uintptr_t)got.theirs[skip + i]);
	/* On another stack, below or above. */
	sigaltstack(&stack, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR1, &action, NULL);
	raiser(SIGUSR1);
	compare(5);
}

/* ---- Modules ---- */

static void test_modules(void)
{
	const struct modules *before, *after;
	const struct module *module;
	uint32_t generation;
	uint8_t id[BUILD_ID_MAX];
	void *library;

	CHECK_EQ(modules_refresh(), 1);
	before = modules_enter();
	CHECK_EQ(modules_refresh(), 0);
	CHECK(modules_enter() == before);       /* nothing new */
	modules_leave();
	module = modules_find(before, (uintptr_t)look);
	CHECK(module && strstr(module_path(module), "unwind_test"));
	CHECK(module && module_build_id(module, id) == 20);
	CHECK(!modules_find(before, (uintptr_t)&module));
	CHECK(modules_are_wanted());
	generation = before->generation;
	modules_leave();

	library = dlopen("libutil.so.1", RTLD_NOW);
	CHECK(library != NULL);
	CHECK_EQ(modules_refresh(), 1);
	CHECK(!modules_are_wanted());
	after = modules_enter();
	CHECK(after != before && after->nr == before->nr + 1);
	CHECK_EQ(after->generation, generation);
	modules_leave();
	dlclose(library);
	CHECK_EQ(modules_refresh(), 1);
	after = modules_enter();
	CHECK_EQ(after->generation, generation + 1);
	modules_leave();
}

/* ---- Garbage ---- */

static uint64_t random_word(void)
{
	static uint64_t state = 42;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return state >> 11 ^ state << 40;
}

/* Near things that are there, or anywhere. */
static uintptr_t random_place(const void *hole)
{
	uint64_t word = random_word();

	switch (word % 6) {
	case 0: return (uintptr_t)&word + (word >> 8) % 65536 - 32768;
	case 1: return (uintptr_t)look + (word >> 8) % 65536 - 32768;
	case 2: return (uintptr_t)qsort + (word >> 8) % 65536;
	case 3: return (uintptr_t)hole + (word >> 8) % 8192;
	case 4: return word >> 16;
	default: return word;
	}
}

static void test_registers(void)
{
	const void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE |
				MAP_ANONYMOUS, -1, 0);
	struct unwind_frame frame;
	uintptr_t pcs[MAX];
	uint32_t nr;

	for (int i = 0; i < 200000; i++) {
		for (int k = 0; k < UNWIND_NR_REGS; k++)
			frame.registers[k] = random_place(hole);
		frame.pc = random_place(hole);
		frame.sp = frame.registers[UNWIND_SP];
		frame.is_exact = i & 1;
		nr = unwind(&frame, pcs, MAX);
		CHECK(nr >= 1 && nr <= MAX);
	}
}

/* What the tables say when their bytes change: something, or nothing; and no
 * byte beyond them is read (the sanitizer's build sees that). */
static void test_tables(void)
{
	const struct modules *modules = modules_enter();
	const struct module *libc = modules_find(modules, (uintptr_t)qsort);
	struct module broken;
	struct unwind_row row;
	size_t from, size, found = 0;
	uint8_t *copy;

	CHECK(libc && libc->part);
	if (!libc || !libc->part)
		return;
	from = libc->table - libc->part_address;
	size = libc->part_size - from;
	copy = malloc(size);
	broken = *libc;
	broken.part = copy;
	broken.part_address = libc->table;
	broken.part_size = size;
	for (int round = 0; round < 60; round++) {
		memcpy(copy, libc->part + from, size);
		for (int k = 0; round && k < 1 << round % 16; k++)
			copy[random_word() % (round & 1 ? 4096 : size)] =
				(uint8_t)random_word();
		for (int k = 0; k < 3000; k++)
			found += unwind_row_find(&broken, (uintptr_t)qsort +
				random_word() % 400000 - 200000, &row);
		if (!round)
			CHECK(found > 2000);
	}
	free(copy);
	modules_leave();
}

int main(void)
{
	struct unwind_frame frame;
	uintptr_t pcs[MAX];

	if (!peek_works())
		return 77;
	/* Before the table is there: the place itself, at least. */
	unwind_here(&frame);
	CHECK(unwind(&frame, pcs, MAX) >= 1);
	test_modules();
	(void)backtrace(got.theirs, 1); /* loads what it needs */
	CHECK(modules_refresh() >= 0);
	test_frames();
	test_depth();
	test_signals();
	test_registers();
	test_tables();
	return check_result();
}
