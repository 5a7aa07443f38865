/* SPDX-License-Identifier: MIT */
/*
 * How fast the trace reader is: MB/s of plain JSON from memory (a memfd, which
 * is page cache), on one core, over what `gputrace report` does with a file.
 * The baseline is what `wc -l` does with the same file: read() it and search
 * for line ends with memchr().
 *
 * Beside it, as processes: the command's report and diff, and what else reads
 * such a file.  A process that is absent has no value.  Peak memory is the
 * process's, its program included; diff reads the file twice.
 *
 *      reader [FILE]   default: a made-up trace of 256 MB
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/report.h"

enum { SIZE_MB = 256, RUNS = 5, NR_NAMES = 40 };

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* One launch, its kernel and the arrow between, as our writer prints them. */
static void write_launch(FILE *to, unsigned i)
{
	uint64_t ns = 1000000000 + (uint64_t)i * 9000;

	fprintf(to, "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":"
		"\"cudaLaunchKernel\",\"pid\":4242,\"tid\":4243,\"ts\":%" PRIu64
		".%03u,\"dur\":4.812,\"args\":{\"cbid\":211,\"correlation\":"
		"%u}},\n", ns / 1000, (unsigned)(ns % 1000), i);
	fprintf(to, "{\"ph\":\"s\",\"id\":%u,\"pid\":4242,\"tid\":4243,\"ts\":"
		"%" PRIu64 ".%03u,\"cat\":\"ac2g\",\"name\":\"ac2g\"},\n", i,
		ns / 1000, (unsigned)(ns % 1000));
	ns += 7123;
	fprintf(to, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"void "
		"at::native::vectorized_elementwise_kernel<4, at::native::"
		"CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >#%02u"
		"\",\"pid\":5000000,\"tid\":1,\"ts\":%" PRIu64 ".%03u,\"dur\":"
		"%u.%03u,\"args\":{\"device\":0,\"context\":1,\"stream\":7,"
		"\"correlation\":%u,\"registers per thread\":32,\"shared "
		"memory\":0,\"blocks per SM\":0.484848,\"warps per SM\":"
		"1.939394,\"grid\":[64,1,1],\"block\":[128,1,1],\"est. "
		"achieved occupancy %%\":3,\"graph id\":0,\"graph node id\":0,"
		"\"priority\":0}},\n", i % NR_NAMES, ns / 1000,
		(unsigned)(ns % 1000), 2 + i % 7, i % 1000, i);
	fprintf(to, "{\"ph\":\"f\",\"id\":%u,\"pid\":5000000,\"tid\":1,\"ts\":"
		"%" PRIu64 ".%03u,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":"
		"\"e\"},\n", i, ns / 1000, (unsigned)(ns % 1000));
}

static int make_trace(void)
{
	int fd = memfd_create("trace", 0);
	FILE *to = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!to)
		return -1;
	fputs("{\"schemaVersion\": 1, \"traceEvents\": [\n", to);
	for (unsigned i = 1; ftell(to) < (long)SIZE_MB << 20; i++)
		write_launch(to, i);
	fputs("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4242,\"tid\":"
	      "4242,\"ts\":0,\"args\":{\"name\":\"bench\"}}\n]}\n", to);
	fclose(to);
	return fd;
}

static double read_lines(const char *path)
{
	static char buf[512 << 10];
	double start = now_s();
	int fd = open(path, O_RDONLY);
	volatile uint64_t lines = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (char *p = buf; (p = memchr(p, '\n', buf + n - p)); p++)
			lines++;
	close(fd);
	return now_s() - start;
}

static double read_report(const char *path, uint64_t *nr_events)
{
	double start = now_s();
	struct trace_problem problem;
	struct report r;

	report_init(&r);
	if (report_add_file(&r, path, &problem)) {
		fprintf(stderr, "%s: %s\n", path, problem.text);
		exit(1);
	}
	report_finish(&r, &(struct report_select){ .by = BY_ALL });
	*nr_events = r.nr_events;
	report_fini(&r);
	return now_s() - start;
}

/* ---- Processes ---- */

#define GPUTRACE "\"$O/gputrace\" "

