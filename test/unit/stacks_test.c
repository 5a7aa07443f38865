/* SPDX-License-Identifier: MIT */
/*
 * Stacks from their records to the file: the arguments of a call, Python's
 * frames in their place, samples as nested slices, symbols of ELF files, and
 * perf-PID.map.  The answers were worked out on paper.
 */
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/loss.h"
#include "collector/modules.h"
#include "collector/source.h"
#include "collector/stack_fill.h"
#include "test/check.h"
#include "test/noinline.h"
#include "test/unit/scene.h"
#include "test/unit/scene_trace.h"
#include "writer/elf_symbols.h"
#include "writer/perf_map.h"

#define NOWHERE UINT64_C(0x10)  /* no module's */
enum { PERIOD = 10000 };

static uint32_t self;

NOINLINE int named_function(int n)
{
	return n + 1;
}

static void begin(void)
{
	static const struct writer_options options = {
		.out = "/dev/null", .memory = 16 << 20, .world_size = 1,
		.sample_ns = PERIOD,
	};

	scene_open_trace(&options);
	self = (uint32_t)syscall(SYS_gettid);
	CHECK_EQ(modules_refresh(), 1);
}

static void stack(enum stack_of of, uint32_t tid, uint32_t correlation,
		  uint64_t t_ns, const uint64_t *pcs, uint32_t nr,
		  const char *python, uint64_t ends)
{
	uint32_t len = (uint32_t)strlen(python);
	uint32_t size = (uint32_t)sizeof(struct stack_record) + nr * 8 +
		((len + 7) & ~7u);
	struct stack_record *record;

	record = ring_reserve(thread_ring(thread_self()), size);
	memset(record, 0, size);
	record->head = (struct record){ .kind = RECORD_STACK,
		.size = (uint16_t)size, .len = len,
		.t_ns = scene.t_ns + t_ns };
	record->of = of;
	record->tid = tid;
	record->correlation = correlation;
	record->ends = ends;
	record->nr_pcs = nr;
	if (nr)
		memcpy(record->pcs, pcs, nr * 8);
	memcpy(record->pcs + nr, python, len);
	ring_commit(thread_ring(thread_self()));
}

/* Two calls of the interpreter's loop: the inner one runs b and c, the outer
 * one a.  What of the interpreter's file lies outside the innermost loop is
 * left out: all of these are this program's. */
static void test_call(void)
{
	const uint64_t inside = (uintptr_t)named_function;
	const uint64_t pcs[] = { inside, inside | STACK_EVAL, inside,
				 (inside + 1) | STACK_EVAL, inside, NOWHERE };

	stack(STACK_OF_CALL, self, 51, 500, pcs, 6,
	      "m.py:30 c\nm.py:20 b\nm.py:10 a\n", 6);
	scene_launch(self, 51, 400, 600);
	scene_launch(self, 52, 700, 800);
	step(true);
	CHECK(has("\"correlation\":51", "\"line\":\"m.py:30 c\",\"stack\":\""
		  "named_function (stacks_test)\\nm.py:30 c\\nm.py:20 b\\n"
		  "m.py:10 a\\n0x10\\n\""));
	CHECK(!strstr(event("\"correlation\":52", 0), "stack"));
}

/* Without an interpreter the program's innermost function is the line. */
static void test_native(void)
{
	const uint64_t pcs[] = { NOWHERE, (uintptr_t)named_function };
	char many[4000] = "";
	size_t i, at = 0;

	stack(STACK_OF_CALL, self, 53, 900, pcs, 2, "", 0);
	stack(STACK_OF_CALL, self, 54, 900, pcs, 1, "", 0);
	for (i = 0; i < 60; i++)
		at += (size_t)snprintf(many + at, sizeof many - at, "long_name_"
				       "of_a_file_of_python.py:%zu function\n",
				       i + 1000);
	stack(STACK_OF_CALL, self, 55, 900, NULL, 0, many, 0);
	scene_launch(self, 53, 1000, 1100);
	scene_launch(self, 54, 1200, 1300);
	scene_launch(self, 55, 1400, 1500);
	step(true);
	CHECK(has("\"correlation\":53", "\"line\":\"named_function "
		  "(stacks_test)\",\"stack\":\"0x10\\nnamed_function"));
	CHECK(has("\"correlation\":54", "54,\"stack\":\"0x10\\n\""));
	/* 47 bytes a line, 43 whole lines up to 2048. */
	CHECK(has("\"correlation\":55", "py:1042 function\\n\"}"));
}

