/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diagnose.h"
#include "tools/plain.h"
#include "tools/table.h"
#include "tools/utf8.h"

static const struct {
	const char *id, *what;
} ids[FOUND_IDS] = {
#define X(id, text, what) [FOUND_##id] = { text, what },
	DIAGNOSE_IDS(X)
#undef X
};

static const char *const source_names[] = {
	[STEPS_NONE] = "none", [STEPS_NAMED] = "named",
	[STEPS_PROFILER] = "ProfilerStep", [STEPS_RANGE] = "step",
	[STEPS_KERNELS] = "kernels",
};

static int64_t a_step(const struct found *f, int64_t ns)
{
	return f->steps ? ns / f->steps : ns;
}

/* A name in a trace is not to be trusted with a terminal. */
static void print_word(FILE *to, const char *word, size_t len)
{
	unsigned n;

	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = utf8_char(word + i, len - i);
		if (plain_is(word + i, n))
			fwrite(word + i, 1, n, to);
		else
			putc('?', to);
	}
}

/* Words up to the end of the text or line, in lines of 80 columns, further
 * ones behind `indent` spaces; `at` is the column where they begin.  Returns
 * what follows. */
static const char *print_words(FILE *to, const char *text, int at, int indent)
{
	int column = at;

	while (*text && *text != '\n') {
		size_t len = strcspn(text, " \n");

		if (column > at && column + 1 + (int)len > 80) {
			fprintf(to, "\n%*s", indent, "");
			column = at = indent;
		} else if (column > at) {
			putc(' ', to);
			column++;
		}
		print_word(to, text, len);
		column += len;
		text += len;
		if (*text == ' ')
			text++;
	}
	putc('\n', to);
	return *text ? text + 1 : text;
}

/* Lines under a head: "     do  ..." */
static void print_lines(FILE *to, const char *head, const char *lines)
{
	while (lines && *lines) {
		fprintf(to, "   %5s  ", head);
		lines = print_words(to, lines, 10, 12);
		head = "";
	}
}

static void print_places(FILE *to, const struct found *f)
{
	char line[512];

	for (unsigned i = 0; i < f->nr_places; i++) {
		snprintf(line, sizeof(line), "ts %" PRId64 ".%03d us, %s: %s",
			 f->place[i].start / 1000,
			 abs((int)(f->place[i].start % 1000)),
			 ns_text(f->place[i].end - f->place[i].start).text,
			 f->place[i].what ? f->place[i].what : "");
		print_lines(to, i ? "" : "where", line);
	}
}

static void print_saving(FILE *to, const struct found *f)
{
	char line[512];

	if (f->saving >= 0)
		snprintf(line, sizeof(line), "%s%s, estimated: %s",
			 ns_text(a_step(f, f->saving)).text,
			 f->steps ? " a step" : "",
			 f->estimated ? f->estimated : "");
	else
		snprintf(line, sizeof(line), "%s",
			 f->estimated ? f->estimated : "");
	print_lines(to, "saves", line);
}

static void print_finding(FILE *to, const struct found *f, enum found_id id,
			  int number, bool has_places)
{
	fprintf(to, "\n%d. [%s, %s] ", number, severity_names[f->severity],
		ids[id].id);
	print_words(to, f->title ? f->title : "", 8 +
		    strlen(severity_names[f->severity]) + strlen(ids[id].id),
		    3);
	print_lines(to, "", f->lines);
	if (has_places)
		print_places(to, f);
	print_lines(to, "do", f->advice);
	print_saving(to, f);
	if (f->nr_others)
		fprintf(to, "   %5s  on %u more\n", "also", f->nr_others);
}

/* A line for each GPU. */
static void print_subject(FILE *to, const struct diagnosis *d,
			  const struct subject *s)
{
	const struct steps *steps = s->steps;
	char what[280], line[480];

	if (steps->source == STEPS_KERNELS)
		snprintf(what, sizeof(what), "%zu steps of %zu kernels that "
			 "repeat", steps->nr, steps->period);
	else if (steps->nr)
		snprintf(what, sizeof(what), "%zu steps ('%.40s', %s)",
			 steps->nr, model_name(s->m, steps->name),
			 subject_thread(s, steps->lane).text);
	else
		snprintf(what, sizeof(what), "no steps were found (name them "
			 "with --step)");
	snprintf(line, sizeof(line), "GPU %" PRId64 ", %s looked at, %s; %s%s, "
		 "of which the GPU works %s (%s)",
		 d->m.device[s->device].id, ns_text(subject_window(s)).text,
		 what, ns_text(subject_a_step(s, subject_window(s))).text,
		 subject_per(s), ns_text(subject_a_step(s, s->busy)).text,
		 share_text(subject_share(s, s->busy)).text);
	fprintf(to, "%s:\n  ", d->m.file[steps->file].path);
	print_words(to, line, 2, 2);
	if (!d->m.file[steps->file].lost)
		return;
	snprintf(line, sizeof(line), "%" PRId64 " events were lost while it "
		 "was recorded: steps and times may lack some (gputrace check "
		 "says of what)", d->m.file[steps->file].lost);
	fprintf(to, "  ");
	print_words(to, line, 2, 2);
}

static void print_savings(FILE *to, const struct diagnosis *d)
{
	bool any = false;

	for (int i = 0; i < FOUND_IDS; i++) {
		const struct found *f = &d->found[i];

		if (!f->severity || f->saving <= 0)
			continue;
		if (!any)
			fputs("\nSavings, estimated, in the order in which to "
			      "try them; each is that of the one\nchange "
			      "alone, so they do not add up:\n", to);
		any = true;
		fprintf(to, "  %-16s %9s%s%s\n", ids[i].id,
			ns_text(a_step(f, f->saving)).text,
			f->steps ? " a step" : "",
			i == FOUND_TINY && d->found[FOUND_LAUNCH_BOUND].severity
			? ", instead of launch_bound" : "");
	}
}

