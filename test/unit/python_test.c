/* SPDX-License-Identifier: MIT */
/*
 * Python frames where there is no Python, where there is one that we do not
 * know, and where its memory is not what it ought to be: half of its pages
 * missing, the rest full of pointers to anything.
 */
#include "collector/python.h"
#include "collector/python_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/log.h"
#include "collector/peek.h"
#include "collector/python_layout.h"
#include "collector/stack_fill.h"
#include "test/check.h"

#define PAGE 4096
#define NR_PAGES 32
#define NR_WALKS 20000

static uint32_t random_state = 1;

static uint32_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	return random_state ^= random_state << 5;
}

/* ---- Memory that is not there ---- */

static void test_peek(void)
{
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peek peek = { 0 };
	uintptr_t at = (uintptr_t)pages + PAGE;
	char to[64];

	CHECK(peek_works());
	mprotect(pages + PAGE, PAGE, PROT_NONE);
	memcpy(pages + PAGE - 16, "0123456789abcdef", 16);
	CHECK(peek_copy(&peek, to, at - 16, 16));
	CHECK(!memcmp(to, "0123456789abcdef", 16));
	CHECK(peek_copy(&peek, to, at - 1, 1));
	CHECK_EQ(to[0], 'f');
	CHECK(!peek_copy(&peek, to, at - 1, 2));
	CHECK(!peek_copy(&peek, to, at, 1));
	CHECK(!peek_copy(&peek, to, 0, 8));
	CHECK(!peek_copy(&peek, to, 16, 8));
	CHECK(!peek_copy(&peek, to, UINTPTR_MAX - 7, 8));
	CHECK(!peek_copy(&peek, to, UINTPTR_MAX - 3, 8));
	CHECK(!peek_copy(&peek, to, (uintptr_t)1 << 62, 8));
	CHECK(!peek_copy(&peek, to, at - 16, SIZE_MAX));
	munmap(pages, 2 * PAGE);
	CHECK(!peek_copy(&(struct peek){ 0 }, to, at - 16, 16));
}

static void test_no_python(void)
{
	char text[16] = "before";
	uint64_t ends = 1;

	CHECK_EQ(python_prepare(), -ENOENT);
	CHECK_EQ(python_walk_calls(text, sizeof(text), &ends), 0);
	CHECK_EQ(text[0], 0);
	CHECK_EQ(ends, 0);
	CHECK_EQ(python_walk(text, 0), 0);
	CHECK(!python_is_eval_frame((uintptr_t)test_no_python));
}

/* ---- An interpreter of our own ---- */

static void *fake;

static void *symbol(const char *name)
{
	return dlsym(fake, name);
}

static void open_fake(void)
{
	char path[PATH_MAX] = "";
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 64);

	path[len > 0 ? len : 0] = '\0';
	strcat(dirname(path), "/../shim/libpython3.fake.so");
	fake = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fake) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
}

struct member {
	const char *name;
	int type;
	int64_t offset;
	int flags;
	const char *doc;
};

static const struct python_layout known[] = {
#define X(...) { __VA_ARGS__ },
	PYTHON_LAYOUTS(X)
#undef X
	{ 13, 72, PYTHON_NONE, 0, 8, 56, 70, 112, 128, 136, 68, 200, 40, 56,
	  72 },
	{ 14, 72, PYTHON_NONE, 0, 8, 56, 74, 112, 128, 136, 68, 208, 40, 56,
	  80 },
};

static void tell_offsets(const struct python_layout *like)
{
	uint64_t *words = symbol("_PyRuntime");

	memcpy(words, "xdebugpy", 8);
	words[1] = 0x30000f0 | (uint64_t)like->minor << 16;
#define X(of, state_, code_, back_, instr_, owner_, file_, name_, lines_, \
	  first_, bytes_, ascii_, locals_) \
	if (of == like->minor) { \
		words[state_] = like->state; \
		words[code_] = like->code; \
		words[back_] = like->back; \
		words[instr_] = like->instr; \
		words[owner_] = like->owner; \
		words[file_] = like->file; \
		words[name_] = like->name; \
		words[lines_] = like->lines; \
		words[first_] = like->first; \
		words[bytes_] = like->bytes; \
		words[ascii_] = like->ascii; \
		words[locals_] = like->locals; \
	}
	PYTHON_DEBUG_OFFSETS(X)
