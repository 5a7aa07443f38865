/* SPDX-License-Identifier: MIT */
#include "inject/control_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/path.h"

static char allowed[PATH_MAX];          /* "": not known */

/* %n and %t are the writer's alone to know. */
static bool has_unknown(const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern != '%')
			continue;
		pattern++;
		if (*pattern == 'n' || *pattern == 't')
			return true;
		if (!*pattern)
			break;
	}
	return false;
}

/* Without the slash at its end, for which new realpath()s make a system call
 * (faccessat2) that a filter may not know. */
static void folder_of(const char *path, const char *none, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t len = slash && slash > path ? (size_t)(slash - path) : 1;

	if (slash)
		snprintf(folder, PATH_MAX, "%.*s", (int)len, path);
	else
		snprintf(folder, PATH_MAX, "%s", none);
}

void control_folder_init(const char *out, uint32_t rank)
{
	char host[256] = "unknown", expanded[PATH_MAX];
	struct path_values values = {
		.pid = (uint32_t)getpid(), .rank = rank, .host = host,
		.program = "",
	};
	char folder[PATH_MAX];
	bool is_pattern;

	folder_of(out, ".", folder);
	if (gethostname(host, sizeof host - 1))
		snprintf(host, sizeof host, "unknown");
	/* The program may go to another folder later. */
	if (has_unknown(folder) ||
	    path_expand(folder, &values, expanded, sizeof expanded,
			&is_pattern) || !realpath(expanded, allowed))
		allowed[0] = 0;
}

static int refuse(char *why, size_t size, const char *path, const char *what)
{
	snprintf(why, size, "%s: %s%s; for a file elsewhere gputrace capture, "
		 "or a descriptor (fd=1)", path, what, allowed);
	return -EACCES;
}

/* What is there already must be a file, or the writer would follow it. */
static bool is_free(const char *path)
{
	struct stat st;

	return lstat(path, &st) ? errno == ENOENT : S_ISREG(st.st_mode);
}

static bool is_inside(const char *folder)
{
	size_t len = strlen(allowed);

	return !strncmp(folder, allowed, len) &&
		(!folder[len] || folder[len] == '/' || len == 1);
}

int control_folder_resolve(const char *path, char *resolved, size_t size,
			   char *why, size_t why_size)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char folder[PATH_MAX], real[PATH_MAX];

	if (!allowed[0])
		return refuse(why, why_size, path, "the folder of GPUTRACE_OUT "
			      "was not there, or is not known");
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return refuse(why, why_size, path, "not the name of a file");
	if (slash && *path != '/')
		return refuse(why, why_size, path, "neither absolute nor the "
			      "name of a file in ");
	folder_of(path, allowed, folder);
	if (!realpath(folder, real) || !is_inside(real))
		return refuse(why, why_size, path, "not in ");
	if ((size_t)snprintf(resolved, size, "%s/%s", real[1] ? real : "",
			     name) >= size)
		return refuse(why, why_size, path, "too long: ");
	return is_free(resolved) ? 0 :
		refuse(why, why_size, path, "there is something that is not "
		       "a file of ");
}