static void print_checked(FILE *to, const struct diagnosis *d, bool any)
{
	fprintf(to, "\n%s; checked were:\n", any ? "Nothing else was found" :
		"Nothing was found");
	for (int i = 0; i < FOUND_IDS; i++)
		if (d->checked[i])
			fprintf(to, "  %-16s %s\n", ids[i].id, ids[i].what);
	if (any)
		fputs("\nTo see a place: gputrace open FILE, and put "
		      "&visStart=NS&visEnd=NS (ts times\n1000) behind the "
		      "link that it prints.\n", to);
}

/* The kernel to look at comes last: it is what is left when the rest is
 * done.  Where launches make the gaps, they are shown once. */
static void print_text(const struct diagnosis *d, FILE *to)
{
	const struct found *kernel = &d->found[FOUND_DOMINANT];
	bool has_launches = d->found[FOUND_LAUNCH_BOUND].severity;
	int nr = 0;

	for (size_t i = 0; i < d->nr_subjects; i++)
		print_subject(to, d, &d->subject[i]);
	if (!d->nr_subjects)
		fputs("No GPU work in this trace: nothing to diagnose.\n", to);
	for (int i = 0; i < FOUND_IDS; i++)
		if (d->found[i].severity && i != FOUND_DOMINANT)
			print_finding(to, &d->found[i], i, ++nr,
				      i != FOUND_GAPS || !has_launches);
	print_savings(to, d);
	if (kernel->severity)
		print_finding(to, kernel, FOUND_DOMINANT, ++nr, true);
	if (d->nr_subjects)
		print_checked(to, d, nr > 0);
}

static void print_evidence(const struct found *f, FILE *to)
{
	fputs("{", to);
	for (unsigned i = 0; i < f->nr_numbers; i++) {
		fprintf(to, "\"%s\":", f->number[i].key);
		if (f->number[i].text)
			table_json_text(to, f->number[i].text);
		else
			fprintf(to, "%" PRId64, f->number[i].n);
		putc(',', to);
	}
	fputs("\"places\":[", to);
	for (unsigned i = 0; i < f->nr_places; i++) {
		fprintf(to, "%s{\"ts_ns\":%" PRId64 ",\"dur_ns\":%" PRId64
			",\"what\":", i ? "," : "", f->place[i].start,
			f->place[i].end - f->place[i].start);
		table_json_text(to, f->place[i].what ? f->place[i].what : "");
		putc('}', to);
	}
	fputs("]}", to);
}

static void print_json_finding(const struct found *f, enum found_id id,
			       FILE *to)
{
	const struct {
		const char *key, *text;
	} texts[] = {
		{ "title", f->title }, { "detail", f->lines },
		{ "advice", f->advice }, { "estimated", f->estimated },
	};

	fprintf(to, "{\"id\":\"%s\",\"severity\":\"%s\",\"evidence\":",
		ids[id].id, severity_names[f->severity]);
	print_evidence(f, to);
	if (f->saving >= 0)
		fprintf(to, ",\"saving_ns\":%" PRId64, f->saving);
	else
		fputs(",\"saving_ns\":null", to);
	if (f->saving >= 0 && f->steps)
		fprintf(to, ",\"saving_per_step_ns\":%" PRId64,
			f->saving / f->steps);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		fprintf(to, ",\"%s\":", texts[i].key);
		table_json_text(to, texts[i].text ? texts[i].text : "");
	}
	fprintf(to, ",\"others\":%u}", f->nr_others);
}

static void print_json_subject(const struct diagnosis *d,
			       const struct subject *s, FILE *to)
{
	const struct steps *steps = s->steps;

	fputs("{\"file\":", to);
	table_json_text(to, d->m.file[steps->file].path);
	fprintf(to, ",\"device\":%" PRId64 ",\"rank\":%" PRId64
		",\"step_source\":\"%s\",\"steps\":%zu,\"step\":",
		d->m.device[s->device].id, d->m.file[steps->file].rank,
		source_names[steps->source], steps->nr);
	if (steps->name == MODEL_NONE)
		fputs("null", to);
	else
		table_json_text(to, model_name(s->m, steps->name));
	fprintf(to, ",\"window_ns\":%" PRId64 ",\"gpu_busy_ns\":%" PRId64 "}",
		subject_window(s), s->busy);
}

static void print_json(const struct diagnosis *d, FILE *to)
{
	const char *comma = "";

	fputs("{\"schema\":1,\n\"gpus\":[", to);
	for (size_t i = 0; i < d->nr_subjects; i++) {
		fputs(i ? ",\n" : "\n", to);
		print_json_subject(d, &d->subject[i], to);
	}
	fputs("],\n\"findings\":[", to);
	for (int i = 0; i < FOUND_IDS; i++) {
		if (!d->found[i].severity)
			continue;
		fprintf(to, "%s\n", comma);
		print_json_finding(&d->found[i], i, to);
		comma = ",";
	}
	fputs("],\n\"checked\":[", to);
	comma = "";
	for (int i = 0; i < FOUND_IDS; i++) {
		if (!d->checked[i])
			continue;
		fprintf(to, "%s\"%s\"", comma, ids[i].id);
		comma = ",";
	}
	fputs("]}\n", to);
}

int diagnose_print(const struct diagnosis *d, FILE *to, bool json)
{
	if (json)
		print_json(d, to);
	else
		print_text(d, to);
	errno = 0;
	if (fflush(to) || ferror(to))
		return errno ? -errno : -EIO;
	return 0;
}
