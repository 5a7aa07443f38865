/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/merge.h"
#include "tools/merge_out.h"
#include "tools/utf8.h"

/*
 * An event is written as it stands in its file, but for the values that change:
 *
 *      {"ph":"X", ... "pid":7, ... "ts":2.500, ... "correlation":5 ... }
 *                           ^          ^^^^^                     ^
 */
struct edit {
	const char *at;         /* in the event's text */
	size_t len;
	char text[32];
};

enum { MAX_EDITS = 8 };

struct edits {
	struct edit edit[MAX_EDITS];
	int nr;
};

/* Replaces a value; the list stays sorted by place. */
static struct edit *add_edit(struct edits *edits, const struct json_value *v)
{
	bool quoted = v->type == JSON_STRING;
	const char *at = v->text - quoted;
	int i = edits->nr++;

	for (; i && edits->edit[i - 1].at > at; i--)
		edits->edit[i] = edits->edit[i - 1];
	edits->edit[i].at = at;
	edits->edit[i].len = v->len + 2 * quoted;
	return &edits->edit[i];
}

static void put_number(struct edits *edits, const struct json_value *v,
		       int64_t n)
{
	struct edit *e = add_edit(edits, v);

	snprintf(e->text, sizeof(e->text), "%" PRId64, n);
}

static void put_time(struct edits *edits, const struct trace_event *ev,
		     int64_t shift)
{
	int64_t ns;
	struct edit *e;

	if (!shift || !trace_time(ev, EV_TS, &ns))
		return;
	ns = ns + shift < 0 ? 0 : ns + shift;   /* of metadata only */
	e = add_edit(edits, trace_field(ev, EV_TS));
	snprintf(e->text, sizeof(e->text), "%" PRId64 ".%03d", ns / 1000,
		 (int)(ns % 1000));
}

static void put_ids(struct edits *edits, const struct trace_event *ev,
		    int64_t from)
{
	const struct json_value *v = trace_field(ev, EV_ID);
	int64_t id;

	if (merge_id(ev, v, &id) && (from || v->type == JSON_STRING))
		put_number(edits, v, id + from);
	for (int i = 0; from && i < MERGE_ID_ARGS; i++)
		if (merge_id(ev, trace_arg(ev, merge_id_args[i]), &id))
			put_number(edits, trace_arg(ev, merge_id_args[i]),
				   id + from);
}

/* Asynchronous ranges may have any text as id: "2:text" is that of file 2. */
static bool has_text_id(const struct trace_event *ev)
{
	int64_t id;

	return trace_field(ev, EV_ID)->type == JSON_STRING &&
		!merge_id(ev, trace_field(ev, EV_ID), &id);
}

struct writer {
	struct merge *m;
	struct merge_out *out;
	uint16_t file;
	bool comma;             /* an event stands before */
};

static void next_event(struct writer *w)
{
	merge_out_bytes(w->out, w->comma ? ",\n" : "\n", 1 + w->comma);
	w->comma = true;
	w->m->nr_events++;
}

static void write_pieces(struct writer *w, const struct trace_event *ev,
			 const struct edits *edits, bool repair)
{
	const char *at = ev->text, *end = ev->text + ev->len;
	bool in_string = false;

	for (int i = 0; i <= edits->nr; i++) {
		const struct edit *e = &edits->edit[i];
		const char *stop = i < edits->nr ? e->at : end;

		if (repair)
			merge_out_repaired(w->out, at, stop - at, &in_string);
		else
			merge_out_bytes(w->out, at, stop - at);
		if (i == edits->nr)
			break;
		merge_out_bytes(w->out, e->text, strlen(e->text));
		at = stop + e->len;
	}
}

/* Puts the file's number in front of a text id, which stays where it is. */
static void put_text_id(struct edits *edits, const struct trace_event *ev,
			uint16_t file)
{
	struct edit *e;

	if (!has_text_id(ev) || !file)
		return;
	e = add_edit(edits, trace_field(ev, EV_ID));
	e->len = 1;
	snprintf(e->text, sizeof(e->text), "\"%d:", file);
}

