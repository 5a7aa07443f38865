/* SPDX-License-Identifier: MIT */
/* Settings, and other tools that want the same place. */
#include <stdio.h>
#include <string.h>

#include "tools/doctor.h"

static const char library_name[] = "libgputrace.so";

/* Files that tell a user of CUPTI in a process.  CUPTI has room for one
 * subscriber; `holds` is what holds it from the start, the others take it
 * while they profile. */
static const struct {
	const char *part, *name;
	bool holds;
} users[] = {
	{ "/libToolsInjection", "Nsight Systems (nsys)", true },
	{ "/nsight-systems", "Nsight Systems (nsys)", true },
	{ "/libcuda-injection.so", "Nsight Compute (ncu)", true },
	{ "/nsight-compute", "Nsight Compute (ncu)", true },
	{ "/libsanitizer-collection.so", "compute-sanitizer", true },
	{ "/libInterceptorInjection", "compute-sanitizer or ncu", true },
	{ "/libcudadebugger.so", "cuda-gdb", true },
	{ "/libparcagpucupti.so", "parca", true },
	{ "/libtorch_cpu.so", "torch.profiler", false },
	{ "/libtensorflow_cc.so", "TensorFlow's profiler", false },
	{ "/xla_cuda_plugin.so", "JAX's profiler", false },
	{ "/libproton.so", "Triton's Proton", false },
};

/* Variables that these tools leave in the environment of what they start. */
static const struct {
	const char *prefix, *name;
} marks[] = {
	{ "NSYS_PROFILING_SESSION_ID", "Nsight Systems (nsys)" },
	{ "QUADD_INJECTION", "Nsight Systems (nsys)" },
	{ "NV_TPS_LAUNCH", "ncu or compute-sanitizer" },
	{ "NV_NSIGHT_INJECTION", "ncu or compute-sanitizer" },
	{ "NV_COMPUTE_PROFILER", "Nsight Compute (ncu)" },
	{ "NV_SANITIZER", "compute-sanitizer" },
	{ "CUDBG_", "cuda-gdb" },
	{ "KINETO_USE_DAEMON", "dynolog's torch.profiler on demand" },
};

static void tracer_name(const struct doctor *d, char *name, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/comm", d->process->tracer);
	if (look_read(&d->machine, path, name, size) < 0)
		snprintf(name, size, "?");
	name[strcspn(name, "\n")] = '\0';
}

void check_holder(struct doctor *d, struct finding *f)
{
	const struct process *p = d->process;
	bool attached = p->has_writer && p->has_flush;
	const struct mapped *m = NULL;
	const char *sometimes = NULL;
	char tracer[32];

	for (size_t i = 0; i < sizeof(users) / sizeof(*users); i++) {
		m = process_find(p, users[i].part, NULL);
		if (m && users[i].holds) {
			finding_say(f, attached ? VERDICT_WARN : VERDICT_BAD,
				    "%s is in the process (%s); CUPTI has room "
				    "for one", users[i].name, m->path);
			finding_advise(f, "start the program without it");
			return;
		}
		if (m && !sometimes)
			sometimes = users[i].name;
	}
	if (p->tracer) {
		tracer_name(d, tracer, sizeof(tracer));
		finding_say(f, VERDICT_WARN, "%s (pid %ld) traces the process; "
			    "cuda-gdb would hold CUPTI", tracer, p->tracer);
	} else if (sometimes) {
		finding_say(f, VERDICT_OK, "none now that files tell of; %s "
			    "takes CUPTI while it profiles", sometimes);
	} else {
		finding_say(f, VERDICT_OK, "none");
	}
}

/* ---- Settings ---- */

static const struct setting *find_setting(const char *entry, size_t len)
{
	for (size_t i = 0; i < settings_nr; i++)
		if (strlen(settings_table[i].name) == len &&
		    !memcmp(settings_table[i].name, entry, len))
			return &settings_table[i];
	return NULL;
}

/* Adds what is wrong with one GPUTRACE_ variable; true if something is. */
static bool judge_setting(const char *entry, char *text, size_t size)
{
	size_t len = strcspn(entry, "="), used = strlen(text);
	const struct setting *s = find_setting(entry, len);
	char why[256] = "";

	/* for measuring, see inject/configuration.c */
	if (!strncmp(entry, "GPUTRACE_FLOOR=", 15))
		return false;
	if (!s)
		snprintf(why, sizeof(why), "not a setting");
	else if (!setting_check(s, entry + len + 1, why, sizeof(why)))
		return false;
	snprintf(text + used, size - used, "%s%.*s: %s", used ? "; " : "",
		 (int)(len < 64 ? len : 64), entry, why);
	return true;
}

