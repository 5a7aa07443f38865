/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CPU_LOAD_H
#define GPUTRACE_COLLECTOR_CPU_LOAD_H

#include <stdint.h>

#include "collector/cpu_cgroup.h"

/*
 * The load of the process and of the container that it is in, as counters:
 * each value is that of the time since the one before.
 * Context: the sampler thread.
 */
struct cpu_load {
	const char *proc;
	struct cgroups cgroups;
	struct cgroup_load container;
	uint64_t t_ns, cpu_ns;          /* at the last call */
};

void cpu_load_init(struct cpu_load *load, const char *proc,
		   const char *files);

/* nr_threads and delay_ns (all of them waited so long for a CPU, since the
 * last call) are cpu_tasks.h's. */
void cpu_load_tell(struct cpu_load *load, uint64_t now_ns,
		   uint32_t nr_threads, uint64_t delay_ns);

#endif
