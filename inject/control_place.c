/* SPDX-License-Identifier: MIT */
#include "inject/control_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "collector/text_file.h"
#include "inject/environment.h"
#include "inject/protocol.h"

enum {
	/* Clients that may wait for accept(). */
	BACKLOG = 16,
	/* Sockets in the folder that we look at. */
	ENTRIES_MAX = 10000,
};

struct place {
	char folder[PATH_MAX];
	char name[64];          /* of the socket */
	int fd;                 /* the folder */
};

/* Field 22 of /proc/PID/stat, behind a name that may hold anything; 0: there
 * is no such process. */
static unsigned long long start_time(const char *pid)
{
	char path[64], text[1024];
	const char *at;

	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	text_file_read(path, text, sizeof text);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at ? strtoull(at, NULL, 10) : 0;
}

/* ---- The folder ---- */

static int find_place(struct place *place)
{
	const char *tmp = environment_get("TMPDIR");
	unsigned long long started = start_time("self");
	char folder[64];

	if (!started)
		return -ENOENT;
	snprintf(place->name, sizeof place->name, PROTOCOL_SOCKET,
		 (long)getpid(), started);
	snprintf(folder, sizeof folder, PROTOCOL_FOLDER,
		 (unsigned long)geteuid());
	if ((size_t)snprintf(place->folder, sizeof place->folder, "%s/%s",
			     tmp && *tmp == '/' ? tmp : PROTOCOL_TMP,
			     folder) >= sizeof place->folder)
		return -ENAMETOOLONG;
	return 0;
}

/* -EPERM: what is there is not to be trusted. */
static int open_folder(const char *path)
{
	struct stat st;
	int fd, made = mkdir(path, 0700) ? -errno : 0;

	/* A umask may have taken our own rights away. */
	if (!made)
		(void)chmod(path, 0700);
	else if (errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Not there: why it could not be made is the reason. */
	if (fd < 0 && errno == ENOENT && made)
		return made;
	if (fd < 0)
		return errno == ELOOP || errno == ENOTDIR ? -EPERM : -errno;
	if (fstat(fd, &st)) {
		close(fd);
		return -EIO;
	}
	if (st.st_uid == geteuid() && !(st.st_mode & 077))
		return fd;
	close(fd);
	return -EPERM;
}

/* ---- The socket ---- */

/* A path may be longer than an address: through the descriptor of the folder
 * it is short, and nobody can put another one in its place meanwhile. */
static int address_of(const struct place *place, const char *name,
		      struct sockaddr_un *address)
{
	int len;

	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	len = snprintf(address->sun_path, sizeof address->sun_path,
		       "/proc/thread-self/fd/%d/%s", place->fd, name);
	return len > 0 && (size_t)len < sizeof address->sun_path ? 0 :
		-ENAMETOOLONG;
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	return fd < 0 ? -errno : fd;
}

/* Nobody listens there. */
static bool is_deserted(const struct place *place, const char *name)
{
	struct sockaddr_un address;
	int fd, error = 0;

	if (address_of(place, name, &address))
		return false;
	fd = new_socket();
	if (fd < 0)
		return false;
	if (connect(fd, (struct sockaddr *)&address, sizeof address))
		error = errno;
	close(fd);
	return error == ECONNREFUSED;
}

/* "PID-STARTTIME.sock" of a process that is gone. */
static bool is_stale(const struct place *place, const char *name)
{
	char pid[24];
	size_t digits = strspn(name, "0123456789");
	unsigned long long started;
	char *end;

	if (!digits || digits >= sizeof pid || name[digits] != '-')
		return false;
	snprintf(pid, sizeof pid, "%.*s", (int)digits, name);
	started = strtoull(name + digits + 1, &end, 10);
	return !strcmp(end, ".sock") && start_time(pid) != started &&
		is_deserted(place, name);
}

static void remove_stale(const struct place *place)
{
	DIR *folder = opendir(place->folder);
	struct dirent *entry;

	for (int i = 0; folder && i < ENTRIES_MAX &&
	     (entry = readdir(folder)); i++)
		if (is_stale(place, entry->d_name))
			(void)unlinkat(place->fd, entry->d_name, 0);
	if (folder)
		closedir(folder);
}

static int bind_and_listen(const struct place *place)
{
	struct sockaddr_un address;
	int error = address_of(place, place->name, &address);
	int fd = error ? error : new_socket();

	if (fd < 0)
		return fd;
	/* Our own name, from before an exec of itself. */
	if (is_deserted(place, place->name))
		(void)unlinkat(place->fd, place->name, 0);
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		error = -errno;
	else if (fchmodat(place->fd, place->name, 0600, 0) ||
		 listen(fd, BACKLOG)) {
		error = -errno;
		(void)unlinkat(place->fd, place->name, 0);
	}
	if (!error)
		return fd;
	close(fd);
	return error;
}

static const char *reason(int error)
{
	switch (-error) {
	case EPERM: return "it is not a folder of this user alone (0700)";
	case ENOENT: return "no such folder, or no /proc";
	case EACCES: return "permission denied";
	case EROFS: return "read-only file system";
	case ENOSPC: return "no space left on device";
	case ENAMETOOLONG: return "its name is too long";
	case EADDRINUSE: return "another process has this name";
	case EMFILE: return "too many open files";
	default: return "the system refuses";
	}
}

int control_place_listen(char *path, size_t path_size, char *why,
			 size_t why_size)
{
	struct place place = { .fd = -1 };
	int error = find_place(&place), fd = -1;

	if (!error)
		place.fd = open_folder(place.folder);
	if (place.fd < 0 && !error)
		error = place.fd;
	if (!error) {
		remove_stale(&place);
		fd = bind_and_listen(&place);
		error = fd < 0 ? fd : 0;
	}
	if (place.fd >= 0)
		close(place.fd);
	snprintf(path, path_size, "%s/%s", place.folder, place.name);
	if (!error)
		return fd;
	snprintf(why, why_size, "%s: %s (error %d)", place.folder,
		 reason(error), -error);
	return error;
}