void check_settings(struct doctor *d, struct finding *f)
{
	char text[512] = "", bad[128] = "", list[768] = "";
	size_t len;
	unsigned nr = 0, nr_bad = 0;

	for (const char *const *e = d->environment; e && *e; e++) {
		if (strncmp(*e, "GPUTRACE_", 9) || !strchr(*e, '='))
			continue;
		nr++;
		len = strlen(list);
		snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " :
			 "", *e);
		if (!judge_setting(*e, text, sizeof(text)))
			continue;
		nr_bad++;
		if (!bad[0])
			snprintf(bad, sizeof(bad), "%.*s",
				 (int)strcspn(*e, "="), *e);
	}
	if (nr_bad) {
		finding_say(f, VERDICT_WARN, "%u of %u ignored: %s", nr_bad,
			    nr, text);
		finding_advise(f, "unset %s (gputrace record --help lists the "
			       "settings)", bad);
	} else {
		finding_say(f, VERDICT_OK, "%u set%s%s", nr, nr ? ": " : "",
			    list);
	}
}

const char *doctor_setting(const struct doctor *d, enum setting_id id)
{
	const struct setting *s = &settings_table[id];
	const char *value = doctor_env(d, s->name);
	char why[256];

	return value && !setting_check(s, value, why, sizeof(why)) ? value :
		s->fallback;
}

/* Something can open a window in a process that waits for it. */
static bool has_way_in(const struct doctor *d)
{
	return !strcmp(doctor_setting(d, SETTING_CONTROL), "on") ||
		*doctor_setting(d, SETTING_SIGNAL);
}

static void say_window(struct finding *f, const char *sources,
		       const char *start, const char *schedule)
{
	uint64_t number = setting_number(&settings_table[SETTING_START],
					 start);
	static const char *const words[] = {
		[START_NOW] = "from CUDA's start on",
		[START_OFF] = "when it is asked for (gputrace start, or "
			"GPUTRACE_SIGNAL)",
		[START_PROFILER_API] = "only between cudaProfilerStart and "
			"cudaProfilerStop",
		[START_NVTX] = "only while that range is open",
		[START_DELAY] = "after that time",
	};

	if (number == START_NOW && *schedule)
		finding_say(f, VERDICT_OK, "%s, in steps: %s", sources,
			    schedule);
	else
		finding_say(f, VERDICT_OK, "%s, %s (GPUTRACE_START=%s)",
			    sources, words[number], start);
}

void check_window(struct doctor *d, struct finding *f)
{
	const char *sources = doctor_setting(d, SETTING_TRACE);
	const char *start = doctor_setting(d, SETTING_START);

	if (!(setting_number(&settings_table[SETTING_TRACE], sources) &
	      SOURCE_CUDA)) {
		finding_say(f, VERDICT_BAD, "nothing: GPUTRACE_TRACE=%s leaves "
			    "CUDA out", sources);
		finding_advise(f, "unset GPUTRACE_TRACE");
	} else if (!strcmp(start, "off") && !has_way_in(d)) {
		finding_say(f, VERDICT_BAD, "nothing: GPUTRACE_START=off, with "
			    "GPUTRACE_CONTROL=off and without "
			    "GPUTRACE_SIGNAL");
		finding_advise(f, "unset GPUTRACE_CONTROL");
	} else {
		say_window(f, sources, start, doctor_setting(d,
				SETTING_SCHEDULE));
	}
}

void check_injection(struct doctor *d, struct finding *f)
{
	const char *cuda = doctor_env(d, "CUDA_INJECTION64_PATH");
	const char *nvtx = doctor_env(d, "NVTX_INJECTION64_PATH");

	if (cuda && !strstr(cuda, library_name)) {
		finding_say(f, VERDICT_BAD, "CUDA_INJECTION64_PATH is somebody "
			    "else's: %s; the driver loads one alone", cuda);
		finding_advise(f, "unset CUDA_INJECTION64_PATH");
	} else if (nvtx && !strstr(nvtx, library_name)) {
		finding_say(f, VERDICT_WARN, "NVTX_INJECTION64_PATH is "
			    "somebody else's: %s; no NVTX ranges", nvtx);
		finding_advise(f, "unset NVTX_INJECTION64_PATH");
	} else {
		finding_say(f, VERDICT_OK, "CUDA_INJECTION64_PATH and "
			    "NVTX_INJECTION64_PATH are free");
	}
}

void check_tools(struct doctor *d, struct finding *f)
{
	for (const char *const *e = d->environment; e && *e; e++)
		for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
			if (strncmp(*e, marks[i].prefix,
				    strlen(marks[i].prefix)))
				continue;
			finding_say(f, VERDICT_WARN, "%.*s is set: %s may hold "
				    "CUPTI", (int)strcspn(*e, "="), *e,
				    marks[i].name);
			finding_advise(f, "start the program outside it");
			return;
		}
	finding_say(f, VERDICT_OK, "no other profiler's variables");
}
