/* SPDX-License-Identifier: MIT */
#include "inject/configuration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/environment.h"
#include "inject/room.h"

/* An internal switch for measuring, no setting: every other window is CUPTI's
 * floor (cupti.h). */
#define FLOOR_VARIABLE "GPUTRACE_FLOOR"

/*
 * GPUTRACE_BUFFER is the bound of all that the library holds: four eighths
 * for CUPTI's buffers, two for rings (at the default 64 MiB: 400 threads), one
 * for what was read of these, one for the writer.
 */
#define FOR_ACTIVITIES(bytes) ((bytes) / 8 * 4)
#define FOR_THREADS(bytes) ((bytes) / 4)
#define FOR_BACKLOG(bytes) ((bytes) / 8)
#define FOR_WRITER(bytes) ((bytes) / 8)

/* The flight recorder's share; the rest is divided as above. */
#define FOR_RECORDER(bytes) ((bytes) / 2)

/* Below this nothing works: a few buffers and rings. */
#define LEAST_BUFFER (16u << 20)

/* The system's own bound of sampling is in this region, and so is what a
 * sample costs: a tenth of the thread's time. */
#define SAMPLE_HZ_MAX 10000

/* More often than that flushes would follow one another without a pause. */
#define LEAST_FLUSH_NS 1000000u

/* The value in force: the variable's if it is good, else the default. */
static const char *value_of(enum setting_id id)
{
	const struct setting *setting = &settings_table[id];
	const char *value = environment_get(setting->name);
	char why[256];

	return value && !setting_check(setting, value, why, sizeof why) ?
		value : setting->fallback;
}

static uint64_t number_of(enum setting_id id)
{
	return setting_number(&settings_table[id], value_of(id));
}

static const char *text_of(enum setting_id id)
{
	const char *value = value_of(id);

	return *value ? value : NULL;
}

/* The first variable of the list that is set to a number, else fallback. */
static uint32_t rank_of(const char *const *names, uint32_t fallback)
{
	for (; *names; names++) {
		const char *text = environment_get(*names);
		char *end;
		unsigned long value;

		if (!text || *text < '0' || *text > '9')
			continue;
		value = strtoul(text, &end, 10);
		if (!*end && value < 1u << 30)
			return (uint32_t)value;
	}
	return fallback;
}

