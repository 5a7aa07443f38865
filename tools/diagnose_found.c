/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diagnose.h"
#include "tools/utf8.h"

/* Filling a finding, and the words in it. */

const char *const severity_names[SEVERITIES] = {
	"none", "info", "warning", "critical",
};

struct ns_text ns_text(int64_t ns)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };
	struct ns_text t = { "" };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		double n = ns / units[i].unit;

		if (n < 0.9995 && i < 2)
			continue;
		snprintf(t.text, sizeof(t.text), "%.*f %s",
			 n < 9.995 ? 2 : n < 99.95 ? 1 : 0, n, units[i].name);
		return t;
	}
	return t;
}

struct ns_text share_text(int64_t millionths)
{
	struct ns_text t;

	snprintf(t.text, sizeof(t.text), "%.*f %%",
		 millionths < 99500 ? 1 : 0, millionths / 1e4);
	return t;
}

enum severity found_severity(const struct subject *d, int64_t cost)
{
	int64_t share = subject_share(d, cost);

	return share >= 200000 ? SEVERITY_CRITICAL :
		share >= 50000 ? SEVERITY_WARNING : SEVERITY_INFO;
}

/* What was cut within a character stays UTF-8. */
static void mend(char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len;) {
		unsigned n = utf8_char(text + i, len - i);

		if (!n)
			text[i] = '?';
		i += n ? n : 1;
	}
}

/* One line: a name may hold a newline. */
static char *text(struct found *f, const char *format, va_list args)
{
	char *made;

	if (vasprintf(&made, format, args) < 0) {
		f->no_memory = true;
		return NULL;
	}
	for (char *c = made; *c; c++)
		if (*c == '\n')
			*c = '?';
	mend(made);
	return made;
}

void found_title(struct found *f, enum severity severity, const char *format,
		 ...)
{
	va_list args;

	va_start(args, format);
	f->title = text(f, format, args);
	va_end(args);
	f->severity = severity;
	f->saving = -1;
}

/* Lines are kept as one text, a newline behind each. */
static void append(struct found *f, char **to, const char *format,
		   va_list args)
{
	char *more = text(f, format, args), *both;

	if (!more)
		return;
	if (asprintf(&both, "%s%s\n", *to ? *to : "", more) < 0) {
		f->no_memory = true;
	} else {
		free(*to);
		*to = both;
	}
	free(more);
}

void found_say(struct found *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(f, &f->lines, format, args);
	va_end(args);
}

void found_advise(struct found *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(f, &f->advice, format, args);
	va_end(args);
}

void found_saves(struct found *f, int64_t saving, const char *how, ...)
{
	va_list args;

	va_start(args, how);
	f->estimated = text(f, how, args);
	va_end(args);
	f->saving = saving;
	if (saving > f->cost)
		f->cost = saving;
}

void found_number(struct found *f, const char *key, int64_t n)
{
	if (f->nr_numbers < FOUND_NUMBERS)
		f->number[f->nr_numbers++] = (struct found_number){
			.key = key, .n = n,
		};
}

void found_text(struct found *f, const char *key, const char *value)
{
	char *copy = strdup(value);

	f->no_memory |= !copy;
	if (copy)
		mend(copy);
	if (copy && f->nr_numbers < FOUND_NUMBERS)
		f->number[f->nr_numbers++] = (struct found_number){
			.key = key, .text = copy,
		};
	else
		free(copy);
}

void found_place(struct found *f, const struct subject *d, int64_t start,
		 int64_t end, const char *format, ...)
{
	int64_t shift = d->m->file[d->steps->file].shift_ns;
	va_list args;

	if (f->nr_places == FOUND_PLACES)
		return;
	va_start(args, format);
	f->place[f->nr_places++] = (struct found_place){
		start - shift, end - shift, text(f, format, args),
	};
	va_end(args);
}

void found_fini(struct found *f)
{
	free(f->title);
	free(f->lines);
	free(f->advice);
	free(f->estimated);
	for (unsigned i = 0; i < f->nr_numbers; i++)
		free((char *)f->number[i].text);
	for (unsigned i = 0; i < f->nr_places; i++)
		free(f->place[i].what);
	memset(f, 0, sizeof(*f));
}

struct range_path subject_path(const struct subject *d, uint32_t lane,
			       int64_t at)
{
	enum { DEPTH = 5 };
	const struct model *m = d->m;
	struct range_path p = { "" };
	uint32_t found[DEPTH], nr = 0, i;
	size_t len = 0;

	i = lane == MODEL_NONE ? MODEL_NONE :
		model_range_at(m, lane, at, true);
	for (; i != MODEL_NONE && nr < DEPTH;
	     i = model_range_around(m, lane, i, at)) {
		if (m->range[i].name == d->steps->name)
			continue;
		found[nr++] = i;
	}
	while (nr-- > 0 && len < sizeof(p.text))
		len += snprintf(p.text + len, sizeof(p.text) - len, "%s%.40s",
				len ? " > " : "",
				model_name(m, m->range[found[nr]].name));
	return p;
}

struct range_path subject_thread(const struct subject *d, uint32_t lane)
{
	const struct model_lane *l = lane == MODEL_NONE ? NULL :
		&d->m->lane[lane];
	struct range_path p;

	if (!l || l->tid & MODEL_TEXT)
		snprintf(p.text, sizeof(p.text), "a thread");
	else if (l->name == MODEL_NONE)
		snprintf(p.text, sizeof(p.text), "thread %" PRIu64, l->tid);
	else if (!strncmp(model_name(d->m, l->name), "thread ", 7))
		snprintf(p.text, sizeof(p.text), "%.80s",
			 model_name(d->m, l->name));
	else
		snprintf(p.text, sizeof(p.text), "thread %" PRIu64 " (%.60s)",
			 l->tid, model_name(d->m, l->name));
	return p;
}