#undef X
}

static void be_version(const struct python_layout *like, const char *version)
{
	static struct member members[3];

	members[0] = (struct member){ "co_filename", 6, like->file, 1, "" };
	members[1] = (struct member){ "co_firstlineno", 1, like->first, 1,
				      "" };
	((struct member **)symbol("PyCode_Type"))[PYTHON_TYPE_MEMBERS / 8] =
		members;
	*(const char **)symbol("fake_version") = version;
	tell_offsets(like);
}

/* ---- Which are taken ---- */

static void test_refused(void)
{
	static const char *const others[] = {
		"", "2.7.18 (x)", "3.8.18", "3.15.0", "3.99", "3.", "3.x",
		"4.0", "3.14.0a1 (main)", "3.13.0b4+ (heads)", "3.300.1",
		"3.99999999999999999999",
	};
	const struct python_layout *last = &known[5];
	uint64_t *words = symbol("_PyRuntime");
	struct python_layout moved = known[3];
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		be_version(last, others[i]);
		CHECK_EQ(python_prepare(), -ENOTSUP);
	}
	be_version(last, "3.13.1");     /* the table is 3.14's */
	CHECK_EQ(python_prepare(), -ENOTSUP);
	be_version(last, "3.14.1");
	words[2] = 1;                   /* free-threaded */
	CHECK_EQ(python_prepare(), -ENOTSUP);
	words[2] = 0;
	words[0] = 0;
	CHECK_EQ(python_prepare(), -ENOTSUP);
	tell_offsets(last);
	words[26] = 1 << 20;            /* state */
	CHECK_EQ(python_prepare(), -ENOTSUP);
	moved.file += 16;               /* a debug build */
	be_version(&moved, "3.12.1");
	CHECK_EQ(python_prepare(), -ENOTSUP);
	((void **)symbol("PyCode_Type"))[PYTHON_TYPE_MEMBERS / 8] = NULL;
	CHECK_EQ(python_prepare(), -ENOTSUP);
	((void **)symbol("PyCode_Type"))[PYTHON_TYPE_MEMBERS / 8] = (void *)24;
	CHECK_EQ(python_prepare(), -ENOTSUP);
	CHECK(!python_is_eval_frame(
		(uintptr_t)symbol("_PyEval_EvalFrameDefault")));
}

/* ---- Garbage ---- */

/*
 * Even pages hold slots of 256 bytes, of four kinds in turn, odd ones are not
 * there.  What a slot holds is nearly right: one word in 40 is anything.
 */
enum kind { FRAME, CODE, TEXT, BYTES, NR_KINDS };
#define SLOT 256
#define NR_SLOTS (NR_PAGES / 2 * PAGE / SLOT)

static char *world;
static const struct python_layout *layout;
static uint64_t code_type, text_type, bytes_type, cell_type;

static char *slot(uint32_t i)
{
	return world + i / (PAGE / SLOT) * 2 * PAGE + i % (PAGE / SLOT) * SLOT;
}

static uint64_t one_of(enum kind kind)
{
	uint32_t i = next_random() % NR_SLOTS;

	return (uintptr_t)slot(i - i % NR_KINDS + kind);
}

static uint64_t anything(void)
{
	uint64_t types[] = { code_type, text_type, bytes_type };

	switch (next_random() % 8) {
	case 0:
		return types[next_random() % 3];
	case 1:
		return next_random() % 300;
	case 2:
		return (uint64_t)next_random() << 32 | next_random();
	case 3:
		return 0;
	case 4:
		return (uintptr_t)world + next_random() % (NR_PAGES * PAGE);
	default:
		return one_of((enum kind)(next_random() % NR_KINDS));
	}
}

/* An offset of PYTHON_NONE is not written. */
static void put(char *object, uint16_t offset, const void *value, size_t size)
{
	if (offset <= SLOT - size)
		memcpy(object + offset, value, size);
}

static void put_word(char *object, uint16_t offset, uint64_t value)
{
	put(object, offset, &value, 8);
}

