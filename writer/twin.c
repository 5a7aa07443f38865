/* SPDX-License-Identifier: MIT */
#include "writer/twin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SUFFIX ".gputrace-twin"

/* A folder with a million files must not hold us up: the first 10,000 tell. */
enum { ENTRIES_MAX = 10000 };

int twin_path(const char *path, char *twin, size_t size)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int len = snprintf(twin, size, "%.*s.%s" SUFFIX, (int)(name - path),
			   path, name);

	return len > 0 && (size_t)len < size ? 0 : -ENAMETOOLONG;
}

static bool is_held(const char *twin)
{
	int fd = open(twin, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool held;

	if (fd < 0)
		return errno == EACCES; /* another user's */
	held = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	close(fd);
	return held;
}

bool twin_is_held(const char *path)
{
	char twin[PATH_MAX];

	/* The twin is not there before the second commit. */
	return is_held(path) ||
		(!twin_path(path, twin, sizeof(twin)) && is_held(twin));
}

static bool is_twin(const char *name)
{
	size_t len = strlen(name);

	/* Both the twin and the spare name of its exchange, "...twin2". */
	if (len && name[len - 1] == '2')
		len--;
	return name[0] == '.' && len > strlen(SUFFIX) &&
	       !strncmp(name + len - strlen(SUFFIX), SUFFIX, strlen(SUFFIX));
}

/* The lock is held until it is gone: its maker may be about to take it. */
static void remove_unheld(const char *twin)
{
	int fd = open(twin, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		(void)unlink(twin);
	close(fd);
}

void twin_remove_stale(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX], twin[PATH_MAX];
	struct dirent *entry;
	int len, i;
	DIR *dir;

	len = snprintf(folder, sizeof(folder), "%.*s",
		       slash ? (int)(slash - path) + 1 : 1,
		       slash ? path : ".");
	if (len < 0 || (size_t)len >= sizeof(folder))
		return;
	dir = opendir(folder);
	if (!dir)
		return;
	for (i = 0; i < ENTRIES_MAX && (entry = readdir(dir)); i++) {
		len = snprintf(twin, sizeof(twin), "%s/%s", folder,
			       entry->d_name);
		if (is_twin(entry->d_name) && len > 0 &&
		    (size_t)len < sizeof(twin))
			remove_unheld(twin);
	}
	closedir(dir);
}

void twin_reason(int err, char *text, size_t size)
{
	static const struct {
		int err;
		const char *text;
	} table[] = {
		{ ENOSPC, "no space left on device" },
		{ EDQUOT, "disk quota exceeded" },
		{ EFBIG, "file too large" },
		{ EIO, "input/output error" },
		{ EROFS, "read-only file system" },
		{ EACCES, "permission denied" },
		{ EPERM, "operation not permitted" },
		{ ENOENT, "no such file or directory" },
		{ ENOTDIR, "not a directory" },
		{ EISDIR, "is a directory" },
		{ EINVAL, "not a regular file" },
		{ EEXIST, "file exists" },
		{ ENAMETOOLONG, "file name too long" },
		{ ESTALE, "not our file any more" },
		{ ENOMEM, "out of memory" },
		{ EMFILE, "too many open files" },
	};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++) {
		if (table[i].err == err) {
			snprintf(text, size, "%s", table[i].text);
			return;
		}
	}
	snprintf(text, size, "error %d", err);
}
