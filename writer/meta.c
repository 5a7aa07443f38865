/* SPDX-License-Identifier: MIT */
#include "writer/meta.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "collector/loss.h"
#include "writer/argv.h"

void meta_head(struct trace *trace, struct bytes *head)
{
	const struct writer_options *options = &trace->options;

	json_begin_document(head, trace->base_ns, options->rank,
			    options->world_size, options->local_rank);
	json_open(head, '{');
	json_member_text(head, "ph", "M");
	json_member_text(head, "name", "process_labels");
	json_member_u64(head, "pid", trace->pid);
	json_member_u64(head, "tid", trace->pid);
	json_key(head, "args");
	json_open(head, '{');
	json_member_text(head, "labels", "CPU");
	json_close(head, '}');
	json_close(head, '}');
}

/* What a block may ask for beyond the default: from compute capability 8.0 on
 * all of the multiprocessor's but the 1 KiB that the driver takes of each
 * block (CUDA programming guide, compute capabilities). */
static uint32_t smem_optin(const struct device *device)
{
	uint32_t reserved = device->cc_major >= 8 ? 1024 : 0;

	return device->smem_per_sm > reserved ?
		device->smem_per_sm - reserved : 0;
}

static void add_device(struct bytes *out, const struct device *device)
{
	json_open(out, '{');
	json_member_u64(out, "id", device->id);
	json_member_text(out, "name", device->name ? device->name : "GPU");
	json_member_u64(out, "totalGlobalMem", device->memory_size);
	json_member_u64(out, "computeMajor", device->cc_major);
	json_member_u64(out, "computeMinor", device->cc_minor);
	json_member_u64(out, "maxThreadsPerBlock", device->threads_per_block);
	json_member_u64(out, "maxThreadsPerMultiprocessor",
			device->max_warps_per_sm * device->warp_size);
	json_member_u64(out, "regsPerBlock", device->regs_per_block);
	json_member_u64(out, "warpSize", device->warp_size);
	json_member_u64(out, "sharedMemPerBlock", device->smem_per_block);
	json_member_u64(out, "numSms", device->nr_sm);
	json_member_u64(out, "regsPerMultiprocessor", device->regs_per_sm);
	json_member_u64(out, "sharedMemPerBlockOptin", smem_optin(device));
	json_member_u64(out, "sharedMemPerMultiprocessor",
			device->smem_per_sm);
	/* Not Kineto's: */
	json_member_u64(out, "l2CacheSize", device->l2_size);
	json_member_u64(out, "memoryBandwidthKBps", device->memory_bandwidth);
	json_member_u64(out, "clockRateKHz", device->core_clock_khz);
	json_member_u64(out, "copyEngines", device->copy_engines);
	json_key(out, "mig");
	json_bool(out, device->is_mig);
	json_close(out, '}');
}

static void add_devices(struct trace *trace, struct bytes *out)
{
	uint32_t i;

	json_key(out, "deviceProperties");
	json_open(out, '[');
	for (i = 0; i < trace->objects.nr_devices; i++)
		add_device(out, &trace->objects.devices[i].device);
	json_close(out, ']');
}

static void add_argv(struct trace *trace, struct bytes *out)
{
	char *cmdline = malloc(ARGV_BYTES_MAX);
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t len = 0;

	if (cmdline && fd >= 0)
		len = read(fd, cmdline, ARGV_BYTES_MAX);
	json_key(out, "argv");
	argv_write(out, cmdline, len > 0 ? (size_t)len : 0,
		   trace->options.mask_argv);
	if (fd >= 0)
		close(fd);
	free(cmdline);
}

static void add_settings(const struct trace *trace, struct bytes *out)
{
	const struct writer_options *options = &trace->options;
	size_t i;

	json_key(out, "settings");
	json_open(out, '{');
	for (i = 0; i < options->nr_settings; i++)
		json_member_text(out, options->settings[i].name,
				 options->settings[i].value);
	json_close(out, '}');
}

/* One more reading; when the list is full every other one goes. */
static void add_clock_pair(struct trace *trace)
{
	uint32_t i;

	if (trace->nr_clock_pairs == CLOCK_PAIRS_MAX) {
		trace->nr_clock_pairs /= 2;
		for (i = 0; i < trace->nr_clock_pairs; i++)
			trace->clock_pairs[i] = trace->clock_pairs[2 * i];
	}
	clock_snapshot(&trace->clock_pairs[trace->nr_clock_pairs++]);
}

static void add_clock_pairs(struct trace *trace, struct bytes *out)
{
	uint32_t i;

	add_clock_pair(trace);
	json_key(out, "clock_pairs");
	json_open(out, '[');
	for (i = 0; i < trace->nr_clock_pairs; i++) {
		const struct clock_pair *pair = &trace->clock_pairs[i];

		json_open(out, '[');
		json_u64(out, pair->t_ns > trace->base_ns ?
			 pair->t_ns - trace->base_ns : 0);
		json_u64(out, pair->realtime_ns);
		json_u64(out, pair->boottime_ns);
		json_close(out, ']');
	}
	json_close(out, ']');
}

