/* SPDX-License-Identifier: MIT */
/*
 * Hostile trace files: whatever the bytes are, `check`, `report`, `diagnose`,
 * `merge` and `diff` end with a status of 0, 1 or 3, without a crash, a leak or
 * undefined behaviour (build with SAN=address,undefined).
 *
 *      trace FILE|FOLDER...            those files
 *      trace [ITERATIONS [SEED...]]    own mutations, the same in every run;
 *                                      after the files, too
 */
#define FUZZ_OWN_MAIN
#include <ctype.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "test/fuzz/fuzz.h"
#include "tools/gputrace.h"

static int run(int (*cmd)(int, char **), int fd, char *name, char *option,
	       char *value)
{
	char path[32];
	/* diff takes two: the same, so that every name is on both sides */
	char *argv[] = { name, option, value, path, path, NULL };
	int nr = cmd == cmd_diff ? 5 : 4;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	argv[nr] = NULL;
	return cmd(nr, argv);
}

static void must(int status)
{
	if (status != STATUS_DONE && status != STATUS_FINDING &&
	    status != STATUS_COULD_NOT)
		abort();
}

/* What the commands say, nobody reads.  (libFuzzer has its own way.) */
static void be_quiet(void)
{
	static FILE *nothing;

	if (!nothing)
		stdout = stderr = nothing = fopen("/dev/null", "w");
}

/* Where `merge` writes to: one file for all inputs, gone at the end. */
static char merged[64];

static void remove_merged(void)
{
	unlink(merged);
}

