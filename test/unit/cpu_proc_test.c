/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tells in text: threads, times, control groups of version 1
 * and 2, in made-up trees; absent, cut and hostile files.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/cpu_cgroup.h"
#include "collector/cpu_proc.h"
#include "test/check.h"

static char folder[256];

static const char *in_folder(const char *name)
{
	static char path[512];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

/* Writes a file of the tree, with the folders that lead to it. */
__attribute__((format(printf, 2, 3)))
static void put(const char *name, const char *format, ...)
{
	char path[1024];
	va_list arguments;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/'));
	     *at++ = '/') {
		*at = 0;
		CHECK(!mkdir(path, 0700) || errno == EEXIST);
	}
	file = fopen(path, "w");
	CHECK(file != NULL);
	if (!file)
		return;
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	fclose(file);
}

static void clear_tree(void)
{
	char command[600];

	snprintf(command, sizeof command, "rm -rf %s/*", folder);
	CHECK_EQ(system(command), 0);
}

static void test_numbers(void)
{
	const char *at = "18446744073709551615 0\n7";
	uint64_t number;

	CHECK(proc_take_number(&at, &number) && number == UINT64_MAX);
	CHECK(proc_take_number(&at, &number) && number == 0);
	CHECK(proc_take_number(&at, &number) && number == 7 && !*at);
	CHECK(!proc_take_number(&at, &number));
	at = "18446744073709551616";
	CHECK(!proc_take_number(&at, &number));
	at = "-1";
	CHECK(!proc_take_number(&at, &number));
	at = "max";
	CHECK(!proc_take_number(&at, &number));
}

static void test_stat(void)
{
	static const char *const bad[] = {
		"", "1", "1 (a", "1 (a)", "1 (a) ", "1 (a) S", "1 (a) SS 1",
		"1 (a) S 1 2 3", "1 (a) S 1 2 3 4 5 6 7 8 9 10 x 12",
		"1 (a) S 1 2 3 4 5 6 7 8 9 10 11", ")", ") ) )", "\n\n\n",
		"1 (a) S 1 2 3 4 5 6 7 8 9 10 99999999999999999999 1",
	};
	struct proc_stat stat;

	CHECK(proc_parse_stat("12 (a) R 9 (b) S 1 2 3 4 5 6 7 8 9 10 11 12 0",
			      &stat));
	CHECK(stat.state == 'S');
	CHECK_EQ(stat.cpu_ns, 23 * (1000000000ull /
				    (uint64_t)sysconf(_SC_CLK_TCK)));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!proc_parse_stat(bad[i], &stat) && !stat.cpu_ns);
}

static void test_sched(void)
{
	struct proc_sched sched;

	CHECK(proc_parse_sched("1234 567 8\n", &sched));
	CHECK(sched.run_ns == 1234 && sched.delay_ns == 567);
	CHECK(!proc_parse_sched("0 0 0\n", &sched));    /* nothing counted */
	CHECK(!proc_parse_sched("1 2\n", &sched) && !sched.run_ns);
	CHECK(!proc_parse_sched("", &sched));
}

static uint32_t nr_seen, sum_seen;

static void see(void *context, uint32_t tid)
{
	CHECK(context == &nr_seen);
	nr_seen++;
	sum_seen += tid;
}

static void test_threads(void)
{
	struct proc_stat stat;
	struct proc_sched sched;

	put("proc/self/task/11/stat", "11 (a) D 1 2 3 4 5 6 7 8 9 10 1 2");
	put("proc/self/task/22/schedstat", "5 6 7");
	put("proc/self/task/.x/stat", "?");
	put("proc/self/task/3x/stat", "?");
	put("proc/self/task/99999999999/stat", "?");
	put("proc/self/task/0/stat", "?");
	put("proc/self/statm", "900 25 3 1 0 1 0");
	put("proc/sys/kernel/perf_event_mlock_kb", "516\n");
	put("proc/sys/kernel/odd", "-1\n");
	CHECK(proc_threads(in_folder("proc"), see, &nr_seen));
	CHECK_EQ(nr_seen, 2);
	CHECK_EQ(sum_seen, 33);
	CHECK(proc_read_stat(in_folder("proc"), 11, &stat));
	CHECK(stat.state == 'D');
	CHECK(!proc_read_stat(in_folder("proc"), 22, &stat));
	CHECK(proc_read_sched(in_folder("proc"), 22, &sched));
	CHECK(!proc_read_sched(in_folder("proc"), 33, &sched));
	CHECK_EQ(proc_resident(in_folder("proc")),
		 25 * sysconf(_SC_PAGESIZE));
	CHECK_EQ(proc_number(in_folder("proc"), "kernel/perf_event_mlock_kb",
			     1), 516);
	CHECK_EQ(proc_number(in_folder("proc"), "kernel/odd", 42), 42);
	CHECK(!proc_threads(in_folder("none"), see, &nr_seen));
	CHECK_EQ(proc_resident(in_folder("none")), 0);
}