/*
 * Samples each PERIOD, a pause, and one that stands for three periods:
 *
 *      t    10    20    30    40            100
 *      a  |-----------------------|      |-----|
 *      b    |-----------|
 *      c                |---------|
 */
static void test_samples(void)
{
	stack(STACK_SAMPLE, 77, 1, 110000, NULL, 0, "m.py:2 b\nm.py:1 a\n", 0);
	stack(STACK_SAMPLE, 77, 1, 120000, NULL, 0, "m.py:3 b\nm.py:1 a\n", 0);
	stack(STACK_SAMPLE, 77, 1, 130000, NULL, 0, "m.py:4 c\nm.py:1 a\n", 0);
	stack(STACK_SAMPLE, 77, 1, 140000, NULL, 0, "m.py:4 c\nm.py:1 a\n", 0);
	stack(STACK_SAMPLE, 77, 3, 200000, NULL, 0, "m.py:1 a\n", 0);
	step(true);
	/* The last is open still. */
	CHECK(!*event("\"name\":\"a (m.py)\"", 1));
	flames_close(trace, UINT64_MAX);
	CHECK(has("\"name\":\"a (m.py)\"", "\"dur\":40.000"));
	CHECK(has("\"name\":\"a (m.py)\"", "\"args\":{\"thread\":77,"
		  "\"measured\":\"sampled\",\"samples\":4}"));
	CHECK(has("\"name\":\"b (m.py)\"", "\"dur\":20.000"));
	CHECK(has("\"name\":\"b (m.py)\"", "\"samples\":2"));
	CHECK(has("\"name\":\"c (m.py)\"", "\"dur\":20.000"));
	CHECK(has_nth("\"name\":\"a (m.py)\"", 1, "\"dur\":30.000"));
	CHECK(has_nth("\"name\":\"a (m.py)\"", 1, "\"samples\":3"));
	CHECK(!*event("\"name\":\"b (m.py)\"", 1));
	/* A row of its own. */
	CHECK(has("\"name\":\"b (m.py)\"", "\"tid\":50000"));
}

/* More distinct stacks than are kept: all begin anew, a call that waited is
 * counted. */
static void test_bound(void)
{
	uint64_t lost = loss_get(LOSS_STACKS);
	char text[64];

	for (int i = 0; i < STACKS_MAX; i++) {
		snprintf(text, sizeof text, "x.py:%d x\n", i);
		stack(STACK_OF_CALL, self, 70000, 2000, NULL, 0, text, 0);
		if (i % 100 == 0)
			drain_rings(trace);
	}
	drain_rings(trace);
	CHECK_EQ(loss_get(LOSS_STACKS), lost + 1);
	CHECK_EQ(loss_get(LOSS_RING_FULL), 0);
}

/* The stack that osrt takes before it tells of its call. */
static void test_next(void)
{
	static const struct slice_kind call = {
		.cat = "osrt", .name = "poll", .row = ROW_OSRT,
	};
	uint64_t t = scene.t_ns;

	stack(STACK_OF_NEXT, self, 0, 3000, NULL, 0, "m.py:7 wait\n", 0);
	source_slice(&call, 0, t + 2500, t + 3000, NULL, 0, NULL, 0);
	source_slice(&call, 0, t + 3500, t + 3600, NULL, 0, NULL, 0);
	step(true);
	CHECK(has_nth("\"poll\"", 0, "\"line\":\"m.py:7 wait\",\"stack\":\""
		      "m.py:7 wait\\n\""));
	CHECK(*event("\"poll\"", 1));
	CHECK(!strstr(event("\"poll\"", 1), "stack"));
}

/* ---- Names ---- */

/* A page of a file beside this one, as code, at that address; NULL: anywhere.
 */
static void *map_code(const char *name, void *at)
{
	char path[512] = "";
	ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
	void *code;
	int fd;

	path[len > 0 ? len : 0] = 0;
	strcpy(strrchr(path, '/') + 1, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	code = mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE |
		    (at ? MAP_FIXED : 0), fd, 0);
	close(fd);
	return code;
}

/* One address, of no module that is known, of one, and of one that took the
 * other's place: each time it has the name of now. */