static bool is_name(const struct trace_event *ev)
{
	static const char *const kinds[] = {
		"process_name", "process_labels", "process_sort_index",
		"thread_name", "thread_sort_index",
	};
	const struct json_value *kind = trace_field(ev, EV_NAME);

	for (int i = 0; ev->ph == 'M' && i < 5; i++)
		if (jsonval_is(kind, kinds[i]))
			return true;
	return false;
}

/* Returns false if the event was not there when the file was scanned. */
static bool put_lane(struct writer *w, struct edits *edits,
		     const struct trace_event *ev)
{
	struct merge *m = w->m;
	uint32_t process = merge_process_of(m, w->file, ev, false);
	uint32_t lane = merge_lane_of(m, w->file, ev, false);
	int64_t n;

	if (process != UINT32_MAX && m->process[process].to)
		put_number(edits, trace_field(ev, EV_PID),
			   m->process[process].to);
	if (lane != UINT32_MAX && m->lane[lane].to)
		put_number(edits, trace_field(ev, EV_TID), m->lane[lane].to);
	if (ev->ph == 'M')
		return true;
	return process != UINT32_MAX ||
		(trace_field(ev, EV_PID)->type != JSON_STRING &&
		 !jsonval_int(trace_field(ev, EV_PID), &n));
}

static bool write_event(struct writer *w, struct trace *t,
			const struct trace_event *ev)
{
	const struct merge_file *f = &w->m->file[w->file];
	struct edits edits = { .nr = 0 };
	uint64_t where[JSON_FAULTS];
	bool repair = trace_faults(t, where);

	if (ev->type != JSON_OBJECT || !ev->ph || is_name(ev))
		return true;
	if (!put_lane(w, &edits, ev))
		return false;
	put_time(&edits, ev, f->shift_ns);
	put_ids(&edits, ev, f->ids_from);
	put_text_id(&edits, ev, w->file);
	next_event(w);
	write_pieces(w, ev, &edits, repair);
	return true;
}

/* ---- Names, first: event 0 is then no end of a link (HTA) ---- */

static void begin_name(struct writer *w, const char *kind, uint32_t pid,
		       uint32_t tid)
{
	next_event(w);
	merge_out_print(w->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,"
			"\"tid\":%u,\"args\":{", kind, pid, tid);
}

static void write_index(struct writer *w, const char *kind, uint32_t pid,
			uint32_t tid, int64_t index)
{
	begin_name(w, kind, pid, tid);
	merge_out_print(w->out, "\"sort_index\":%" PRId64 "}}", index);
}

static void write_name(struct writer *w, const char *kind, uint32_t pid,
		       uint32_t tid, const char *key, const char *name)
{
	begin_name(w, kind, pid, tid);
	merge_out_print(w->out, "\"%s\":", key);
	merge_out_string(w->out, name);
	merge_out_bytes(w->out, "}}", 2);
}

/* The end of a name that the recorder gave: " (rank 1)". */
static size_t without_rank(const char *name, int64_t rank)
{
	char end[32];
	size_t len = strlen(name), tail;

	snprintf(end, sizeof(end), " (rank %" PRId64 ")", rank);
	tail = strlen(end);
	return len > tail && !strcmp(name + len - tail, end) ? len - tail :
		len;
}

/* "python3 (rank 1, node-b)", "GPU 0 NVIDIA H200 (rank 1, node-b)". */
static void name_process(struct writer *w, const struct merge_process *p,
			 char *text, size_t size)
{
	const struct intern *names = &w->m->names;
	const struct merge_file *f = &w->m->file[p->file];
	const char *name = p->name != INTERN_NONE ?
		intern_get(names, p->name) : p->pid & MERGE_TEXT ?
		intern_get(names, (uint32_t)p->pid) : "";
	const char *labels = p->labels != INTERN_NONE ?
		intern_get(names, p->labels) : "";
	size_t len = f->label == INTERN_NONE ? strlen(name) :
		without_rank(name, f->rank), used = 0;

	if (!len) {             /* Kineto's "Record Window End" */
		name = "process";
		len = strlen(name);
	}
	/* Kineto calls its GPUs by the program's name, too */
	if (p->has_work && p->pid < MERGE_KINETO_GPUS && *labels)
		used = snprintf(text, size, "%s ", labels);
	if (used >= size)
		return;
	used += snprintf(text + used, size - used, "%.*s", (int)len, name);
	if (f->label != INTERN_NONE && used < size)
		snprintf(text + used, size - used, " (%s)",
			 intern_get(names, f->label));
}

