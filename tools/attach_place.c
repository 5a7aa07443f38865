/* SPDX-License-Identifier: MIT */
/*
 * The library as the process can open it: where it is for us too, or a copy in
 * a folder of the process's temporary folder, or (where the process may not
 * write and execute anywhere) handed over in memory.  The copy stays: programs
 * that the process starts, and users of NVTX in it, are told its path.  It is
 * made with the rights of the process, so that no link that its user has laid
 * leads anywhere else.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/attach.h"
#include "tools/proc_status.h"

#define NAME "libgputrace.so"

struct placing {
	struct attach *attach;
	struct look seen;               /* the process's files */
	uid_t uid;
	char *content;
	size_t size;
};

/* ---- The rights of the process ---- */

static gid_t group_of(long pid)
{
	struct look machine = { .fd = -1 };
	char status[PROC_STATUS_SIZE];

	(void)proc_status_read(&machine, pid, status);
	return proc_status_word(status, "Gid", 0) ?
		(gid_t)proc_status_number(status, "Gid", 0) : getegid();
}

struct rights { uid_t uid; gid_t gid; };

/* Only root has others to put on.  False: they are not to be had. */
static bool put_on(struct rights *own, const struct process *of)
{
	*own = (struct rights){ geteuid(), getegid() };
	return own->uid || (!setegid(group_of(of->pid)) &&
			    !seteuid((uid_t)of->uid));
}

static void take_off(const struct rights *own)
{
	/* What fails here leaves fewer rights, not more. */
	if (geteuid() != own->uid && seteuid(own->uid))
		return;
	if (getegid() != own->gid && setegid(own->gid))
		return;
}

/* ---- Content ---- */

static bool read_library(struct placing *p)
{
	struct look machine = { .fd = -1 };

	p->content = look_slurp(&machine, p->attach->library, LIBRARY_MAX,
				&p->size);
	return p->content && p->size;
}

static bool is_same(const struct placing *p, int fd)
{
	char block[65536];
	struct stat st;
	size_t at = 0;
	ssize_t n;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    (size_t)st.st_size != p->size)
		return false;
	while ((n = pread(fd, block, sizeof(block), (off_t)at)) > 0) {
		if ((size_t)n > p->size - at ||
		    memcmp(block, p->content + at, (size_t)n))
			return false;
		at += (size_t)n;
	}
	return at == p->size;
}

/* FNV-1a: a name for each build. */
static uint64_t hash(const char *bytes, size_t size)
{
	uint64_t h = 0xcbf29ce484222325u;

	while (size--)
		h = (h ^ (uint8_t)*bytes++) * 0x100000001b3u;
	return h;
}

static bool is_noexec(int fd)
{
	struct statvfs st;

	return fstatvfs(fd, &st) || (st.f_flag & ST_NOEXEC);
}

/* ---- Where it is already ---- */

static bool is_there(struct placing *p, const char *path)
{
	int fd = look_open(&p->seen, path, O_RDONLY);
	bool fits = fd >= 0 && !is_noexec(fd) && is_same(p, fd);

	if (fd >= 0)
		close(fd);
	if (fits && path != p->attach->path)
		snprintf(p->attach->path, sizeof(p->attach->path), "%s", path);
	return fits;
}

/* ---- A copy ---- */

static bool write_all(int fd, const char *bytes, size_t size)
{
	ssize_t n;

	for (; size; bytes += n, size -= (size_t)n) {
		n = write(fd, bytes, size);
		if (n <= 0)
			return false;
	}
	return true;
}

/* A folder that is ours alone: not a link, not for others to write. */
static int own_folder(int at, const char *name, uid_t uid, mode_t mode)
{
	struct stat st;
	int fd;

	if (mkdirat(at, name, mode) && errno != EEXIST)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == uid && !(st.st_mode & 022))
		return fd;
	close(fd);
	return -EPERM;
}

