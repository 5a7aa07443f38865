/* SPDX-License-Identifier: MIT */
#include "writer/dump.h"

/*
 * Each event has a line of its own, and its arrow stands right behind it:
 *
 *     {"ph":"X","cat":"kernel", ... ,"args":{ ... }},
 *     {"ph":"s", ... ,"ts":12.345},       where it was launched
 *     {"ph":"f", ... ,"ts":14.000},
 */
struct line {
	const char *at;
	size_t len;             /* without the comma and the end of line */
};

/* The next line; false at the end. */
static bool next_line(const char **at, const char *end, struct line *line)
{
	const char *newline;

	while (*at < end && (**at == ',' || **at == '\n'))
		(*at)++;
	if (*at == end)
		return false;
	newline = memchr(*at, '\n', (size_t)(end - *at));
	line->at = *at;
	line->len = (size_t)((newline ? newline : end) - *at);
	*at += line->len;
	if (line->at[line->len - 1] == ',')
		line->len--;
	return true;
}

static bool begins(const struct line *line, const char *with)
{
	size_t len = strlen(with);

	return line->len >= len && !memcmp(line->at, with, len);
}

static const char *find(const struct line *line, const char *what)
{
	return memmem(line->at, line->len, what, strlen(what));
}

/* Its "ts" as json_us() writes it, in ns; 0 without. */
static uint64_t time_of(const struct line *line)
{
	static const char key[] = JSON_TS;
	const char *at = find(line, key), *end = line->at + line->len;
	uint64_t ns = 0;

	if (!at)
		return 0;
	for (at += sizeof(key) - 1; at < end; at++) {
		if (*at >= '0' && *at <= '9')
			ns = ns * 10 + (uint64_t)(*at - '0');
		else if (*at != '.')
			break;
	}
	return ns;
}

/* Behind the arguments of the event that was copied last. */
static void say_not_traced(struct bytes *out)
{
	size_t end = sizeof(JSON_END_ARGS) - 1;

	if (out->is_cut || out->len < end ||
	    memcmp(out->data + out->len - end, JSON_END_ARGS, end))
		return;
	out->len -= end;
	bytes_add(out, JSON_NOT_TRACED JSON_END_ARGS,
		  sizeof(JSON_NOT_TRACED JSON_END_ARGS) - 1);
}

void dump_cut(const struct bytes *events, uint64_t base_ns, uint64_t until_ns,
	      struct bytes *out)
{
	const char *at = events->data, *end = at + events->len;
	uint64_t until = until_ns > base_ns ? until_ns - base_ns : 0;
	struct line line;

	while (next_line(&at, end, &line)) {
		if (begins(&line, "{\"ph\":\"s\"") && time_of(&line) <= until) {
			(void)next_line(&at, end, &line);
			say_not_traced(out);
			continue;
		}
		json_next_event(out);
		bytes_add(out, line.at, line.len);
		/* It has no arrow; its launch is a little later. */
		if (find(&line, JSON_BEFORE_LAUNCH) && time_of(&line) <= until)
			say_not_traced(out);
	}
}
