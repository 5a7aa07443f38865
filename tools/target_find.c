/* SPDX-License-Identifier: MIT */
/*
 * Which processes?  A machine has thousands, of which a few use CUDA: of each
 * only its maps are read, up to the first sign, and of the few all the rest.
 * The kernel takes 0.1 ms to write a process's maps, so all CPUs take part.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/target.h"
#include "tools/vec.h"

enum {
	CHUNK = 32 << 10,
	OVERLAP = 32,           /* more than the longest sign */
	MAX_THREADS = 7,
	FEW_PROCESSES = 100,    /* 10 ms */
};

enum sight { SEES_NOTHING, SEES_SIGN, MAY_NOT };

static bool has_sign(const char *text, size_t len)
{
	return memmem(text, len, "/libcuda.so", 11) ||
		memmem(text, len, "libgputrace.so", 14);
}

static bool search_maps(int fd)
{
	char text[OVERLAP + CHUNK];
	size_t kept = 0, len;
	ssize_t n;

	while ((n = read(fd, text + kept, CHUNK)) > 0) {
		len = kept + (size_t)n;
		if (has_sign(text, len))
			return true;
		kept = len < OVERLAP ? len : OVERLAP;
		memmove(text, text + len - kept, kept);
	}
	return false;
}

/* The kernel's threads and processes that have ended have no command. */
static bool has_command(const struct look *machine, long pid)
{
	char path[64], text[2];

	snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
	return look_read(machine, path, text, sizeof(text)) > 0;
}

static enum sight look_at(const struct look *machine, long pid)
{
	enum sight sight;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
	fd = look_open(machine, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd == -EACCES || fd == -EPERM)
		return has_command(machine, pid) ? MAY_NOT : SEES_NOTHING;
	if (fd < 0)
		return SEES_NOTHING;
	sight = search_maps(fd) ? SEES_SIGN : SEES_NOTHING;
	close(fd);
	return sight;
}

/* ---- Choosing ---- */

/* A word of the command: as it is, or the last part of its path. */
static bool word_matches(const char *word, size_t len, const char *pattern)
{
	char text[sizeof(((struct target *)0)->command)];
	const char *name;

	memcpy(text, word, len);
	text[len] = '\0';
	name = strrchr(text, '/');
	return !fnmatch(pattern, text, 0) ||
		(name && !fnmatch(pattern, name + 1, 0));
}

static bool fits(const struct target *t, const char *pattern)
{
	const char *at = t->command;
	size_t len;

	if (!fnmatch(pattern, t->name, 0) ||
	    !fnmatch(pattern, t->program, 0) ||
	    !fnmatch(pattern, t->command, 0))
		return true;
	for (; *at; at += len + (at[len] == ' ')) {
		len = strcspn(at, " ");
		if (len && *at != '-' && word_matches(at, len, pattern))
			return true;
	}
	return false;
}

static bool is_chosen(const struct target_choice *choice,
		      const struct target *t)
{
	if (!t->has_library && !t->has_cuda)
		return false;
	if (choice->match && !fits(t, choice->match))
		return false;
	return !choice->reachable || t->reach == REACH_SOCKET ||
		t->reach == REACH_SIGNAL;
}

static bool is_twice(const struct targets *found, const struct target *t)
{
	for (size_t i = 0; i < found->nr; i++)
		if (found->target[i].pid == t->pid)
			return true;
	return false;
}

static int add(const struct look *machine, const struct target_choice *choice,
	       long pid, target_ask *ask, struct targets *found)
{
	struct target *t;

	if (!VEC_ROOM(found->target, found->nr, found->cap))
		return -ENOMEM;
	t = &found->target[found->nr];
	target_read(machine, pid, ask, t);
	if (choice->nr_pids ? !is_twice(found, t) : is_chosen(choice, t))
		found->nr++;
	return 0;
}

/* ---- All of them ---- */

struct sighting {
	long pid;
	enum sight sight;
};

struct search {
	const struct look *machine;
	struct sighting *all;
	size_t nr, cap;
	_Atomic size_t next;    /* taken by the threads one by one */
};

static int by_pid(const void *a, const void *b)
{
	const struct sighting *s = a, *t = b;

	return (s->pid > t->pid) - (s->pid < t->pid);
}

static int list_pids(struct search *s)
{
	DIR *proc = look_folder(s->machine, "/proc");
	struct dirent *entry;
	int err = 0;

	if (!proc)
		return -errno;
	while (!err && (entry = readdir(proc))) {
		if (*entry->d_name < '1' || *entry->d_name > '9')
			continue;
		if (!VEC_ROOM(s->all, s->nr, s->cap))
			err = -ENOMEM;
		else
			s->all[s->nr++].pid = atol(entry->d_name);
	}
	closedir(proc);
	if (s->nr)
		qsort(s->all, s->nr, sizeof(*s->all), by_pid);
	return err;
}

static void *search_some(void *search)
{
	struct search *s = search;
	size_t i;

	while ((i = atomic_fetch_add(&s->next, 1)) < s->nr)
		s->all[i].sight = look_at(s->machine, s->all[i].pid);
	return NULL;
}

static void search_all(struct search *s)
{
	pthread_t thread[MAX_THREADS];
	long most = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	int nr = 0;

	while (nr < most && nr < MAX_THREADS && s->nr > FEW_PROCESSES &&
	       !pthread_create(&thread[nr], NULL, search_some, s))
		nr++;
	search_some(s);
	while (nr)
		pthread_join(thread[--nr], NULL);
}

static int find_all(const struct look *machine,
		    const struct target_choice *choice, target_ask *ask,
		    struct targets *found)
{
	struct search s = { .machine = machine };
	int err = list_pids(&s);

	if (!err)
		search_all(&s);
	for (size_t i = 0; i < s.nr && !err; i++) {
		found->nr_unseen += s.all[i].sight == MAY_NOT;
		if (s.all[i].sight == SEES_SIGN)
			err = add(machine, choice, s.all[i].pid, ask, found);
	}
	free(s.all);
	return err;
}

int targets_find(const struct look *machine,
		 const struct target_choice *choice, target_ask *ask,
		 struct targets *found)
{
	int err = 0;

	memset(found, 0, sizeof(*found));
	if (!choice->nr_pids)
		return find_all(machine, choice, ask, found);
	for (size_t i = 0; i < choice->nr_pids && !err; i++)
		err = add(machine, choice, choice->pids[i], ask, found);
	return err;
}

void targets_fini(struct targets *found)
{
	free(found->target);
	memset(found, 0, sizeof(*found));
}

void targets_unseen(const struct targets *found, char *text, size_t size)
{
	const char *s = found->nr_unseen == 1 ? " was" : "es were";

	text[0] = '\0';
	if (!found->nr_unseen)
		return;
	if (geteuid())
		snprintf(text, size, "%zu process%s not looked at: of other "
			 "users; run this as root to see all",
			 found->nr_unseen, s);
	else
		snprintf(text, size, "%zu process%s not looked at: run this "
			 "with CAP_SYS_PTRACE (docker run "
			 "--cap-add=SYS_PTRACE)", found->nr_unseen, s);
}