/* ---- Control groups ---- */

static struct cgroups groups;
static struct cgroup_load load;

static void read_groups(void)
{
	cgroups_find(&groups, in_folder("proc"), folder);
	cgroups_read(&groups, &load);
}

#define V2 "30 1 0:26 / /cg rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"

/* A pod's limit around a container's larger one. */
static void test_v2(void)
{
	clear_tree();
	put("proc/self/cgroup", "0::/pod/c1\n");
	put("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n" V2);
	put("cg/cgroup.procs", "1\n");
	put("cg/pod/cpu.max", "50000 100000\n");
	put("cg/pod/cpu.stat", "usage_usec 9\nnr_periods 9\nnr_throttled 3\n"
	    "throttled_usec 4000\n");
	put("cg/pod/c1/cpu.max", "200000 100000\n");
	put("cg/pod/c1/cpu.stat", "nr_throttled 1\nthrottled_usec 500\n");
	put("cg/pod/c1/memory.current", "1000\n");
	put("cg/pod/c1/memory.max", "max\n");
	put("cg/pod/memory.current", "3000\n");
	put("cg/pod/memory.max", "4096\n");
	read_groups();
	CHECK(groups.cpu.is_v2);
	CHECK_EQ(load.quota_us, 50000);
	CHECK_EQ(load.period_us, 100000);
	CHECK_EQ(load.nr_throttled, 4);
	CHECK_EQ(load.throttled_ns, 4500000);
	CHECK_EQ(load.memory, 3000);
	CHECK_EQ(load.memory_limit, 4096);
	put("cg/pod/cpu.max", "max 100000\n");
	put("cg/pod/c1/cpu.max", "max 100000\n");
	put("cg/pod/memory.max", "max\n");
	read_groups();
	CHECK_EQ(load.period_us, 0);
	CHECK_EQ(load.throttled_ns, 0);
	CHECK_EQ(load.memory, 1000);
	CHECK_EQ(load.memory_limit, 0);
}

/* As a container with a namespace of its own sees it: all is the root. */
static void test_v2_namespace(void)
{
	clear_tree();
	put("proc/self/cgroup", "0::/\n");
	put("proc/self/mountinfo", V2);
	put("cg/cpu.max", "25000 50000");
	put("cg/cpu.stat", "nr_throttled 2\nthrottled_usec 7\n");
	put("cg/memory.current", "77");
	put("cg/memory.max", "88");
	read_groups();
	CHECK_EQ(load.quota_us, 25000);
	CHECK_EQ(load.throttled_ns, 7000);
	CHECK_EQ(load.memory_limit, 88);
	/* Moved out of it. */
	put("proc/self/cgroup", "0::/../../other\n");
	read_groups();
	CHECK_EQ(load.quota_us, 25000);
}

#define V1 "31 1 0:1 /docker/c1 /cg/cpu,cpuacct rw - cgroup cgroup " \
	"rw,cpu,cpuacct\n" \
	"32 1 0:2 /docker/c1 /cg/cpuset rw - cgroup cgroup rw,cpuset\n" \
	"33 1 0:3 / /cg/memory rw - cgroup cgroup rw,memory\n" \
	"34 1 0:4 / /cg/unified rw - cgroup2 cgroup2 rw\n"

