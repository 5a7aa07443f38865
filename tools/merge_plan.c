/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/merge.h"
#include "tools/trace_rules.h"

enum { LABEL_SIZE = 512 };

static const int64_t second = 1000000000;
/* A double holds no ns beyond (Perfetto reads times so). */
static const int64_t exact_ns = 1ll << 53;

/* ---- One base ---- */

static void shift_files(struct merge *m)
{
	for (size_t i = 0; i < m->nr_files; i++) {
		struct merge_file *f = &m->file[i];

		f->shift_ns = f->base_ns < 0 ? 0 : f->base_ns - m->base_ns;
		/* One of the two bases is broken. */
		if (f->shift_ns > TRACE_SPAN_MAX ||
		    f->shift_ns < -TRACE_SPAN_MAX)
			f->shift_ns = 0;
	}
}

/* The earliest base; where that would make times too large for a double (bases
 * of two calendar quarters), the second in which the first event is. */
static void find_base(struct merge *m)
{
	int64_t first = INT64_MAX, last = 0;

	m->base_ns = INT64_MAX;
	for (size_t i = 0; i < m->nr_files; i++)
		if (m->file[i].base_ns >= 0 &&
		    m->file[i].base_ns < m->base_ns)
			m->base_ns = m->file[i].base_ns;
	if (m->base_ns == INT64_MAX) {
		m->base_ns = -1;        /* no file has one: none is shifted */
		return;
	}
	shift_files(m);
	for (size_t i = 0; i < m->nr_files; i++) {
		const struct merge_file *f = &m->file[i];

		if (f->last_ns < 0)
			continue;
		if (f->first_ns + f->shift_ns < first)
			first = f->first_ns + f->shift_ns;
		if (f->last_ns + f->shift_ns > last)
			last = f->last_ns + f->shift_ns;
	}
	if (last < exact_ns || first == INT64_MAX)
		return;
	for (size_t i = 0; i < m->nr_files; i++)
		if (m->file[i].base_ns < 0)     /* it cannot move along */
			return;
	m->base_ns += first / second * second;
	shift_files(m);
}

/* ---- Files by rank, each with a label ---- */

static const struct merge *sorting;     /* for qsort; one thread */

static const char *text_of(const struct merge *m, uint32_t id)
{
	return id == INTERN_NONE ? "" : intern_get(&m->names, id);
}

