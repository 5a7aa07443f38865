/* SPDX-License-Identifier: MIT */
#include "collector/osrt_fd.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/decimal.h"

const char *const osrt_fd_kinds[] = {
#define X(id, word) [OSRT_FD_##id] = word,
	OSRT_FD_KINDS(X)
#undef X
};

static const char own_fds[] = "/proc/self/fd/";

/* NVIDIA's: on servers, under Windows (WSL), on Tegra. */
static const char *const patterns[] = {
	"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dxg", "/dev/nvhost*",
	"/dev/nvmap", "/dev/nvgpu/*/*",
};

/* 8 GPUs have 30 of them. */
enum { NR_DEVICES = 128, DEVICE_LEN = 32 };

static struct {
	dev_t number;
	char name[DEVICE_LEN];
} devices[NR_DEVICES];
static int nr_devices;

static void add_device(const char *path)
{
	struct stat st;

	if (nr_devices == NR_DEVICES || strlen(path) >= DEVICE_LEN ||
	    stat(path, &st) || !S_ISCHR(st.st_mode))
		return;
	devices[nr_devices].number = st.st_rdev;
	strcpy(devices[nr_devices].name, path);
	nr_devices++;
}

void osrt_fd_prepare(void)
{
	glob_t found;

	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		if (glob(patterns[i], 0, NULL, &found))
			continue;
		for (size_t n = 0; n < found.gl_pathc; n++)
			add_device(found.gl_pathv[n]);
		globfree(&found);
	}
}

static const char *driver_of(dev_t number)
{
	for (int i = 0; i < nr_devices; i++)
		if (devices[i].number == number)
			return devices[i].name;
	return NULL;
}

static enum osrt_fd_kind kind_of_mode(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG: return OSRT_FD_REGULAR;
	case S_IFDIR: return OSRT_FD_DIRECTORY;
	case S_IFIFO: return OSRT_FD_PIPE;
	case S_IFSOCK: return OSRT_FD_SOCKET;
	case S_IFBLK: return OSRT_FD_BLOCK;
	case S_IFCHR: return OSRT_FD_DEVICE;
	case 0: return OSRT_FD_ANON;
	default: return OSRT_FD_UNKNOWN;
	}
}

/* "/proc/self/fd/123" */
static void name_fd(char *path, int fd)
{
	memcpy(path, own_fds, sizeof own_fds);
	path += sizeof own_fds - 1;
	path[decimal_put(path, (uint32_t)fd)] = 0;
}

/* "anon_inode:[eventfd]", in some kernels without the brackets. */
static enum osrt_fd_kind kind_of_anon(const char *link)
{
	static const char prefix[] = "anon_inode:";

	if (strncmp(link, prefix, sizeof prefix - 1))
		return OSRT_FD_ANON;
	link += sizeof prefix - 1;
	link += *link == '[';
	for (int i = OSRT_FD_ANON + 1; i < OSRT_FD_NR; i++)
		if (!strncmp(link, osrt_fd_kinds[i], strlen(osrt_fd_kinds[i])))
			return (enum osrt_fd_kind)i;
	return OSRT_FD_ANON;
}

static enum osrt_fd_kind look_at_anon(int fd)
{
	char name[sizeof own_fds + DECIMAL_MAX], link[32];
	ssize_t len;

	name_fd(name, fd);
	len = readlink(name, link, sizeof link - 1);
	if (len < 0)
		return OSRT_FD_ANON;
	link[len] = 0;
	return kind_of_anon(link);
}

struct osrt_fd osrt_fd_look(int fd)
{
	struct osrt_fd about = { OSRT_FD_UNKNOWN, NULL };
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return about;
	about.kind = kind_of_mode(st.st_mode);
	if (about.kind == OSRT_FD_DEVICE)
		about.driver = driver_of(st.st_rdev);
	else if (about.kind == OSRT_FD_ANON)
		about.kind = look_at_anon(fd);
	return about;
}
