/* SPDX-License-Identifier: MIT */
#include "writer/file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "collector/loss.h"
#include "writer/path.h"
#include "writer/recorder.h"
#include "writer/trace.h"

enum {
	/* GPUTRACE_KEEP beyond that (16 MB of table): none is removed. */
	KEEP_MAX = 1 << 20,
};

struct part {
	char *path;             /* as it came to be: some name was taken */
	struct tally tally;
};

/* As many as stay, and the one that goes. */
static uint32_t nr_parts(const struct file *file)
{
	return file->keep < KEEP_MAX ? file->keep + 1 : 1;
}

static struct part *part_of(struct file *file, uint32_t number)
{
	return &file->parts[number % nr_parts(file)];
}

int file_init(struct file *file, enum file_kind kind, uint32_t number,
	      uint32_t keep)
{
	memset(file, 0, sizeof(*file));
	file->kind = kind;
	file->number = number;
	file->keep = keep;
	file->parts = calloc(nr_parts(file), sizeof(*file->parts));
	return file->parts ? 0 : -ENOMEM;
}

void file_close_sink(struct file *file)
{
	struct sink *sink = file->sink, *given = file->given;

	file->sink = file->given = NULL;
	atomic_thread_fence(memory_order_seq_cst);
	sink_close(sink);
	sink_close(given);
}

void file_fini(struct file *file)
{
	uint32_t i;

	file_close_sink(file);
	for (i = 0; file->parts && i < nr_parts(file); i++)
		free(file->parts[i].path);
	free(file->parts);
	file->parts = NULL;
}

void file_forget(struct file *file)
{
	if (file->sink)
		file->sink->ops->forget(file->sink);
	if (file->given)
		file->given->ops->forget(file->given);
}

/* Linux's number for it, whatever its name (a container's is made anew). */
bool file_is_dev_null(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(1, 3);
}

/* ".w3", ".d1"; not where the pattern says the window's number itself. */
static int insert_number(const struct trace *trace, struct file *file)
{
	char number[16], plain[PATH_MAX];

	if (file->kind == FILE_COMMON || (file->kind == FILE_WINDOW &&
	    path_has_window(trace->options.out)))
		return 0;
	snprintf(number, sizeof(number), ".%c%u",
		 file->kind == FILE_WINDOW ? 'w' : 'd', file->number);
	memcpy(plain, file->path, sizeof(plain));
	return path_insert(plain, number, file->path, sizeof(file->path));
}

static int name_file(const struct trace *trace, struct file *file)
{
	struct path_values values = {
		.pid = trace->pid, .rank = trace->options.rank,
		.host = trace->host, .program = trace->program,
		.start_ns = trace->start_ns,
		.window = file->kind == FILE_WINDOW ? file->number :
			trace->windows_seen,
	};
	int error;

	if (file->is_exact)
		return 0;
	error = path_expand(trace->options.out, &values, file->path,
			    sizeof(file->path), &file->is_pattern);
	return error ? error : insert_number(trace, file);
}

static struct sink *open_first(const struct trace *trace, struct file *file,
			       int *error)
{
	struct sink *sink = file->given;

	file->given = NULL;
	if (sink)
		return sink;
	if (file->kind == FILE_COMMON && trace->options.recorder_ns) {
		file->is_recorder = true;
		*error = -ENOMEM;
		return sink_recorder_create(trace->options.recorder_ns,
					    trace->options.recorder_bytes);
	}
	*error = name_file(trace, file);
	if (*error)
		return NULL;
	if (file->kind == FILE_COMMON && file_is_dev_null(file->path)) {
		file->is_null = true;
		*error = -ENOMEM;
		return sink_null_create();
	}
	sink = path_open_sink(file->path, sizeof(file->path),
			      file->is_pattern, trace->pid, error);
	memcpy(file->first_path, file->path, sizeof(file->path));
	return sink;
}

static struct sink *open_part(const struct trace *trace, struct file *file,
			      int *error)
{
	char number[16];

	snprintf(number, sizeof(number), ".r%u", file->part);
	*error = path_insert(file->first_path, number, file->path,
			     sizeof(file->path));
	return *error ? NULL : path_open_sink(file->path, sizeof(file->path),
					      file->is_pattern, trace->pid,
					      error);
}

struct sink *file_open_sink(struct trace *trace, struct file *file, int *error)
{
	if (trace->open_sink)
		return trace->open_sink(trace);
	return file->part ? open_part(trace, file, error) :
		open_first(trace, file, error);
}

/* The one that was just begun counts among those that stay. */
static void forget_part(struct file *file, struct tally *gone)
{
	struct part *old;

	if (nr_parts(file) == 1 || file->part < file->keep)
		return;
	old = part_of(file, file->part - file->keep);
	if (old->path && !unlink(old->path)) {
		loss_add(LOSS_ROTATED, old->tally.events);
		gone->events += old->tally.events;
		gone->kernels += old->tally.kernels;
	}
	free(old->path);
	old->path = NULL;
}

void file_begin_part(struct file *file, struct tally *gone)
{
	struct part *part = part_of(file, file->part);

	forget_part(file, gone);
	free(part->path);
	part->path = bytes_copy(file->path, strlen(file->path));
	memset(&part->tally, 0, sizeof(part->tally));
	file->nr_bytes = 0;             /* the file is not there yet */
}

void file_count(struct file *file, struct tally more)
{
	struct part *part = part_of(file, file->part);

	part->tally.events += more.events;
	part->tally.kernels += more.kernels;
}
