/* SPDX-License-Identifier: MIT */
#include "tools/doctor_look.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int look_init(struct look *l, const char *root)
{
	size_t len = strlen(root);

	while (len && root[len - 1] == '/')
		len--;
	l->fd = -1;
	if (len >= sizeof(l->path))
		return -ENAMETOOLONG;
	snprintf(l->path, sizeof(l->path), "%.*s", (int)len, root);
	if (!len)
		return 0;
	l->fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return l->fd < 0 ? -errno : 0;
}

void look_fini(struct look *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

static int whole_path(const struct look *l, const char *path, char *whole,
		      size_t size)
{
	int len = snprintf(whole, size, "%s%s", l->path, path);

	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

int look_open(const struct look *l, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT,
	};
	char whole[PATH_MAX];
	long fd;

	if (l->fd >= 0) {
		fd = syscall(SYS_openat2, l->fd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != ENOSYS && errno != EPERM)
			return -errno;
	}
	if (whole_path(l, path, whole, sizeof(whole)))
		return -ENAMETOOLONG;
	fd = open(whole, flags | O_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

/* Not a device or a pipe: reading it could wait for ever, or do something. */
static int open_text(const struct look *l, const char *path)
{
	return look_open(l, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size) {
		n = read(fd, text + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

ssize_t look_read(const struct look *l, const char *path, char *text,
		  size_t size)
{
	int fd = open_text(l, path);
	ssize_t len;

	text[0] = '\0';
	if (fd < 0)
		return fd;
	len = read_all(fd, text, size - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len;
}

char *look_slurp(const struct look *l, const char *path, size_t limit,
		 size_t *len)
{
	int fd = open_text(l, path);
	size_t cap = 1 << 16;
	char *text = NULL, *more;
	ssize_t n = fd < 0 ? fd : 0;

	*len = 0;
	while (n >= 0) {
		more = realloc(text, cap + 1);
		if (!more) {
			n = -ENOMEM;
			break;
		}
		text = more;
		n = read_all(fd, text + *len, cap - *len);
		if (n < 0)
			break;
		*len += (size_t)n;
		if (*len < cap || cap >= limit)
			break;
		cap = cap < limit / 2 ? cap * 2 : limit;
	}
	if (fd >= 0)
		close(fd);
	if (n < 0) {
		free(text);
		errno = (int)-n;
		return NULL;
	}
	text[*len] = '\0';
	return text;
}

ssize_t look_link(const struct look *l, const char *path, char *to,
		  size_t size)
{
	char whole[PATH_MAX];
	ssize_t len;

	to[0] = '\0';
	if (whole_path(l, path, whole, sizeof(whole)))
		return -ENAMETOOLONG;
	len = readlink(whole, to, size - 1);
	if (len < 0)
		return -errno;
	to[len] = '\0';
	return len;
}

static int name_of(int fd, char *name, size_t size)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, name, size - 1);
	if (len < 0)
		return -errno;
	name[len] = '\0';
	return 0;
}

int look_real(const struct look *l, int fd, char *real, size_t size)
{
	char root[PATH_MAX] = "";
	size_t len;
	int err = name_of(fd, real, size);

	if (err || l->fd < 0 || name_of(l->fd, root, sizeof(root)))
		return err;
	len = strlen(root);
	if (len > 1 && !strncmp(real, root, len) && real[len] == '/')
		memmove(real, real + len, strlen(real + len) + 1);
	return 0;
}

int look_access(const struct look *l, const char *path, int mode)
{
	char whole[PATH_MAX];
	int fd;

	fd = look_open(l, path, O_PATH);
	if (fd < 0)
		return fd;
	snprintf(whole, sizeof(whole), "/proc/self/fd/%d", fd);
	mode = faccessat(AT_FDCWD, whole, mode, AT_EACCESS) ? -errno : 0;
	close(fd);
	return mode;
}

bool look_has(const struct look *l, const char *path)
{
	int fd = look_open(l, path, O_PATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

DIR *look_folder(const struct look *l, const char *path)
{
	int fd = look_open(l, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (fd < 0)
		errno = -fd;
	else if (!folder)
		close(fd);
	return folder;
}

bool look_last(const struct look *l, const char *pattern, char *path,
	       size_t size)
{
	const char *star = strchr(pattern, '*'), *name = star, *rest;
	char folder[PATH_MAX], word[NAME_MAX + 1], best[PATH_MAX] = "";
	struct dirent *entry;
	DIR *dir;

	if (!star) {
		snprintf(path, size, "%s", pattern);
		return look_has(l, pattern);
	}
	while (name > pattern && name[-1] != '/')
		name--;
	rest = star + strcspn(star, "/");
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - pattern),
		 pattern);
	snprintf(word, sizeof(word), "%.*s", (int)(rest - name), name);
	dir = look_folder(l, folder);
	while (dir && (entry = readdir(dir))) {
		if (fnmatch(word, entry->d_name, FNM_PERIOD) ||
		    (size_t)snprintf(path, size, "%s%s%s", folder,
				     entry->d_name, rest) >= size)
			continue;
		if (strcmp(path, best) > 0 && look_has(l, path))
			snprintf(best, sizeof(best), "%s", path);
	}
	if (dir)
		closedir(dir);
	snprintf(path, size, "%s", best);
	return best[0];
}
