/* SPDX-License-Identifier: MIT */
#include "tools/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/input.h"
#include "tools/jsonkeys.h"
#include "tools/jsonval.h"

#define X(id, text) text,
static const char *const event_names[] = { TRACE_EVENT_KEYS(X) };
static const char *const arg_names[] = { TRACE_ARG_KEYS(X) };
static const char *const cat_names[] = { TRACE_CATS(X) };
static const char *const header_names[] = {
	TRACE_HEADER_KEYS(X) "traceEvents",
};
#undef X

enum { HEADER_EVENTS = HEADER_KEYS };   /* the last of header_names */

_Static_assert(ARG_KEYS <= 64 && EV_KEYS <= 64, "json_members.have");

enum place {
	AT_START,       /* before the document */
	AT_FIRST_KEY,   /* behind '{' */
	AT_KEY,         /* behind a member of the document */
	AT_FIRST_EVENT, /* behind '[' */
	AT_EVENT,       /* behind an event */
	AT_TAIL,        /* behind the document */
	AT_END,
};

struct trace {
	struct input in;
	struct json json;
	const char *p;
	enum place place;
	uint64_t nr_events;
	struct json_keys event_keys, arg_keys, cat_keys, header_keys;
	struct json_value header[HEADER_KEYS];
	char *header_text[HEADER_KEYS];
	uint64_t *top_keys;
	size_t nr_top_keys;
	trace_member_fn *member_fn;
	void *member_arg;
	struct trace_shape shape;
	struct trace_problem problem;
	unsigned faults;
	uint64_t fault_at[JSON_FAULTS];
};

const struct json_value trace_none = { .type = JSON_NONE, .text = "" };

static uint64_t offset_of(const struct trace *t, const char *p)
{
	return t->in.base + (p - t->in.buf);
}

static int fail(struct trace *t, int err, const char *p, const char *why)
{
	t->problem.has_offset = p;
	t->problem.offset = p ? offset_of(t, p) : 0;
	snprintf(t->problem.text, sizeof(t->problem.text), "%s", why);
	return err;
}

/* More bytes behind t->p. */
static int fill(struct trace *t)
{
	int err = input_fill(&t->in, &t->p);

	t->json.end = t->in.end;
	return err ? fail(t, err, t->in.end, t->in.why) : 0;
}

/* The next byte that is no space; 0 at the end of the file; or -errno. */
static int peek(struct trace *t)
{
	int err;

	for (;;) {
		t->p = json_space(t->p);
		if (t->p != t->in.end)
			return *t->p ? (unsigned char)*t->p : 0x100;
		if (t->in.eof)
			return 0;
		err = fill(t);
		if (err)
			return err;
	}
}

static void collect_faults(struct trace *t)
{
	for (int i = 0; i < JSON_FAULTS; i++) {
		if (!(t->json.faults & 1u << i) || t->faults & 1u << i)
			continue;
		t->faults |= 1u << i;
		t->fault_at[i] = offset_of(t, t->json.fault_at[i]);
	}
	t->json.faults = 0;
}

typedef const char *scan_fn(struct trace *t, void *arg);

/* Scans one thing that begins at t->p and steps behind it, reading on until
 * it is in the window as a whole. */
static int scan_whole(struct trace *t, scan_fn *scan, void *arg)
{
	const char *stop;
	int err;

	for (;;) {
		t->json.faults = 0;
		t->json.nr_keys = 0;
		stop = scan(t, arg);
		if (stop)
			break;
		if (t->json.why != json_cut || t->in.eof)
			return fail(t, -EBADMSG, t->json.at, t->json.why);
		err = fill(t);
		if (err)
			return err;
	}
	if (t->json.faults)
		collect_faults(t);
	t->p = stop;
	return 1;
}

static const char *scan_event(struct trace *t, void *arg)
{
	struct trace_event *ev = arg;
	const struct json_nested nested = {
		.key = EV_ARGS, .keys = &t->arg_keys, .members = &ev->args,
	};
	struct json_value v;
	const char *stop;

	ev->args.have = 0;
	ev->args.nr = 0;
	if (*t->p == '{') {
		ev->type = JSON_OBJECT;
		return json_object(&t->json, t->p, &t->event_keys,
				   &ev->fields, &nested, 1);
	}
	ev->fields.have = 0;
	stop = json_scan(&t->json, t->p, &v, 1);
	ev->type = v.type;
	return stop;
}