/* A name that had to be cut must not end in half a character. */
static const char *whole(char *text)
{
	text[utf8_valid(text, strlen(text))] = '\0';
	return text;
}

static void write_process(struct writer *w, uint32_t index)
{
	const struct merge *m = w->m;
	const struct merge_process *p = &m->process[m->order[index]];
	uint32_t label = m->file[p->file].label;
	char text[4096] = "";

	name_process(w, p, text, sizeof(text));
	write_name(w, "process_name", p->to, p->to, "name", whole(text));
	write_index(w, "process_sort_index", p->to, p->to, index);
	if (p->labels == INTERN_NONE && label == INTERN_NONE)
		return;
	snprintf(text, sizeof(text), "%s%s%s", p->labels == INTERN_NONE ? "" :
		 intern_get(&m->names, p->labels), p->labels == INTERN_NONE ||
		 label == INTERN_NONE ? "" : ", ", label == INTERN_NONE ? "" :
		 intern_get(&m->names, label));
	write_name(w, "process_labels", p->to, p->to, "labels", whole(text));
}

static void write_lane(struct writer *w, const struct merge_lane *lane)
{
	const struct merge_process *p = &w->m->process[lane->process];
	const char *name = "";
	char text[32];

	if (!lane->has_events)
		return;
	if (lane->name != INTERN_NONE)
		name = intern_get(&w->m->names, lane->name);
	else if (lane->tid & MERGE_TEXT)
		name = intern_get(&w->m->names, (uint32_t)lane->tid);
	if (!*name) {
		snprintf(text, sizeof(text), "%s %u", p->has_work ? "stream" :
			 "thread", lane->to);
		name = text;
	}
	write_name(w, "thread_name", p->to, lane->to, "name", name);
	write_index(w, "thread_sort_index", p->to, lane->to,
		    lane->has_index && lane->sort_index <= INT32_MAX &&
		    lane->sort_index >= INT32_MIN ? lane->sort_index :
		    (int32_t)(lane->to & INT32_MAX));
}

static void write_names(struct writer *w)
{
	for (size_t i = 0; i < w->m->nr_order; i++)
		write_process(w, i);
	for (size_t i = 0; i < w->m->nr_lanes; i++)
		write_lane(w, &w->m->lane[i]);
}

/* ---- Second reading ---- */

static int has_changed(const struct merge_file *f,
		       struct trace_problem *problem)
{
	struct stat now;

	problem->has_offset = false;
	if (!stat(f->path, &now) && now.st_ino == f->seen.st_ino &&
	    now.st_dev == f->seen.st_dev && now.st_size == f->seen.st_size &&
	    now.st_mtim.tv_sec == f->seen.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == f->seen.st_mtim.tv_nsec)
		return 0;
	snprintf(problem->text, sizeof(problem->text), "it has changed while "
		 "it was read; a copy of a trace that grows can be merged");
	return -EBUSY;
}

static int write_events(struct writer *w, struct trace_problem *problem)
{
	const struct merge_file *f = &w->m->file[w->file];
	struct trace *t = trace_open(f->path, TRACE_STRICT, problem);
	struct trace_event ev;
	bool known = true;
	int more;

	if (!t)
		return -EIO;
	while (known && (more = trace_next(t, &ev)) > 0)
		known = write_event(w, t, &ev);
	if (known && more < 0)
		*problem = *trace_problem(t);
	trace_close(t);
	if (known && more < 0)
		return more;
	return has_changed(f, problem);
}

int merge_events(struct merge *m, struct merge_out *out, uint16_t *file,
		 struct trace_problem *problem)
{
	struct writer w = { .m = m, .out = out };
	int err = 0;

	write_names(&w);
	for (*file = 0; !err && *file < m->nr_files; ++*file) {
		w.file = *file;
		err = write_events(&w, problem);
		if (err)
			break;
	}
	return err;
}
