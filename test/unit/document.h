/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_DOCUMENT_H
#define GPUTRACE_TEST_DOCUMENT_H

/*
 * What the sinks' tests write, and whether it is whole.
 */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "writer/sink.h"

/* The document: "BEGIN\n", then numbered lines, then "END n\n". */
static int append_lines(struct sink *sink, unsigned int *next, unsigned int nr)
{
	struct bytes out = { 0 };
	char line[64];
	int err;

	while (nr--) {
		snprintf(line, sizeof(line), "line %u of the body\n",
			 (*next)++);
		bytes_add(&out, line, strlen(line));
	}
	err = sink_append(sink, &out);
	bytes_fini(&out);
	return err;
}

static int append_begin(struct sink *sink)
{
	struct bytes out = { 0 };
	int err;

	bytes_add(&out, "BEGIN\n", 6);
	err = sink_append(sink, &out);
	bytes_fini(&out);
	return err;
}

/* With that many digits in its tail, which gzip cannot make much less of. */
static int commit_wide(struct sink *sink, unsigned int next, size_t width)
{
	struct bytes tail = { 0 };
	unsigned int random = next;
	char line[64];
	int err;

	snprintf(line, sizeof(line), "END %u ", next);
	bytes_add(&tail, line, strlen(line));
	while (width--) {
		random = random * 1103515245 + 12345;
		bytes_add(&tail, &"0123456789abcdef"[random >> 28], 1);
	}
	bytes_add(&tail, "\n", 1);
	err = sink_commit(sink, &tail);
	bytes_fini(&tail);
	return err;
}

static inline int commit(struct sink *sink, unsigned int next)
{
	return commit_wide(sink, next, 0);
}

/* Returns the number of lines of a whole document; -1 if it is none, -2 if
 * there is no file.  gzread() reads plain files as they are. */
static int read_document(const char *path)
{
	char line[4096], want[64];
	int next = 0, result = -1, end;
	gzFile file = gzopen(path, "rb");

	if (!file)
		return -2;
	if (gzgets(file, line, sizeof(line)) && !strcmp(line, "BEGIN\n")) {
		while (gzgets(file, line, sizeof(line))) {
			snprintf(want, sizeof(want), "line %d of the body\n",
				 next);
			if (strcmp(line, want))
				break;
			next++;
		}
		if (sscanf(line, "END %d ", &end) == 1 && end == next &&
		    strchr(line, '\n') && !gzgets(file, line, sizeof(line)))
			result = next;
	}
	gzerror(file, &end);
	if (end < 0)
		result = -1;
	gzclose(file);
	return result;
}

#endif