static int compare(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int file_by_rank(const void *a, const void *b)
{
	const struct merge_file *x = &sorting->file[*(const uint16_t *)a];
	const struct merge_file *y = &sorting->file[*(const uint16_t *)b];
	int order = compare(x->rank, y->rank);

	if (!order)
		order = strcmp(text_of(sorting, x->host),
			       text_of(sorting, y->host));
	if (!order)
		order = compare(x->pid, y->pid);
	return order ? order : compare(x - sorting->file, y - sorting->file);
}

/* A file of Kineto does not name its process: it is one without GPU work. */
static void find_pid(struct merge *m, uint16_t file)
{
	for (size_t i = 0; i < m->nr_processes && m->file[file].pid < 0; i++) {
		const struct merge_process *p = &m->process[i];

		if (p->file == file && p->has_events && !p->has_work &&
		    p->pid < MERGE_GPU_PID)
			m->file[file].pid = p->pid;
	}
}

/* What tells a file from the others, as far as it goes. */
struct differ {
	bool rank, host, pid, path;
};

static struct differ differ(const struct merge *m, const struct merge_file *f)
{
	struct differ d = { .rank = f->rank >= 0 && f->world_size > 1 };

	for (size_t i = 0; i < m->nr_files; i++) {
		const struct merge_file *other = &m->file[i];
		bool same = other->rank == f->rank && other->host == f->host;

		d.rank |= other->rank != f->rank && f->rank >= 0;
		d.host |= other->host != f->host && f->host != INTERN_NONE;
		d.pid |= other != f && same && f->pid >= 0;
		d.path |= other != f && same && other->pid == f->pid;
	}
	return d;
}

static void say(char *text, const char *format, const char *what, int64_t n)
{
	size_t len = strlen(text);

	if (len)
		len += snprintf(text + len, LABEL_SIZE - len, ", ");
	if (len >= LABEL_SIZE)
		return;
	if (what)
		snprintf(text + len, LABEL_SIZE - len, "%s", what);
	else
		snprintf(text + len, LABEL_SIZE - len, format, (long long)n);
}

/* A path is bytes, a label UTF-8: through the repair of a value. */
static uint32_t intern_bytes(struct merge *m, char *text)
{
	struct json_value v = {
		.text = text, .len = strlen(text), .type = JSON_STRING,
		.flags = JSON_HIGH,
	};

	for (char *p = text; *p; p++)
		if (*p == '\\')        /* it would begin an escape */
			*p = '/';
	return intern_value(&m->names, &v);
}

static void label_file(struct merge *m, struct merge_file *f)
{
	struct differ d = differ(m, f);
	char text[LABEL_SIZE] = "";
	const char *base;

	if (f->is_merged)       /* its names have them already */
		return;
	if (d.rank)
		say(text, "rank %lld", NULL, f->rank);
	if (d.host)
		say(text, NULL, text_of(m, f->host), 0);
	if (d.pid)
		say(text, "pid %lld", NULL, f->pid);
	base = strrchr(f->path, '/');
	if (d.path)
		say(text, NULL, base ? base + 1 : f->path, 0);
	if (!*text)
		return;
	f->label = intern_bytes(m, text);
	m->no_memory |= f->label == INTERN_NONE;
}

/* ---- New numbers ---- */

/* Is it shown?  Kineto names 16 GPUs, whatever the machine has. */
static bool is_shown(const struct merge *m, const struct merge_process *p)
{
	return p->has_events || (int64_t)p->pid == m->file[p->file].pid;
}

static uint16_t *file_place;    /* file -> its place in the order */

static int process_by_file(const void *a, const void *b)
{
	const struct merge_process *x = &sorting->process[*(uint32_t *)a];
	const struct merge_process *y = &sorting->process[*(uint32_t *)b];
	int order = compare(file_place[x->file], file_place[y->file]);

	if (!order)
		order = compare(x->sort_index, y->sort_index);
	return order ? order : compare(x->pid, y->pid);
}

/* The pid it would like to have, or UINT32_MAX. */
static uint32_t wish(const struct merge_process *p)
{
	if (p->has_work && p->pid < MERGE_KINETO_GPUS)
		return MERGE_GPU_PID + p->pid;
	return p->pid < UINT32_MAX ? p->pid : UINT32_MAX;
}

/* Gives out `wanted` of a process (pid: of all, a = 0), or a fresh number. */
static uint32_t give(struct merge *m, struct pairs *given, uint64_t a,
		     uint32_t wanted, uint32_t *fresh)
{
	bool is_new = false;

	if (wanted != UINT32_MAX &&
	    pairs_put(given, a, wanted, 0, &is_new) == UINT32_MAX)
		m->no_memory = true;
	while (!is_new && !m->no_memory) {
		wanted = (*fresh)++;
		if (pairs_put(given, a, wanted, 0, &is_new) == UINT32_MAX)
			m->no_memory = true;
	}
	return wanted;
}

static void give_pids(struct merge *m)
{
	uint32_t fresh = MERGE_FRESH;

	m->order = malloc((m->nr_processes + 1) * sizeof(*m->order));
	if (!m->order) {
		m->no_memory = true;
		return;
	}
	for (uint32_t i = 0; i < m->nr_processes; i++)
		if (is_shown(m, &m->process[i]))
			m->order[m->nr_order++] = i;
	if (m->nr_order)
		qsort(m->order, m->nr_order, sizeof(*m->order),
		      process_by_file);
	for (size_t i = 0; i < m->nr_order && !m->no_memory; i++) {
		struct merge_process *p = &m->process[m->order[i]];

		p->to = give(m, &m->pids, 0, wish(p), &fresh);
	}
}

static void give_tids(struct merge *m)
{
	uint32_t fresh = MERGE_FRESH;

	/* first those that can keep theirs */
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < m->nr_lanes && !m->no_memory; i++) {
			struct merge_lane *lane = &m->lane[i];
			bool keeps = lane->tid && lane->tid < UINT32_MAX;

			if (keeps == !pass)
				lane->to = give(m, &m->tids, lane->process,
						keeps ? lane->tid : UINT32_MAX,
						&fresh);
		}
	}
}

/* A step that leaves the digits of small numbers readable.  False: the sum is
 * more than a double holds, as Perfetto and HTA need it. */
static bool give_ids(struct merge *m)
{
	const int64_t step = 1000000;
	int64_t from = 0;

	for (size_t i = 0; i < m->nr_files; i++) {
		struct merge_file *f = &m->file[i];

		f->ids_from = from;
		if (f->max_id >= exact_ns - from)
			return false;
		from += (f->max_id / step + 1) * step;
	}
	return true;
}

static bool sort_files(struct merge *m)
{
	uint16_t *order = malloc((m->nr_files + 1) * sizeof(*order));

	file_place = calloc(m->nr_files + 1, sizeof(*file_place));
	for (size_t i = 0; order && i < m->nr_files; i++)
		order[i] = i;
	if (order && file_place) {
		qsort(order, m->nr_files, sizeof(*order), file_by_rank);
		for (size_t i = 0; i < m->nr_files; i++)
			file_place[order[i]] = i;
	} else {
		m->no_memory = true;
	}
	free(order);
	return !m->no_memory;
}

int merge_plan(struct merge *m)
{
	bool fits = true;

	sorting = m;
	find_base(m);
	for (size_t i = 0; i < m->nr_files; i++) {
		find_pid(m, i);
		if (m->file[i].world_size > m->world_size)
			m->world_size = m->file[i].world_size;
	}
	if (sort_files(m)) {
		for (size_t i = 0; i < m->nr_files && !m->no_memory; i++)
			label_file(m, &m->file[i]);
		give_pids(m);
		give_tids(m);
		fits = give_ids(m);
	}
	free(file_place);
	file_place = NULL;
	return m->no_memory ? -ENOMEM : fits ? 0 : -ERANGE;
}

void merge_fini(struct merge *m)
{
	for (size_t i = 0; i < m->nr_files; i++)
		free(m->file[i].header);
	free(m->file);
	free(m->process);
	free(m->lane);
	free(m->loss);
	free(m->device);
	free(m->order);
	pairs_fini(&m->processes);
	pairs_fini(&m->lanes);
	pairs_fini(&m->pids);
	pairs_fini(&m->tids);
	intern_fini(&m->names);
}
