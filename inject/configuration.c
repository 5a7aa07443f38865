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
#define CONTROL_VARIABLE "GPUTRACE_CONTROL"

/*
 * GPUTRACE_BUFFER is the bound of all that the library holds: five eighths
 * for CUPTI's buffers, two for rings (at the default 64 MiB: 400 threads),
 * one for the writer.
 */
#define FOR_ACTIVITIES(bytes) ((bytes) / 8 * 5)
#define FOR_THREADS(bytes) ((bytes) / 4)
#define FOR_WRITER(bytes) ((bytes) / 8)

/* Below this nothing works: a few buffers and rings. */
#define LEAST_BUFFER (16u << 20)

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
	cupti->graph_level = number_of(SETTING_GRAPH) == GRAPH_GRAPH &&
		number_of(SETTING_START) == START_NOW;
	cupti->memory = sources & SOURCE_MEMORY;
	cupti->uvm = sources & SOURCE_UVM;
	cupti->on_profiler_api = number_of(SETTING_START) ==
		START_PROFILER_API;
	cupti->floor = environment_get(FLOOR_VARIABLE) != NULL;
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
	read_ranks(writer);
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

static bool wants_control(void)
{
	const char *value = environment_get(CONTROL_VARIABLE);

	return !value || strcmp(value, "off");
}

void configuration_read(struct configuration *out)
{
	uint64_t sources = number_of(SETTING_TRACE);
	uint64_t bytes = buffer_bytes();

	memset(out, 0, sizeof *out);
	out->wants_cuda = sources & SOURCE_CUDA;
	out->wants_nvtx = sources & SOURCE_NVTX;
	out->start_now = number_of(SETTING_START) == START_NOW;
	out->wants_control = wants_control();
	out->thread_bytes = FOR_THREADS(bytes);
	out->nvtx_domains = text_of(SETTING_NVTX_DOMAINS);
	read_log(out);
	read_cupti(&out->cupti, bytes);
	read_writer(&out->writer, bytes);
	for (size_t i = 0; i < SETTING_NR; i++) {
		out->in_force[i].name = settings_table[i].name;
		out->in_force[i].value = value_of((enum setting_id)i);
	}
	snprintf(out->buffer, sizeof out->buffer, "%lluM",
		 (unsigned long long)bytes >> 20);
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

void configuration_complain(void)
{
	const char *name;
	char why[256];

	for (size_t n = 0; (name = environment_own(n)); n++) {
		const struct setting *setting = find(name);

		if (!setting && strcmp(name, FLOOR_VARIABLE) &&
		    strcmp(name, CONTROL_VARIABLE))
			log_line(LOG_WARN, "%s is not a setting; see man "
				 "gputrace", name);
		else if (setting && setting_check(setting,
				environment_get(name), why, sizeof why))
			log_line(LOG_WARN, "%s: %s; using %s", name, why,
				 *setting->fallback ? setting->fallback :
				 "none");
	}
	if (environment_is_cut())
		log_line(LOG_WARN, "too many GPUTRACE_ variables; some are "
			 "ignored");
}