static int read_event(struct trace *t, struct trace_event *ev)
{
	uint64_t offset = offset_of(t, t->p);
	const struct json_value *v;
	int more;

	ev->fields.value = ev->field;
	ev->args.value = ev->arg;
	more = scan_whole(t, scan_event, ev);
	if (more < 0)
		return more;
	ev->offset = offset;
	ev->len = offset_of(t, t->p) - offset;
	ev->text = t->p - ev->len;
	ev->index = t->nr_events++;
	v = trace_field(ev, EV_PH);
	ev->ph = v->type == JSON_STRING && v->len == 1 ? *v->text : 0;
	v = trace_field(ev, EV_CAT);
	ev->cat = v->type == JSON_STRING ?
		json_keys_find(&t->cat_keys, v) : CAT_OTHER;
	t->place = AT_EVENT;
	return 1;
}

/* A member of the document. */
struct member {
	int id;                 /* in header_names, or -1 */
	uint64_t hash;
	size_t len;             /* of its text, key included */
	bool is_events;         /* the value is an array not yet read */
	struct json_value value;
};

static const char *scan_document_member(struct trace *t, void *arg)
{
	struct member *m = arg;
	struct json_value key;
	const char *p = json_scan(&t->json, t->p, &key, 1);

	if (!p)
		return NULL;
	p = json_space(p);
	if (*p != ':') {
		t->json.at = p;
		t->json.why = p == t->in.end ? json_cut : "':' is missing";
		return NULL;
	}
	p = json_space(p + 1);
	m->id = json_keys_find(&t->header_keys, &key);
	m->hash = jsonval_hash(&key);
	m->is_events = m->id == HEADER_EVENTS && *p == '[';
	p = m->is_events ? p + 1 : json_scan(&t->json, p, &m->value, 1);
	m->len = p ? p - t->p : 0;
	return p;
}

static void note_top_key(struct trace *t, uint64_t hash, const char *p)
{
	uint64_t *keys = t->top_keys;

	for (size_t i = 0; i < t->nr_top_keys; i++) {
		if (keys[i] == hash && !(t->faults & 1 << JSON_FAULT_TWICE)) {
			t->faults |= 1 << JSON_FAULT_TWICE;
			t->fault_at[JSON_FAULT_TWICE] = offset_of(t, p);
		}
	}
	/* A quadratic search is fine for the few keys that files have. */
	if (t->nr_top_keys >= 1024)
		return;
	if (t->nr_top_keys % 16 == 0) {
		keys = realloc(keys, (t->nr_top_keys + 16) * sizeof(*keys));
		if (!keys)
			return;
		t->top_keys = keys;
	}
	keys[t->nr_top_keys++] = hash;
}

/* Keeps a value of the document, with the padding that scanning needs. */
static int keep_header(struct trace *t, int id, const struct json_value *v)
{
	bool quoted = v->type == JSON_STRING;
	char *text = calloc(1, v->len + 1 + JSON_PAD);

	if (!text)
		return fail(t, -ENOMEM, NULL, "out of memory");
	memcpy(text, v->text, v->len);
	/* A number needs a byte behind it that is not the end. */
	text[v->len] = quoted ? '"' : ' ';
	free(t->header_text[id]);
	t->header_text[id] = text;
	t->header[id] = *v;
	t->header[id].text = text;
	return 0;
}

static int read_member(struct trace *t)
{
	const char *start;
	struct member m;
	int more;

	if (*t->p != '"')
		return fail(t, -EBADMSG, t->p, "a key is missing");
	more = scan_whole(t, scan_document_member, &m);
	if (more < 0)
		return more;
	start = t->p - m.len;
	note_top_key(t, m.hash, start);
	if (t->member_fn && m.id != HEADER_EVENTS)
		t->member_fn(t->member_arg, start, m.len,
			     !t->shape.has_events);
	t->place = m.is_events ? AT_FIRST_EVENT : AT_KEY;
	t->shape.has_events |= m.is_events;
	if (m.id >= 0 && m.id != HEADER_EVENTS)
		return keep_header(t, m.id, &m.value);
	return 0;
}

static int begin_document(struct trace *t)
{
	int c = peek(t);

	if (c == 0xef && !t->in.base && t->p == t->in.buf &&
	    !memcmp(t->p, "\xef\xbb\xbf", 3)) {
		t->shape.has_bom = true;
		t->p += 3;
		c = peek(t);
	}
	if (c < 0)
		return c;
	if (!c)
		return fail(t, -EBADMSG, t->p, "the file is empty");
	if (c != '{' && c != '[')
		return fail(t, -EBADMSG, t->p, "no JSON object or array");
	t->p++;
	t->shape.is_array = c == '[';
	t->shape.has_events = t->shape.is_array;
	t->place = c == '[' ? AT_FIRST_EVENT : AT_FIRST_KEY;
	return 0;
}

static int cut(struct trace *t, const char *where)
{
	char why[64];

	snprintf(why, sizeof(why), "the file ends here, %s", where);
	return fail(t, -EBADMSG, t->in.end, why);
}