static void fill_frame(char *object)
{
	uint64_t code = one_of(CODE), instr = next_random() % 80;
	uint8_t owner = next_random() % 8 ? 0 : (uint8_t)(next_random() % 6);

	if (layout->minor >= 11)
		instr = code + layout->bytes + 2 * instr - 10;
	put_word(object, layout->code, code);
	put_word(object, layout->back, one_of(FRAME));
	put_word(object, layout->instr, instr);
	put(object, layout->owner, &owner, 1);
	for (uint16_t i = 0; i < 3; i++)
		if (next_random() % 4)
			put_word(object, (uint16_t)(layout->locals + 8 * i),
				 one_of(BYTES));
	put_word(object, 200, (uintptr_t)object);       /* for thread states */
}

static void fill_code(char *object)
{
	uint32_t first = next_random() % 1000;

	put_word(object, PYTHON_OBJECT_TYPE, code_type);
	put_word(object, layout->file, one_of(TEXT));
	put_word(object, layout->name, one_of(TEXT));
	put_word(object, layout->lines, one_of(BYTES));
	put(object, layout->first, &first, 4);
	first = next_random() % 4;
	put(object, (uint16_t)(layout->bytes - 16), &first, 4);
}

static void fill_text(char *object)
{
	static const uint8_t kinds[] = { 1, 1, 2, 4, 4, 0, 3, 7 };
	uint32_t state = (uint32_t)kinds[next_random() % 8] << 2;

	put_word(object, PYTHON_OBJECT_TYPE, text_type);
	put_word(object, PYTHON_OBJECT_SIZE,
		 next_random() % 10 ? next_random() % 160 : anything());
	state |= (next_random() % 8 ? 32 : 0) | (next_random() % 2 ? 64 : 0);
	put(object, PYTHON_TEXT_STATE, &state, 4);
	if (next_random() % 2)
		return;
	/* What is looked for in test_calls(). */
	state = 1 << 2 | 32 | 64;
	put(object, PYTHON_TEXT_STATE, &state, 4);
	put_word(object, PYTHON_OBJECT_SIZE, 1);
	put(object, layout->ascii, "f", 1);
}

static void fill_bytes(char *object)
{
	put_word(object, PYTHON_OBJECT_TYPE,
		 next_random() % 4 ? bytes_type : cell_type);
	put_word(object, PYTHON_OBJECT_SIZE,
		 next_random() % 10 ? next_random() % 200 : anything());
}

static void fill_world(void)
{
	static void (*const fills[])(char *) = {
		fill_frame, fill_code, fill_text, fill_bytes
	};
	uint32_t i, at, bits;

	for (i = 0; i < NR_SLOTS; i++) {
		for (at = 0; at < SLOT; at += 4) {
			bits = next_random();
			/* Characters of each width, and none. */
			bits &= at % 3 ? 0x10ffff : i % 8 ? 0x7f7f7f : ~0u;
			memcpy(slot(i) + at, &bits, 4);
		}
		fills[i % NR_KINDS](slot(i));
		for (at = 0; at < SLOT; at += 8)
			if (next_random() % 40 == 0)
				put_word(slot(i), (uint16_t)at, anything());
	}
}

/* The running frame, one step further where calls have a record. */
static uint64_t a_state(void)
{
	static uint64_t state[64], run[2];
	uint64_t frame = next_random() % 16 ? one_of(FRAME) : anything();

	run[0] = run[1] = frame;
	state[layout->state / 8] = layout->run == PYTHON_NONE ?
		frame : (uintptr_t)run;
	return next_random() % 16 ? (uintptr_t)state : anything();
}

static int is_utf8(const unsigned char *at)
{
	int more;

	for (; *at; at++) {
		if ((*at < 0x20 && *at != '\n') || *at == 0x7f)
			return 0;
		if (*at < 0x80)
			continue;
		more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : 1;
		if (*at < 0xc2 || *at > 0xf4)
			return 0;
		while (more--)
			if ((*++at & 0xc0) != 0x80)
				return 0;
	}
	return 1;
}

/* Lines "FILE:NUMBER NAME". */
static int nr_lines(char *text)
{
	char *line, *colon, *end;
	int nr = 0;

	for (line = strtok_r(text, "\n", &end); line;
	     line = strtok_r(NULL, "\n", &end), nr++) {
		colon = strrchr(line, ':');
		if (!colon || colon == line)
			return -1;
	}
	return nr;
}