static char *merged_path(void)
{
	if (!*merged) {
		snprintf(merged, sizeof(merged), "/tmp/gputrace-fuzz-%d.json",
			 (int)getpid());
		atexit(remove_merged);
	}
	return merged;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
	static char *const formats[] = { "table", "csv", "json" };
	static unsigned turn;
	int fd = memfd_create("trace", 0);

	be_quiet();
	if (!stdout || fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	must(run(cmd_check, fd, "check", "--max", "1"));
	must(run(cmd_report, fd, "report", "--format", formats[turn % 3]));
	must(run(cmd_diagnose, fd, "diagnose", "--format",
		 turn % 2 ? "text" : "json"));
	must(run(cmd_diff, fd, "diff", "--format", formats[turn++ % 3]));
	must(run(cmd_merge, fd, "merge", "--out", merged_path()));
	close(fd);
	return 0;
}

#ifndef LIBFUZZER

enum { MAX_SIZE = 1 << 16, ITERATIONS = 10000 };

static const char *const seeds[] = {
	"{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", "
	"\"baseTimeNanoseconds\": 1790857026000000000, "
	"\"distributedInfo\": {\"rank\": 0, \"world_size\": 2},\n"
	"\"traceEvents\": [\n"
	"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"tid\":7,"
	"\"ts\":0,\"args\":{\"name\":\"p\"}},\n"
	"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"step\","
	"\"pid\":7,\"tid\":7,\"ts\":1.000,\"dur\":90.5,\"args\":{}},\n"
	"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":"
	"\"cudaLaunchKernel\",\"pid\":7,\"tid\":7,\"ts\":2,\"dur\":3,"
	"\"args\":{\"cbid\":211,\"correlation\":5}},\n"
	"{\"ph\":\"s\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":5,"
	"\"pid\":7,\"tid\":7,\"ts\":2},\n"
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k<\\u00e9\\n\\\">\","
	"\"pid\":5000000,\"tid\":1,\"ts\":9.125e0,\"dur\":1e1,\"args\":"
	"{\"device\":0,\"context\":1,\"stream\":7,\"correlation\":5,"
	"\"grid\":[1,2,3],\"block\":[32,1,1],\"graph id\":0,"
	"\"graph node id\":0,\"registers per thread\":16,"
	"\"shared memory\":0}},\n"
	"{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"ac2g\",\"name\":\"ac2g\","
	"\"id\":5,\"pid\":5000000,\"tid\":1,\"ts\":9.125},\n"
	"{\"ph\":\"i\",\"s\":\"t\",\"name\":\"mark\",\"pid\":7,\"tid\":7,"
	"\"ts\":11},\n"
	"{\"ph\":\"C\",\"name\":\"mem\",\"pid\":9,\"ts\":3,\"args\":"
	"{\"used\":12.5}}\n"
	"],\n\"deviceProperties\": [{\"id\":0,\"name\":\"G\",\"numSms\":2}],"
	"\"gputrace\": {\"losses\": {\"ring full\": 3}}}\n",
	"[{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD "
	"(Pageable -> Device)\",\"pid\":\"Spans\",\"tid\":-1,\"ts\":"
	"1790857026000000.123,\"dur\":0,\"args\":{\"inDevice\":1,"
	"\"bytes\":18446744073709551615,\"memory bandwidth (GB/s)\":NaN,"
	"\"deep\":[[[{\"a\":[null,true,false,-0.5e-3]}]]]}},[],\"x\",1]",
};

/* Pieces that matter to the reader. */
static const char *const pieces[] = {
	"\"", "\\", "\\u", "\\ud800", "{", "}", "[", "]", ",", ":", "-",
	"1e999", "1e-999", "-1", "0.0005", "9223372036854775807", "NaN",
	"Infinity", "null", "true", "\xff", "\xc3", "\x01", "\x7f",
	"[[[[[[[[", "\"traceEvents\":[", "\"args\":{", "\"ts\":", "\"dur\":",
	"1.8e18", "\"ph\":\"X\",", "\"losses\":{\"a\":1},", "99999999999999",
};

static unsigned random_state = 1;

static unsigned pick(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % below;
}

/* Replaces `gone` bytes at `at` by a text; returns the new size. */
static size_t splice(unsigned char *buf, size_t size, size_t at, size_t gone,
		     const void *text, size_t len)
{
	if (gone > size - at)
		gone = size - at;
	if (size - gone + len > MAX_SIZE)
		return size;
	memmove(buf + at + len, buf + at + gone, size - at - gone);
	memcpy(buf + at, text, len);
	return size - gone + len;
}

static size_t mutate(unsigned char *buf, size_t size)
{
	unsigned char copy[512];
	size_t at = size ? pick(size) : 0, len;
	const char *piece;

	switch (pick(6)) {
	case 0:
		if (size)
			buf[at] ^= 1 << pick(8);
		return size;
	case 1:         /* cut */
		return pick(4) ? size : at;
	case 2:         /* delete */
		return splice(buf, size, at, pick(20), "", 0);
	case 3:         /* repeat a part */
		len = pick(sizeof(copy));
		len = len > size - at ? size - at : len;
		memcpy(copy, buf + at, len);
		return splice(buf, size, size ? pick(size) : 0, 0, copy, len);
	default:
		piece = pieces[pick(sizeof(pieces) / sizeof(*pieces))];
		return splice(buf, size, at, pick(2) ? strlen(piece) : 0,
			      piece, strlen(piece));
	}
}

static size_t pack(unsigned char *buf, size_t size)
{
	static unsigned char packed[2 * MAX_SIZE];
	z_stream z = { .next_in = buf, .avail_in = size,
		.next_out = packed, .avail_out = sizeof(packed) };

	if (deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	size = z.total_out < MAX_SIZE ? z.total_out : MAX_SIZE;
	deflateEnd(&z);
	memcpy(buf, packed, size);
	return size;
}

static size_t load_seed(unsigned char *buf, char **files, int nr_files)
{
	int at = pick(nr_files + 2);
	size_t size;
	FILE *file;

	if (at < 2) {
		size = strlen(seeds[at]);
		memcpy(buf, seeds[at], size);
		return size;
	}
	file = fopen(files[at - 2], "r");
	if (!file)
		abort();
	size = fread(buf, 1, MAX_SIZE, file);
	fclose(file);
	return size;
}

int main(int argc, char **argv)
{
	static unsigned char buf[MAX_SIZE];
	FILE *console = stdout;
	long nr = 0;

	for (; argc > 1 && !isdigit((unsigned char)*argv[1]); argc--, argv++)
		nr += fuzz_path(argv[1]);
	fprintf(console, "%ld files\n", nr);
	nr = argc > 1 ? atol(argv[1]) : ITERATIONS;
	for (long i = 0; i < nr; i++) {
		size_t size = load_seed(buf, argv + 2, argc > 2 ? argc - 2 : 0);
		unsigned nr_mutations = i < 2 ? 0 : 1 + pick(8);
		bool is_packed = i % 8 == 7;

		if (is_packed)
			size = pack(buf, size);
		while (nr_mutations--)
			size = mutate(buf, size);
		LLVMFuzzerTestOneInput(buf, size);
	}
	fprintf(console, "%ld inputs\n", nr);
	return 0;
}

#endif
