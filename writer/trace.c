/* SPDX-License-Identifier: MIT */
#include "writer/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "writer/backlog.h"
#include "writer/output.h"
#include "writer/path.h"

/* The trace begins one second before us: what the GPU was doing at attach may
 * be told later, with earlier times. */
#define BASE_BEFORE_NS UINT64_C(1000000000)

#define NAMES_LEAST (UINT64_C(4) << 20)

static char *copy_text(const char *text, bool *failed)
{
	char *copy;

	if (!text)
		return NULL;
	copy = bytes_copy(text, strlen(text));
	*failed |= !copy;
	return copy;
}

/* Of the folder in which the program is now: it may go elsewhere.  A '%' of
 * the folder stands for itself. */
static char *copy_absolute(const char *pattern, bool *failed)
{
	char folder[PATH_MAX], whole[2 * PATH_MAX];
	size_t at = 0, i;

	if (*pattern == '/' || !getcwd(folder, sizeof(folder)) ||
	    folder[0] != '/')
		return copy_text(pattern, failed);
	for (i = 0; folder[i] && at + 3 < sizeof(whole); i++) {
		whole[at++] = folder[i];
		if (folder[i] == '%')
			whole[at++] = '%';
	}
	if ((size_t)snprintf(whole + at, sizeof(whole) - at, "/%s",
			     pattern) >= sizeof(whole) - at)
		return copy_text(pattern, failed);
	return copy_text(whole, failed);
}

static int copy_options(struct writer_options *to,
			const struct writer_options *from)
{
	struct setting_text *settings;
	bool failed = false;
	size_t i;

	*to = *from;
	to->out = copy_absolute(from->out, &failed);
	to->kernels = copy_text(from->kernels, &failed);
	to->container = copy_text(from->container, &failed);
	settings = calloc(from->nr_settings + 1, sizeof(*settings));
	to->settings = settings;
	if (!settings) {
		to->nr_settings = 0;
		return -ENOMEM;
	}
	for (i = 0; i < from->nr_settings; i++) {
		settings[i].name = copy_text(from->settings[i].name, &failed);
		settings[i].value = copy_text(from->settings[i].value,
					      &failed);
		failed |= !settings[i].name || !settings[i].value;
	}
	return failed || !to->out ? -ENOMEM : 0;
}

static void free_options(struct writer_options *options)
{
	size_t i;

	for (i = 0; options->settings && i < options->nr_settings; i++) {
		free((char *)options->settings[i].name);
		free((char *)options->settings[i].value);
	}
	free((void *)options->settings);
	free((char *)options->out);
	free((char *)options->kernels);
	free((char *)options->container);
}

/* The program's name without its folder: argv[0] is what a person typed. */
static void find_program(char *program, size_t size)
{
	char text[4096] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	const char *slash;

	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = 0;
	slash = strrchr(text, '/');
	snprintf(program, size, "%.*s", (int)size - 1,
		 slash ? slash + 1 : text);
	if (!program[0])
		snprintf(program, size, "program");
}

static void identify(struct trace *trace)
{
	uint64_t random = 0;

	trace->pid = (uint32_t)getpid();
	if (gethostname(trace->host, sizeof(trace->host) - 1))
		snprintf(trace->host, sizeof(trace->host), "unknown");
	find_program(trace->program, sizeof(trace->program));
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = trace->start_ns * 31 + trace->pid;
	snprintf(trace->run_id, sizeof(trace->run_id), "%016llx",
		 (unsigned long long)random);
}

int trace_init(struct trace *trace, const struct writer_options *options)
{
	uint64_t memory = options->memory ? options->memory : 64 << 20;
	int err;

	memset(trace, 0, sizeof(*trace));
	trace->start_ns = clock_now_ns();
	trace->base_ns = trace->start_ns - BASE_BEFORE_NS;
	trace->last_ns = UINT64_MAX;
	trace->stretch.arrow_ns = UINT64_MAX;
	trace->nr_complete = window_settled();
	identify(trace);
	err = copy_options(&trace->options, options);
	if (!err)
		err = output_init(trace);
	if (!err)
		trace->has_own_files = path_has_window(trace->options.out);
	if (!err)
		err = tracks_init(&trace->tracks, trace->pid, memory);
	if (!err)
		err = cpu_threads_init(&trace->threads, memory);
	if (!err)
		err = calls_init(&trace->calls, memory / 2);
	if (!err)
		err = ranges_init(&trace->ranges, memory);
	if (!err)
		err = names_init(&trace->names, options->names,
				 trace->options.kernels);
	/* Half, but for 3,000 long ones in any case. */
	trace->names.max_bytes = memory / 2 < NAMES_LEAST ? NAMES_LEAST :
		memory / 2;
	if (!err)
		err = objects_init(&trace->objects);
	trace->kernels = kernel_shapes_create();
	trace->apis = api_shapes_create();
	trace->pending = pending_create(memory / 4);
	trace->unfinished = unfinished_create();
	trace->backlog = backlog_create(options->backlog ? options->backlog :
					memory);
	if (!err && (!trace->kernels || !trace->apis || !trace->pending ||
		     !trace->unfinished || !trace->backlog))
		err = -ENOMEM;
	clock_snapshot(&trace->clock_pairs[trace->nr_clock_pairs++]);
	return err;
}

void trace_fini(struct trace *trace)
{
	struct cpu_thread *thread;

	output_fini(trace);
	for (thread = trace->threads.list; thread; thread = thread->next)
		range_log_destroy(thread->log);
	ranges_fini(&trace->ranges);
	cpu_threads_fini(&trace->threads);
	tracks_fini(&trace->tracks);
	calls_fini(&trace->calls);
	if (trace->names.buckets)
		names_fini(&trace->names);
	objects_fini(&trace->objects);
	kernel_shapes_destroy(trace->kernels);
	api_shapes_destroy(trace->apis);
	pending_destroy(trace->pending);
	unfinished_destroy(trace->unfinished);
	backlog_destroy(trace->backlog);
	stacks_destroy(trace->stacks);
	bytes_fini(&trace->out);
	bytes_fini(&trace->tail);
	bytes_fini(&trace->scratch);
	free_options(&trace->options);
	memset(trace, 0, sizeof(*trace));
}