/* All bytes of a record are said, whatever lay there before: the writer tells
 * stacks apart by them. */
static void test_same_record(void)
{
	static _Alignas(8) char one[STACK_RECORD_MAX], other[STACK_RECORD_MAX];
	struct stack_record *record = (struct stack_record *)one;
	struct unwind_frame frame, again;
	uint32_t size, odd = 0;
	size_t i;

	unwind_here(&frame);
	for (i = 0; i < 1000; i++) {
		*(uint64_t *)symbol("fake_state") = a_state();
		memset(one, 0x11, sizeof one);
		memset(other, 0x22, sizeof other);
		again = frame;
		size = stack_fill(record, &again);
		again = frame;
		CHECK_EQ(stack_fill((struct stack_record *)other, &again),
			 size);
		CHECK_EQ(record->head.size, size);
		CHECK_EQ(memcmp(record->pcs,
				((struct stack_record *)other)->pcs,
				size - sizeof *record), 0);
		odd += record->head.len % 8 != 0;
	}
	CHECK(odd > 100);
}

/* ---- Calls of one function ---- */

static bool is_enough(const struct python_call *call, void *asked)
{
	++*(int *)asked;
	return call->frame % 977 == 0;
}

/* Returns how many were found. */
static int test_calls(struct peek *peek, int *bad)
{
	enum { MAX = 16 };
	struct python_call calls[MAX + 1] = { [MAX] = { .frame = 7 } };
	int asked = 0, nr;

	nr = python_calls_walk(peek, python_calls_top(peek), calls, MAX,
			       is_enough, &asked);
	*bad += nr < 0 || nr > MAX || asked < nr || asked > nr + 1 ||
		calls[MAX].frame != 7;
	for (int i = 0; i < nr; i++)
		*bad += !calls[i].frame;
	return nr;
}

static void test_garbage(void)
{
	static const struct python_function sought = { "f", "f", "f" };
	struct peek peek = { 0 };
	int calls = 0;
	char text[PYTHON_TEXT_MAX + 1], version[16];
	uint64_t ends, frames = 0;
	int i, nr, deep = 0, bad = 0;
	size_t size;

	snprintf(version, sizeof(version), "3.%d.0 (x)", layout->minor);
	be_version(layout, version);
	CHECK_EQ(python_prepare(), 0);
	CHECK_EQ(python_calls_prepare(&sought), 0);
	for (i = 0; i < NR_WALKS; i++) {
		if (i % 10 == 0)
			fill_world();
		*(uint64_t *)symbol("fake_state") = a_state();
		size = i % 3 ? PYTHON_TEXT_MAX : 1 + next_random() % 200;
		text[size] = '#';
		errno = 77;
		nr = python_walk_calls(text, size, &ends);
		bad += text[size] != '#' || strlen(text) >= size ||
		       errno != 77 || nr > PYTHON_FRAMES_MAX;
		bad += !is_utf8((unsigned char *)text);
		bad += nr < 64 && ends >> nr;
		bad += nr_lines(text) != nr;
		frames += (uint64_t)nr;
		deep += nr > 20;
		calls += test_calls(&peek, &bad);
	}
	CHECK_EQ(bad, 0);
	CHECK(frames > NR_WALKS);
	CHECK(deep > 10);
	CHECK(calls > NR_WALKS / 4);
	fprintf(stderr, "%s: %llu frames of garbage, %d of %d walks deep, "
		"%d calls\n", version, (unsigned long long)frames, deep,
		NR_WALKS, calls);
	test_same_record();
}

/* An interpreter is looked for once a process. */
static void in_child(void (*test)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		test();
		_exit(check_result());
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	size_t i;

	log_init(LOG_QUIET, NULL);
	test_peek();
	test_no_python();
	open_fake();
	test_refused();
	code_type = (uintptr_t)symbol("PyCode_Type");
	text_type = (uintptr_t)symbol("PyUnicode_Type");
	bytes_type = (uintptr_t)symbol("PyBytes_Type");
	cell_type = (uintptr_t)symbol("PyCell_Type");
	world = mmap(NULL, NR_PAGES * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 1; i < NR_PAGES; i += 2)
		mprotect(world + i * PAGE, PAGE, PROT_NONE);
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		layout = &known[i];
		in_child(test_garbage);
	}
	return check_result();
}