/* Docker's way without a namespace; a hybrid's empty version 2 beside it. */
static void test_v1(void)
{
	clear_tree();
	put("proc/self/cgroup", "5:memory:/docker/c1\n4:cpuset:/x\n"
	    "3:cpuacct,cpu:/docker/c1/sub\n0::/docker\n");
	put("proc/self/mountinfo", V1);
	put("cg/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
	put("cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	put("cg/cpu,cpuacct/cpu.stat", "nr_periods 5\nnr_throttled 2\n"
	    "throttled_time 123456\n");
	put("cg/cpu,cpuacct/sub/cpu.cfs_quota_us", "-1\n");
	put("cg/cpu,cpuacct/sub/cpu.cfs_period_us", "100000\n");
	put("cg/cpu,cpuacct/sub/cpu.stat", "nr_throttled 9\n");
	put("cg/memory/docker/c1/memory.usage_in_bytes", "500\n");
	put("cg/memory/docker/c1/memory.limit_in_bytes", "600\n");
	put("cg/memory/memory.usage_in_bytes", "99999\n");
	put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("cg/unified/docker/cpu.max", "1 100000\n");
	read_groups();
	CHECK(!groups.cpu.is_v2 && !groups.memory.is_v2);
	CHECK_EQ(load.quota_us, 150000);
	CHECK_EQ(load.nr_throttled, 2);
	CHECK_EQ(load.throttled_ns, 123456);
	CHECK_EQ(load.memory, 500);
	CHECK_EQ(load.memory_limit, 600);
	/* On the machine itself: no container's memory to tell. */
	put("proc/self/cgroup", "5:memory:/\n3:cpuacct,cpu:/\n");
	put("cg/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	read_groups();
	CHECK_EQ(load.memory, 0);
	CHECK_EQ(load.period_us, 0);
}

static void test_long_paths(void)
{
	char *line = malloc(20001);

	memset(line, 'a', 20000);
	line[20000] = 0;
	put("proc/self/cgroup", "0::/%s\n", line);
	put("proc/self/mountinfo", "1 2 3 /%s /%s rw - cgroup2 x\n" V2, line,
	    line);
	read_groups();
	put("proc/self/cgroup", "0::/%.4000s\n", line);
	put("proc/self/mountinfo", "1 2 3 / /%.4000s rw - cgroup2 x\n", line);
	read_groups();
	CHECK_EQ(load.period_us, 0);
	free(line);
	/* Deeper than we look: the innermost is seen. */
	put("proc/self/cgroup", "0::/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h/i\n");
	put("proc/self/mountinfo", V2);
	put("cg/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h/i/cpu.max", "5 10");
	read_groups();
	CHECK_EQ(load.quota_us, 5);
}

static void test_hostile(void)
{
	static const char *const own[] = {
		"", "\n\n", "0:", "0::", "::::", "0::/\n", "3:cpu", "3:cpu:",
		"3:cpu,:/a\n", "3:,,,cpu:/../../..\n", "0::no slash\n",
	};
	static const char *const mounts[] = {
		"", "\n", " - ", "1 2 3 - cgroup2", "30 1 0:26 / - cgroup2 x\n",
		"1 2 3 / /cg rw - cgroup x", "1 2 3 / /cg rw - cgroup x cpu",
		V2, V1, "   - cgroup2\n",
	};

	clear_tree();
	read_groups();                  /* there is nothing */
	CHECK_EQ(load.period_us + load.memory, 0);
	put("cg/cpu.max", "100000 0\n");        /* no division */
	put("cg/memory.current", "12x\n");
	put("cg/memory.max", "99999999999999999999999\n");
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		for (size_t j = 0; j < sizeof mounts / sizeof *mounts; j++) {
			put("proc/self/cgroup", "%s", own[i]);
			put("proc/self/mountinfo", "%s", mounts[j]);
			read_groups();
			CHECK_EQ(load.period_us, 0);
			CHECK_EQ(load.memory_limit, 0);
		}
	test_long_paths();
}

/* The real ones of this process can be read, whatever they are. */
static void test_real(void)
{
	struct proc_stat stat;
	struct proc_sched sched;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	CHECK(proc_read_stat("/proc", tid, &stat) && stat.state == 'R');
	CHECK(proc_resident("/proc") > 100000);
	if (proc_read_sched("/proc", tid, &sched))
		CHECK(sched.run_ns > 0);
	cgroups_find(&groups, "/proc", "");
	cgroups_read(&groups, &load);
}

int main(void)
{
	snprintf(folder, sizeof folder, "/tmp/gputrace-cpu-XXXXXX");
	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	test_numbers();
	test_stat();
	test_sched();
	test_threads();
	test_v2();
	test_v2_namespace();
	test_v1();
	test_hostile();
	test_real();
	clear_tree();
	rmdir(folder);
	return check_result();
}