static void test_modules_change(void)
{
	void *code = map_code("stacks_test", NULL);
	const uint64_t pc = (uintptr_t)code + 100;

	bytes_clear(&trace->out);
	stack(STACK_OF_CALL, self, 61, 4000, &pc, 1, "", 0);
	scene_launch(self, 61, 4000, 4100);
	step(true);
	CHECK(has("\"correlation\":61", "\"stack\":\"0x"));
	CHECK_EQ(modules_refresh(), 1);
	stack(STACK_OF_CALL, self, 62, 4200, &pc, 1, "", 0);
	scene_launch(self, 62, 4200, 4300);
	step(true);
	CHECK(has("\"correlation\":62", "\"stack\":\"stacks_test+0x64"));
	CHECK(map_code("../shim/plugin.so", code) == code);
	CHECK_EQ(modules_refresh(), 1);
	stack(STACK_OF_CALL, self, 63, 4400, &pc, 1, "", 0);
	scene_launch(self, 63, 4400, 4500);
	step(true);
	CHECK(has("\"correlation\":63", "\"stack\":\"plugin.so+0x64"));
	munmap(code, 4096);
	CHECK_EQ(modules_refresh(), 1);
}

static int take_bias(struct dl_phdr_info *module, size_t size, void *bias)
{
	(void)size;
	*(uintptr_t *)bias = module->dlpi_addr;
	return 1;                       /* the first is the program */
}

static void test_symbols(void)
{
	struct elf_symbols symbols;
	uintptr_t bias = 0;
	char name[64], self_path[256] = "";

	CHECK(readlink("/proc/self/exe", self_path, sizeof self_path - 1) > 0);
	dl_iterate_phdr(take_bias, &bias);
	CHECK_EQ(elf_symbols_init(&symbols, self_path, 1 << 20), 0);
	CHECK(elf_symbols_find(&symbols, (uintptr_t)named_function - bias, name,
			       sizeof name) && !strcmp(name, "named_function"));
	CHECK(elf_symbols_find(&symbols, (uintptr_t)named_function + 2 - bias,
			       name, sizeof name) &&
	      !strcmp(name, "named_function"));
	/* A local one. */
	CHECK(elf_symbols_find(&symbols, (uintptr_t)test_symbols - bias, name,
			       sizeof name) && !strcmp(name, "test_symbols"));
	CHECK(!elf_symbols_find(&symbols, 1, name, sizeof name));
	CHECK(!elf_symbols_find(&symbols, UINT64_MAX, name, sizeof name));
	CHECK(!elf_symbols_find(&symbols, (uintptr_t)test_symbols - bias, name,
				5));
	elf_symbols_fini(&symbols);
	CHECK_EQ(elf_symbols_init(&symbols, self_path, 3), -28);
	elf_symbols_fini(&symbols);
	CHECK(elf_symbols_init(&symbols, "/etc/passwd", 1 << 20) < 0);
	elf_symbols_fini(&symbols);
	CHECK(elf_symbols_init(&symbols, "[vdso]", 1 << 20) < 0);
	elf_symbols_fini(&symbols);
}

static void test_perf_map(void)
{
	uint32_t pid = (uint32_t)getpid();
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof path, "/tmp/perf-%u.map", pid);
	CHECK(!perf_map_find(pid, 0x2000, name, sizeof name));
	file = fopen(path, "w");
	fputs("1000 100 old name\n2000 10 one\nnonsense\n2000\n\n2000 \n"
	      "1000 100 new name\n3000 10 \n", file);
	fclose(file);
	CHECK(perf_map_find(pid, 0x10ff, name, sizeof name) &&
	      !strcmp(name, "new name"));
	CHECK(perf_map_find(pid, 0x2000, name, sizeof name) &&
	      !strcmp(name, "one"));
	CHECK(!perf_map_find(pid, 0x2010, name, sizeof name));
	CHECK(!perf_map_find(pid, 0x3000, name, sizeof name));
	/* It grows; another one takes its place. */
	file = fopen(path, "a");
	fputs("2000 10 t", file);
	fflush(file);
	CHECK(perf_map_find(pid, 0x2000, name, sizeof name) &&
	      !strcmp(name, "one"));
	fputs("wo\n", file);
	fclose(file);
	CHECK(perf_map_find(pid, 0x2000, name, sizeof name) &&
	      !strcmp(name, "two"));
	file = fopen(path, "w");
	fputs("2000 10 one\n", file);
	fclose(file);
	CHECK(perf_map_find(pid, 0x2000, name, sizeof name) &&
	      !strcmp(name, "one"));
	CHECK(!perf_map_find(pid, 0x10ff, name, sizeof name));
	/* Zeros are no lines, and are read all the same: not all of these. */
	CHECK(!truncate(path, (off_t)1 << 40));
	CHECK(perf_map_find(pid, 0x2000, name, sizeof name) &&
	      !strcmp(name, "one"));
	unlink(path);
}

int main(void)
{
	scene_begin();
	begin();
	test_call();
	test_native();
	test_samples();
	test_next();
	test_modules_change();
	test_bound();
	test_symbols();
	test_perf_map();
	scene_close_trace();
	return check_result();
}
