/* SPDX-License-Identifier: MIT */
#include "collector/cpu_load.h"

#include <string.h>

#include "collector/cpu_proc.h"
#include "collector/source.h"

/* 100 % is one CPU, in each of them. */
static const struct slice_kind process_cpu = {
	.name = "process CPU",
	.fields = { { "running %", VALUE_DOUBLE, NULL },
		    { "waiting for a CPU %", VALUE_DOUBLE, NULL } },
};
static const struct slice_kind process_threads = {
	.name = "process threads",
	.fields = { { "threads", VALUE_U64, NULL } },
};
static const struct slice_kind process_memory = {
	.name = "process memory",
	.fields = { { "resident bytes", VALUE_U64, NULL } },
};
/* The time is that of all CPUs of the container. */
static const struct slice_kind container_cpu = {
	.name = "container CPU",
	.fields = { { "quota %", VALUE_DOUBLE, NULL },
		    { "throttled ms", VALUE_DOUBLE, NULL },
		    { "throttled periods", VALUE_U64, NULL } },
};
static const struct slice_kind container_memory = {
	.name = "container memory",
	.fields = { { "used bytes", VALUE_U64, NULL },
		    { "limit bytes", VALUE_ABSENT_0, NULL } },
};

static uint64_t percent(uint64_t part, uint64_t whole)
{
	return source_double(whole ? 100. * (double)part / (double)whole : 0);
}

void cpu_load_init(struct cpu_load *load, const char *proc,
		   const char *files)
{
	memset(load, 0, sizeof *load);
	load->proc = proc;
	cgroups_find(&load->cgroups, proc, files);
}

static void tell_container(struct cpu_load *load, uint64_t now_ns)
{
	struct cgroup_load before = load->container, *now = &load->container;
	uint64_t values[3];

	cgroups_read(&load->cgroups, now);
	if (now->period_us && load->t_ns) {
		values[0] = percent(now->quota_us, now->period_us);
		values[1] = source_double((double)(now->throttled_ns -
			before.throttled_ns) / 1e6);
		values[2] = now->nr_throttled - before.nr_throttled;
		/* Less than before: the limit was taken away and is back. */
		if (now->throttled_ns >= before.throttled_ns &&
		    now->nr_throttled >= before.nr_throttled)
			source_count(&container_cpu, 0, now_ns, values, 3);
	}
	if (now->memory) {
		values[0] = now->memory;
		values[1] = now->memory_limit;
		source_count(&container_memory, 0, now_ns, values, 2);
	}
}

static void tell_process(struct cpu_load *load, uint64_t now_ns,
			 uint32_t nr_threads, uint64_t delay_ns)
{
	uint64_t cpu_ns = proc_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t passed_ns = now_ns - load->t_ns;
	uint64_t values[2] = { nr_threads };

	source_count(&process_threads, 0, now_ns, values, 1);
	values[0] = proc_resident(load->proc);
	if (values[0])
		source_count(&process_memory, 0, now_ns, values, 1);
	if (load->t_ns && cpu_ns) {
		values[0] = percent(cpu_ns - load->cpu_ns, passed_ns);
		values[1] = percent(delay_ns, passed_ns);
		source_count(&process_cpu, 0, now_ns, values, 2);
	}
	load->cpu_ns = cpu_ns;
}

void cpu_load_tell(struct cpu_load *load, uint64_t now_ns,
		   uint32_t nr_threads, uint64_t delay_ns)
{
	if (load->t_ns && now_ns <= load->t_ns)
		return;
	tell_container(load, now_ns);
	tell_process(load, now_ns, nr_threads, delay_ns);
	load->t_ns = now_ns;
}