static void add_losses(struct bytes *out)
{
	enum loss cause;

	json_key(out, "losses");
	json_open(out, '{');
	for (cause = 0; cause < LOSS_NR; cause++)
		if (loss_get(cause))
			json_member_u64(out, loss_key(cause), loss_get(cause));
	json_close(out, '}');
}

/* What the watchdog has seen, and why recording ended early. */
static void add_faults(const struct trace *trace, struct bytes *out)
{
	enum watch_fault fault;
	uint64_t t_ns;

	json_key(out, "watchdog");
	json_open(out, '[');
	for (fault = 0; fault < NR_WATCH_FAULTS; fault++) {
		t_ns = watch_seen_ns(fault);
		if (!t_ns)
			continue;
		json_open(out, '{');
		json_member_text(out, "fault", watch_name(fault));
		json_member_u64(out, "at_ns", t_ns - trace->base_ns);
		json_key(out, "stopped");
		json_bool(out, watch_stops(fault));
		json_close(out, '}');
	}
	json_close(out, ']');
	if (trace->file->stopped_by)
		json_member_text(out, "stopped", trace->file->stopped_by);
}

static void add_names(const struct trace *trace, struct bytes *out)
{
	const struct name *name;

	json_key(out, "names");
	json_open(out, '{');
	for (name = trace->names.list; name; name = name->next) {
		if (name->is_alias || !strcmp(name->text, name->full))
			continue;
		json_key(out, name->text);
		json_text(out, name->full);
	}
	json_close(out, '}');
}

static uint64_t own_cpu_ns(void)
{
	struct timespec time;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time))
		return 0;
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Of the file and those it was rotated into, up to here. */
static void add_file(const struct trace *trace, struct bytes *out)
{
	const struct file *file = trace->file;

	json_member_u64(out, "part", file->part);
	if (file->kind == FILE_WINDOW)
		json_member_u64(out, "window", file->number);
	json_member_u64(out, "kernels", trace->nr_kernels -
			trace->gone.kernels - file->elsewhere.kernels);
	json_member_u64(out, "kernels_gone", trace->gone.kernels -
			file->gone_elsewhere.kernels);
}

/* What a dump of the flight recorder reaches back. */
static void add_recorder(const struct trace *trace, struct bytes *out)
{
	const struct file *file = trace->file;

	if (file->kind != FILE_DUMP)
		return;
	json_key(out, "recorder");
	json_open(out, '{');
	json_member_u64(out, "dump", file->number);
	json_member_u64(out, "span_ns", file->span_ns);
	json_member_u64(out, "from_ns", file->begun_ns > trace->base_ns ?
			file->begun_ns - trace->base_ns : 0);
	json_member_u64(out, "forgotten_events", file->forgotten.events);
	json_member_u64(out, "forgotten_kernels", file->forgotten.kernels);
	json_close(out, '}');
}

static void add_gputrace(struct trace *trace, struct bytes *out, bool is_last)
{
	const struct writer_options *options = &trace->options;

	json_key(out, "gputrace");
	json_open(out, '{');
	json_member_text(out, "version", GPUTRACE_VERSION);
	json_member_text(out, "run_id", trace->run_id);
	json_member_text(out, "host", trace->host);
	json_member_u64(out, "pid", trace->pid);
	add_argv(trace, out);
	json_member_u64(out, "start_ns", trace->start_ns);
	json_member_u64(out, "rank", options->rank);
	json_member_u64(out, "local_rank", options->local_rank);
	json_member_u64(out, "world_size", options->world_size);
	json_key(out, "container");
	json_text(out, options->container ? options->container : "");
	json_member_u64(out, "driver", options->driver_version);
	json_member_u64(out, "cupti", options->cupti_version);
	add_settings(trace, out);
	add_clock_pairs(trace, out);
	add_losses(out);
	unfinished_tell(trace, out);
	stacks_tell_files(trace, out);
	add_faults(trace, out);
	add_names(trace, out);
	json_member_u64(out, "own_ns", own_cpu_ns());
	add_file(trace, out);
	add_recorder(trace, out);
	json_member_u64(out, "before_launch", trace->nr_before_launch);
	json_key(out, "finished");
	json_bool(out, is_last);
	json_close(out, '}');
}

static void end_tail(struct trace *trace, struct bytes *tail, bool is_last)
{
	const char *path = trace->file->path, *slash = strrchr(path, '/');

	add_gputrace(trace, tail, is_last);
	json_member_text(tail, "traceName", slash ? slash + 1 : path);
	json_end_document(tail);
}

void meta_tail(struct trace *trace, struct bytes *tail, bool is_last)
{
	encode_open_ranges(trace, tail, clock_now_ns());
	meta_names(trace, tail);
	json_end_events(tail);
	add_devices(trace, tail);
	trace->file->tail_own = tail->len;
	end_tail(trace, tail, is_last);
}

void meta_tail_again(struct trace *trace, struct bytes *tail)
{
	bytes_cut(tail, trace->file->tail_own);
	end_tail(trace, tail, true);
}