static const struct reader {
	const char *name, *needs, *command;     /* of the shell; the file is $1 */
	int files;                              /* how often it is read */
} readers[] = {
	{ "gputrace report", NULL,
	  "exec " GPUTRACE "report --format json \"$1\"", 1 },
	{ "gputrace diff", NULL, "exec " GPUTRACE "diff \"$1\" \"$1\"", 2 },
	{ "cat", "cat", "exec cat \"$1\"", 1 },
	{ "python3 json.load", "python3", "exec python3 -c 'import json, sys\n"
	  "json.load(open(sys.argv[1]))' \"$1\"", 1 },
	{ "jq length", "jq", "exec jq '.traceEvents | length' \"$1\"", 1 },
};
enum { NR_READERS = sizeof(readers) / sizeof(*readers), PROCESS_RUNS = 3 };

static bool is_there(const char *program)
{
	char text[64];

	snprintf(text, sizeof(text), "command -v %s >/dev/null", program);
	return system(text) == 0;
}

struct cost {
	double s;               /* 0: absent; negative: failed */
	long peak_kb;
};

static struct cost run(const char *command, const char *path)
{
	double start = now_s();
	struct rusage usage;
	int status;
	pid_t pid = fork();

	if (!pid) {
		dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", command, "sh", path, NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0 || status)
		return (struct cost){ -1, 0 };
	return (struct cost){ now_s() - start, usage.ru_maxrss };
}

/* Before this process has read anything: a child's peak begins with what its
 * parent holds. */
static struct cost measure(const struct reader *r, const char *path)
{
	struct cost best = { .s = 1e9 };

	if (r->needs && !is_there(r->needs))
		return (struct cost){ 0 };
	for (int i = 0; i < PROCESS_RUNS; i++) {
		struct cost cost = run(r->command, path);

		best = cost.s < best.s ? cost : best;
	}
	return best;
}

/* Returns whether the reader did not fail. */
static bool print_cost(const struct reader *r, struct cost cost, double size,
		       uint64_t nr_events)
{
	if (!cost.s) {
		printf("{\"name\":\"%s\",\"absent\":true}\n", r->name);
		return true;
	}
	if (cost.s < 0) {
		fprintf(stderr, "reader: %s failed\n", r->name);
		return false;
	}
	size *= r->files;
	nr_events *= r->files;
	printf("{\"name\":\"%s\",\"value\":%.0f,\"unit\":\"MB/s\",\"size_mb\":"
	       "%.0f,\"events\":%" PRIu64 ",\"seconds\":%.2f,\"peak_mb\":%.0f,"
	       "\"peak_bytes_per_event\":%.0f}\n", r->name, size / cost.s, size,
	       nr_events, cost.s, cost.peak_kb * 1024 / 1e6,
	       cost.peak_kb * 1024. / nr_events);
	return true;
}

static void print_reader(double size, double best, double baseline,
			 uint64_t nr_events)
{
	printf("{\"name\":\"trace reader\",\"value\":%.0f,\"unit\":\"MB/s\","
	       "\"baseline\":%.0f,\"baseline_is\":\"read and memchr\","
	       "\"size_mb\":%.0f,\"events\":%" PRIu64 ",\"ns_per_event\":"
	       "%.0f}\n", size / best, size / baseline, size, nr_events,
	       best * 1e9 / nr_events);
}

int main(int argc, char **argv)
{
	double best = 1e9, baseline = 1e9, size;
	struct cost cost[NR_READERS];
	uint64_t nr_events = 0;
	bool good = true;
	char path[64];
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : make_trace();

	if (fd < 0) {
		perror("reader");
		return 1;
	}
	setenv("O", "build", 0);
	size = lseek(fd, 0, SEEK_END) / 1e6;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (int i = 0; i < NR_READERS; i++)
		cost[i] = measure(&readers[i], path);
	for (int i = 0; i < RUNS; i++) {
		double s = read_report(path, &nr_events);

		best = s < best ? s : best;
		s = read_lines(path);
		baseline = s < baseline ? s : baseline;
	}
	print_reader(size, best, baseline, nr_events);
	for (int i = 0; i < NR_READERS; i++)
		good &= print_cost(&readers[i], cost[i], size, nr_events);
	return !good;
}