static int write_copy(struct placing *p, int folder)
{
	char fresh[64];
	int fd, err = 0;

	snprintf(fresh, sizeof(fresh), ".%s.%d", NAME, (int)getpid());
	fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0755);
	if (fd < 0)
		return -errno;
	if (!write_all(fd, p->content, p->size) || fsync(fd))
		err = errno ? -errno : -ENOSPC;
	close(fd);
	if (!err && renameat(folder, fresh, folder, NAME))
		err = -errno;
	if (err)
		unlinkat(folder, fresh, 0);
	return err;
}

/* DIR/gputrace-UID/lib-HASH/libgputrace.so */
static int copy_into(struct placing *p, const char *dir, int fd)
{
	char name[48], build[32];
	int own, folder, err;
	size_t len = strlen(dir);

	snprintf(name, sizeof(name), "gputrace-%u", (unsigned)p->uid);
	snprintf(build, sizeof(build), "lib-%016" PRIx64,
		 hash(p->content, p->size));
	own = own_folder(fd, name, p->uid, 0700);
	if (own < 0)
		return own;
	folder = own_folder(own, build, p->uid, 0700);
	close(own);
	if (folder < 0)
		return folder;
	while (len && dir[len - 1] == '/')
		len--;
	err = snprintf(p->attach->path, sizeof(p->attach->path),
		       "%.*s/%s/%s/%s", (int)len, dir, name, build, NAME) >=
		(int)sizeof(p->attach->path) ? -ENAMETOOLONG : 0;
	if (!err && !is_there(p, p->attach->path)) {
		err = write_copy(p, folder);
		p->attach->is_copy = !err;
	}
	close(folder);
	return err;
}

static bool try_folder(struct placing *p, const char *dir)
{
	int fd, err = -1;

	if (!dir || *dir != '/')
		return false;
	fd = look_open(&p->seen, dir, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return false;
	if (!is_noexec(fd))
		err = copy_into(p, dir, fd);
	close(fd);
	return !err;
}

static bool place(struct placing *p, const char *work)
{
	const char *const folders[] = {
		process_variable(p->attach->process->environment, "TMPDIR"),
		"/tmp", "/var/tmp", "/dev/shm", work,
	};

	if (is_there(p, p->attach->library))
		return true;
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		if (try_folder(p, folders[i]))
			return true;
	return false;
}

int attach_place(struct attach *a)
{
	struct placing p = { .attach = a };
	struct look machine = { .fd = -1 };
	struct rights own;
	char path[64], work[PATH_MAX] = "";
	bool done = false;

	p.uid = (uid_t)a->process->uid;
	snprintf(path, sizeof(path), "%s/cwd", a->process->folder);
	look_link(&machine, path, work, sizeof(work));
	snprintf(path, sizeof(path), "%s/root", a->process->folder);
	if (look_init(&p.seen, path) || !read_library(&p)) {
		attach_refuse(a, "%s: %s", a->library, strerror(errno));
	} else {
		done = put_on(&own, a->process) && place(&p, work);
		take_off(&own);
		/* Nowhere that it may write and execute: in memory. */
		if (!done)
			a->path[0] = '\0';
		done = true;
	}
	look_fini(&p.seen);
	free(p.content);
	return done ? 0 : -1;
}

void attach_unplace(struct attach *a)
{
	char root[64], path[PATH_MAX], *slash;
	struct rights own;
	struct look seen;
	int fd = -1;

	if (!a->is_copy)
		return;
	snprintf(root, sizeof(root), "%s/root", a->process->folder);
	snprintf(path, sizeof(path), "%s", a->path);
	slash = strrchr(path, '/');
	*slash = '\0';
	if (look_init(&seen, root))
		return;
	if (put_on(&own, a->process))
		fd = look_open(&seen, path, O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		unlinkat(fd, NAME, 0);
		close(fd);
	}
	take_off(&own);
	look_fini(&seen);
}