static void read_ranks(struct writer_options *writer)
{
	static const char *const rank[] = { "RANK", "OMPI_COMM_WORLD_RANK",
		"PMI_RANK", "SLURM_PROCID", NULL };
	static const char *const local[] = { "LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
		"SLURM_LOCALID", NULL };
	static const char *const world[] = { "WORLD_SIZE",
		"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL };

	writer->rank = rank_of(rank, 0);
	writer->local_rank = rank_of(local, 0);
	writer->world_size = rank_of(world, 1);
}

static uint64_t flush_ns(void)
{
	uint64_t ns = number_of(SETTING_FLUSH);

	return ns > LEAST_FLUSH_NS ? ns : LEAST_FLUSH_NS;
}

static void read_cupti(struct cupti_options *cupti, uint64_t bytes)
{
	uint64_t sources = number_of(SETTING_TRACE);

	cupti->path = text_of(SETTING_CUPTI);
	cupti->buffer_bytes = FOR_ACTIVITIES(bytes);
	cupti->flush_ns = flush_ns();
	cupti->api_all = number_of(SETTING_API) == API_ALL;
	cupti->api_none = number_of(SETTING_API) == API_NONE;
	cupti->memory = sources & SOURCE_MEMORY;
	cupti->uvm = sources & SOURCE_UVM;
	cupti->floor = environment_get(FLOOR_VARIABLE) != NULL;
}

static uint32_t sample_hz(void)
{
	uint64_t hz = number_of(SETTING_SAMPLE_HZ);

	return hz < SAMPLE_HZ_MAX ? (uint32_t)hz : SAMPLE_HZ_MAX;
}

static void read_writer(struct writer_options *writer, uint64_t bytes)
{
	writer->out = value_of(SETTING_OUT);
	writer->flush_ns = flush_ns();
	writer->max_size = number_of(SETTING_MAX_SIZE);
	writer->on_full = number_of(SETTING_ON_FULL) == FULL_STOP ?
		ON_FULL_STOP : ON_FULL_ROTATE;
	writer->keep = (uint32_t)number_of(SETTING_KEEP);
	writer->names = (enum name_style)number_of(SETTING_NAMES);
	writer->mask_argv = number_of(SETTING_ARGV) == ARGV_MASKED;
	writer->kernels = text_of(SETTING_KERNELS);
	writer->memory = FOR_WRITER(bytes);
	writer->backlog = FOR_BACKLOG(bytes);
	writer->sample_ns = sample_hz() ? 1000000000u / sample_hz() : 0;
	read_ranks(writer);
}

static void read_source(struct source_options *source)
{
	source->osrt_min_ns = number_of(SETTING_OSRT_MIN);
	source->stack_min_ns = number_of(SETTING_STACK_MIN);
	source->sample_hz = sample_hz();
	source->torch_shapes = number_of(SETTING_TORCH_SHAPES) == CONTROL_ON;
	source->torch_modules = number_of(SETTING_TORCH_MODULES) == CONTROL_ON;
	source->torch_memory = number_of(SETTING_TORCH_MEMORY) == CONTROL_ON;
}

static void read_log(struct configuration *out)
{
	const char *file = strchr(value_of(SETTING_LOG), ':');

	out->log_level = (enum log_level)number_of(SETTING_LOG);
	out->log_file = file && file[1] ? file + 1 : NULL;
}

/* The default is no more than a sixteenth of what the process may have in all:
 * a guest does not bring a small container to its limit. */
static uint64_t buffer_bytes(void)
{
	uint64_t bytes = number_of(SETTING_BUFFER), room;

	if (!environment_get(settings_table[SETTING_BUFFER].name)) {
		room = room_bytes() / 16;
		bytes = room < bytes ? room : bytes;
	}
	return bytes < LEAST_BUFFER ? LEAST_BUFFER : bytes;
}

/* ---- What starts and stops windows ---- */

enum conflict {
	SCHEDULE_AND_START, RECORDER_AND_START, RECORDER_AND_SCHEDULE,
	RECORDER_AND_DURATION, ONE_SIGNAL, NO_WAY_IN, GRAPH_AND_START,
	NR_CONFLICTS,
};

static const char *const conflict_lines[NR_CONFLICTS] = {
	[SCHEDULE_AND_START] = "GPUTRACE_SCHEDULE is ignored: it needs "
		"GPUTRACE_START=now",
	[RECORDER_AND_START] = "GPUTRACE_RECORDER is ignored: it needs "
		"GPUTRACE_START=now",
	[RECORDER_AND_SCHEDULE] = "GPUTRACE_RECORDER is ignored: "
		"GPUTRACE_SCHEDULE says what to record",
	[RECORDER_AND_DURATION] = "GPUTRACE_DURATION is ignored: the flight "
		"recorder (GPUTRACE_RECORDER) has no end",
	[ONE_SIGNAL] = "GPUTRACE_DUMP_SIGNAL is ignored: it is the signal of "
		"GPUTRACE_SIGNAL",
	[NO_WAY_IN] = "nothing will be recorded: GPUTRACE_START=off with "
		"GPUTRACE_CONTROL=off and without GPUTRACE_SIGNAL",
	[GRAPH_AND_START] = "GPUTRACE_GRAPH=graph is ignored, and each kernel "
		"of a graph recorded: it needs to record from the start of "
		"CUDA on",
};

static bool drop_if(struct configuration *out, bool excluded,
		    enum conflict conflict)
{
	if (excluded)
		out->conflicts |= 1u << conflict;
	return excluded;
}

static void resolve(struct configuration *out)
{
	bool is_now = out->start == START_NOW;

	if (drop_if(out, out->schedule.active && !is_now, SCHEDULE_AND_START))
		out->schedule.active = 0;
	if (drop_if(out, out->writer.recorder_ns && !is_now,
		    RECORDER_AND_START) ||
	    drop_if(out, out->writer.recorder_ns && out->schedule.active,
		    RECORDER_AND_SCHEDULE))
		out->writer.recorder_ns = 0;
	if (drop_if(out, out->writer.recorder_ns && out->duration_ns,
		    RECORDER_AND_DURATION))
		out->duration_ns = 0;
	if (drop_if(out, out->signal && out->signal == out->dump_signal,
		    ONE_SIGNAL))
		out->dump_signal = 0;
	(void)drop_if(out, out->start == START_OFF && !out->wants_control &&
		      !out->signal, NO_WAY_IN);
	out->start_now = is_now && !out->schedule.active;
	if (drop_if(out, out->cupti.graph_level && !out->start_now,
		    GRAPH_AND_START))
		out->cupti.graph_level = false;
}

static void read_windows(struct configuration *out)
{
	const char *start = value_of(SETTING_START);

	out->start = number_of(SETTING_START);
	out->start_mark = out->start == START_NVTX ? start : NULL;
	out->delay_ns = out->start == START_DELAY ? setting_delay_ns(start) : 0;
	out->duration_ns = number_of(SETTING_DURATION);
	out->dump_mark = text_of(SETTING_DUMP_ON);
	(void)setting_schedule(value_of(SETTING_SCHEDULE), &out->schedule);
	out->step = text_of(SETTING_STEP);
	out->writer.recorder_ns = number_of(SETTING_RECORDER);
	out->wants_control = number_of(SETTING_CONTROL) == CONTROL_ON;
	out->control_is_set =
		environment_get(settings_table[SETTING_CONTROL].name) != NULL;
	out->signal = (int)number_of(SETTING_SIGNAL);
	out->dump_signal = (int)number_of(SETTING_DUMP_SIGNAL);
	resolve(out);
}

void configuration_read(struct configuration *out)
{
	uint64_t bytes = buffer_bytes();

	memset(out, 0, sizeof *out);
	out->sources = number_of(SETTING_TRACE);
	out->wants_cuda = out->sources & SOURCE_CUDA;
	out->wants_nvtx = out->sources & SOURCE_NVTX;
	out->wants_nccl_plugin = (out->sources & SOURCE_NCCL) &&
		number_of(SETTING_NCCL_PLUGIN) == CONTROL_ON;
	out->cupti.graph_level = number_of(SETTING_GRAPH) == GRAPH_GRAPH;
	read_windows(out);
	snprintf(out->buffer, sizeof out->buffer, "%lluM",
		 (unsigned long long)bytes >> 20);
	if (out->writer.recorder_ns) {
		out->writer.recorder_bytes = FOR_RECORDER(bytes);
		bytes -= out->writer.recorder_bytes;
	}
	out->thread_bytes = FOR_THREADS(bytes);
	out->nvtx_domains = text_of(SETTING_NVTX_DOMAINS);
	read_log(out);
	read_source(&out->source);
	read_cupti(&out->cupti, bytes);
	read_writer(&out->writer, bytes);
	for (size_t i = 0; i < SETTING_NR; i++) {
		out->in_force[i].name = settings_table[i].name;
		out->in_force[i].value = value_of((enum setting_id)i);
	}
	out->in_force[SETTING_BUFFER].value = out->buffer;
	out->writer.settings = out->in_force;
	out->writer.nr_settings = SETTING_NR;
}

static const struct setting *find(const char *name)
{
	for (size_t i = 0; i < settings_nr; i++)
		if (!strcmp(settings_table[i].name, name))
			return &settings_table[i];
	return NULL;
}

void configuration_complain(const struct configuration *configuration)
{
	const char *name;
	char why[256];

	for (size_t n = 0; (name = environment_own(n)); n++) {
		const struct setting *setting = find(name);

		if (!setting && strcmp(name, FLOOR_VARIABLE))
			log_line(LOG_WARN, "%s is not a setting; see man "
				 "gputrace", name);
		else if (setting && setting_check(setting,
				environment_get(name), why, sizeof why))
			log_line(LOG_WARN, "%s: %s; using %s", name, why,
				 *setting->fallback ? setting->fallback :
				 "none");
	}
	for (int i = 0; i < NR_CONFLICTS; i++)
		if (configuration->conflicts & 1u << i)
			log_line(LOG_WARN, "%s", conflict_lines[i]);
	if (environment_is_cut())
		log_line(LOG_WARN, "too many GPUTRACE_ variables; some are "
			 "ignored");
}
