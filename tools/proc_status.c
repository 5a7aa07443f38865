/* SPDX-License-Identifier: MIT */
#include "tools/proc_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_text(const struct look *machine, const char *path,
		     char *status)
{
	ssize_t len = look_read(machine, path, status, PROC_STATUS_SIZE);

	return len < 0 ? (int)len : 0;
}

int proc_status_read(const struct look *machine, long pid,
		     char status[PROC_STATUS_SIZE])
{
	char path[64] = "/proc/self/status";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	return read_text(machine, path, status);
}

int proc_status_read_thread(const struct look *machine, long pid, long tid,
			    char status[PROC_STATUS_SIZE])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/status", pid, tid);
	return read_text(machine, path, status);
}

const char *proc_status_word(const char *status, const char *key, int n)
{
	size_t len = strlen(key);
	const char *line = status;

	while (line && (strncmp(line, key, len) || line[len] != ':')) {
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	if (!line)
		return NULL;
	for (line += len + 1; ; n--) {
		line += strspn(line, " \t");
		if (!n || *line == '\n' || !*line)
			break;
		line += strcspn(line, " \t\n");
	}
	return *line == '\n' || !*line ? NULL : line;
}

bool proc_status_has_word(const char *status, const char *key,
			  const char *word)
{
	size_t len = strlen(word);
	const char *at;

	for (int i = 0; (at = proc_status_word(status, key, i)); i++)
		if (strcspn(at, " \t\n") == len && !memcmp(at, word, len))
			return true;
	return false;
}

long proc_status_number(const char *status, const char *key, int n)
{
	const char *word = proc_status_word(status, key, n);

	return word ? strtol(word, NULL, 10) : 0;
}

long proc_status_last(const char *status, const char *key)
{
	long last = 0;

	for (int i = 0; proc_status_word(status, key, i); i++)
		last = proc_status_number(status, key, i);
	return last;
}

uint64_t proc_status_mask(const char *status, const char *key)
{
	const char *word = proc_status_word(status, key, 0);

	return word ? strtoull(word, NULL, 16) : 0;
}