/* Between members of the document. */
static int step_document(struct trace *t)
{
	bool first = t->place == AT_FIRST_KEY;
	int c = peek(t);

	if (c == ',' && !first) {
		t->p++;
		c = peek(t);
		if (c == '}')
			t->shape.trailing_commas++;
		else if (c > 0)
			return read_member(t);
	}
	if (c <= 0)
		return c ? c : cut(t, "without the closing '}'");
	if (c == '}') {
		t->p++;
		t->place = AT_TAIL;
		return 0;
	}
	return first ? read_member(t) :
		fail(t, -EBADMSG, t->p, "',' or '}' is missing");
}

/* Between events: returns 1 with one, 0 at the end of the array. */
static int step_events(struct trace *t, struct trace_event *ev)
{
	bool first = t->place == AT_FIRST_EVENT;
	int c = peek(t);

	if (c == ',' && !first) {
		t->p++;
		c = peek(t);
		if (c == ']')
			t->shape.trailing_commas++;
		else if (c > 0)
			return read_event(t, ev);
	}
	if (c <= 0)
		return c ? c : cut(t, "without the closing ']'");
	if (c == ']') {
		t->p++;
		t->place = t->shape.is_array ? AT_TAIL : AT_KEY;
		return 0;
	}
	return first ? read_event(t, ev) :
		fail(t, -EBADMSG, t->p, "',' or ']' is missing");
}

static int end_document(struct trace *t)
{
	uint64_t start = offset_of(t, t->p);
	int c = peek(t);

	if (c < 0)
		return c;
	if (c)
		return fail(t, -EBADMSG, t->p, "text behind the document");
	t->shape.size = offset_of(t, t->p);
	t->shape.tail_space = t->shape.size - start;
	t->place = AT_END;
	return 0;
}

int trace_next(struct trace *t, struct trace_event *ev)
{
	int more = 0;

	while (more == 0 && t->place != AT_END) {
		switch (t->place) {
		case AT_START:
			more = begin_document(t);
			break;
		case AT_FIRST_KEY:
		case AT_KEY:
			more = step_document(t);
			break;
		case AT_FIRST_EVENT:
		case AT_EVENT:
			more = step_events(t, ev);
			break;
		default:
			more = end_document(t);
		}
	}
	return more;
}

struct trace *trace_open_fd(int fd, unsigned flags,
			    struct trace_problem *problem)
{
	struct trace *t = calloc(1, sizeof(*t));
	int err;

	memset(problem, 0, sizeof(*problem));
	if (!t) {
		snprintf(problem->text, sizeof(problem->text), "%s",
			 strerror(ENOMEM));
		if (fd > 0)
			close(fd);
		return NULL;
	}
	json_keys_build(&t->event_keys, event_names, EV_KEYS);
	json_keys_build(&t->arg_keys, arg_names, ARG_KEYS);
	json_keys_build(&t->cat_keys, cat_names, CATS);
	json_keys_build(&t->header_keys, header_names, HEADER_KEYS + 1);
	err = input_open(&t->in, fd);
	if (err) {
		snprintf(problem->text, sizeof(problem->text), "%s",
			 t->in.why);
		trace_close(t);
		return NULL;
	}
	t->p = t->in.buf;
	t->json.end = t->in.end;
	t->json.strict = flags & TRACE_STRICT;
	t->shape.is_gzip = t->in.unpacker;
	return t;
}

/* A folder opens like a file, and reading it fails with a worse message. */
struct trace *trace_open(const char *path, unsigned flags,
			 struct trace_problem *problem)
{
	struct stat st;
	int fd, err = 0;

	fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : 0;
	if (fd < 0)
		err = errno;
	else if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		err = EISDIR;
	if (!err)
		return trace_open_fd(fd, flags, problem);
	if (fd > 0)
		close(fd);
	problem->has_offset = false;
	snprintf(problem->text, sizeof(problem->text), "%s", strerror(err));
	return NULL;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	input_close(&t->in);
	json_fini(&t->json);
	for (int i = 0; i < HEADER_KEYS; i++)
		free(t->header_text[i]);
	free(t->top_keys);
	free(t);
}

void trace_on_member(struct trace *t, trace_member_fn *fn, void *arg)
{
	t->member_fn = fn;
	t->member_arg = arg;
}

const struct trace_problem *trace_problem(const struct trace *t)
{
	return &t->problem;
}

unsigned trace_faults(struct trace *t, uint64_t offset[JSON_FAULTS])
{
	unsigned faults = t->faults;

	memcpy(offset, t->fault_at, sizeof(t->fault_at));
	t->faults = 0;
	return faults;
}

const struct trace_shape *trace_shape(const struct trace *t)
{
	return &t->shape;
}

const struct json_value *trace_header(const struct trace *t,
				      enum trace_header_key key)
{
	return t->header_text[key] ? &t->header[key] : &trace_none;
}
