/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_CGROUP_H
#define GPUTRACE_COLLECTOR_CPU_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The control groups that this process is in, version 1 or 2, as far as the
 * container shows them: from its own one up to the root of what is mounted.
 * A limit may stand in any of them, and each holds.
 *
 *	/sys/fs/cgroup/kubepods/pod1/c1		v2: cpu.max, cpu.stat, memory.*
 *	/sys/fs/cgroup/cpu/docker/c1		v1: cpu.cfs_*, cpu.stat
 *	`---- root ---'`--- own ---'
 */
struct cgroup {
	char path[PATH_MAX];            /* "": none */
	uint32_t root_len;
	bool is_v2;
};

struct cgroups {
	struct cgroup cpu, memory;
};

/* proc: "/proc", files: "" before the mount points, but in tests.
 * Context: our own threads. */
void cgroups_find(struct cgroups *cgroups, const char *proc,
		  const char *files);

struct cgroup_load {
	/* The tightest quota; 0: none.  100000 of 100000 us is one CPU. */
	uint64_t quota_us, period_us;
	/* Since the group exists, of those that have a quota; the time is that
	 * of all its CPUs. */
	uint64_t nr_throttled, throttled_ns;
	/* Of the group with the lowest limit, else of its own; limit 0: none */
	uint64_t memory, memory_limit;
};

/* Context: our own threads; three or four files a level. */
void cgroups_read(const struct cgroups *cgroups, struct cgroup_load *load);

#endif
