/* SPDX-License-Identifier: MIT */
#include "tools/doctor_process.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/proc_status.h"
#include "tools/vec.h"

enum {
	MAPS_MAX = 64 << 20,            /* some 600,000 mappings */
	ENVIRON_MAX = 8 << 20,
	ENTRIES_MAX = 100000,           /* threads, descriptors */
};

static const char twin_end[] = ".gputrace-twin";

static void read_status(struct process *p, const char *status)
{
	const char *word = proc_status_word(status, "Name", 0);

	if (word)
		snprintf(p->name, sizeof(p->name), "%.*s",
			 (int)strcspn(word, "\n"), word);
	word = proc_status_word(status, "State", 0);
	p->state = word ? *word : '?';
	p->uid = proc_status_number(status, "Uid", 1);
	p->tracer = proc_status_number(status, "TracerPid", 0);
	p->inner_pid = proc_status_last(status, "NSpid");
	p->capabilities = proc_status_mask(status, "CapEff");
}

/* ---- Maps, environment ---- */

/* The kernel writes a newline in a path as \012. */
static void unescape(char *path)
{
	char *to = path;

	for (; *path; path++) {
		if (!strncmp(path, "\\012", 4)) {
			*to++ = '\n';
			path += 3;
		} else {
			*to++ = *path;
		}
	}
	*to = '\0';
}

/* "start-end rwxp offset dev inode      /path (deleted)" */
static void read_mapping(struct process *p, char *line)
{
	static const char deleted[] = " (deleted)";
	char *path = strchr(line, '/'), *at = line;
	struct mapped m = { .path = path };
	size_t len;

	if (!path)
		return;
	for (int i = 0; i < 4 && at; i++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	m.inode = at ? strtoull(at, NULL, 10) : 0;
	len = strlen(path);
	if (len > sizeof(deleted) && !strcmp(path + len - sizeof(deleted) + 1,
					     deleted)) {
		path[len - sizeof(deleted) + 1] = '\0';
		m.is_deleted = true;
	}
	unescape(path);
	/* The parts of a file follow one another. */
	if (p->nr_mapped && p->mapped[p->nr_mapped - 1].inode == m.inode &&
	    !strcmp(p->mapped[p->nr_mapped - 1].path, path))
		return;
	if (VEC_ROOM(p->mapped, p->nr_mapped, p->cap_mapped))
		p->mapped[p->nr_mapped++] = m;
}

static void read_maps(struct process *p)
{
	char *line = p->maps, *end;

	for (; line && *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		read_mapping(p, line);
	}
}

static void read_environment(const struct look *machine, struct process *p)
{
	char path[64];
	size_t len, nr = 0, cap = 0;

	snprintf(path, sizeof(path), "%s/environ", p->folder);
	p->environ_text = look_slurp(machine, path, ENVIRON_MAX, &len);
	for (size_t at = 0; p->environ_text && at < len;
	     at += strlen(p->environ_text + at) + 1)
		if (VEC_ROOM(p->environment, nr, cap))
			p->environment[nr++] = p->environ_text + at;
	if (VEC_ROOM(p->environment, nr, cap))
		p->environment[nr] = NULL;
}

/* ---- Threads, descriptors ---- */

static void see_thread(const struct look *machine, struct process *p,
		       const char *folder, const char *tid)
{
	char path[PATH_MAX], name[32];

	snprintf(path, sizeof(path), "%s/%s/comm", folder, tid);
	if (look_read(machine, path, name, sizeof(name)) < 0)
		return;
	if (!strcmp(name, "gputrace-writer\n")) {
		p->has_writer = true;
		snprintf(p->writer_files, sizeof(p->writer_files),
			 "task/%.16s/fd", tid);
	}
	p->has_flush |= !strcmp(name, "gputrace-flush\n");
	p->has_socket |= !strcmp(name, "gputrace-socket\n");
	p->has_attach |= !strcmp(name, "gputrace-attach\n");
}

/* "/a/.b.json.gputrace-twin (deleted)" -> "/a/b.json" */
static void see_twin(struct process *p, const char *file)
{
	const char *name = strrchr(file, '/');
	const char *end = name ? strstr(name, twin_end) : NULL;

	if (!end || name[1] != '.' || p->twin[0])
		return;
	snprintf(p->twin, sizeof(p->twin), "%.*s%.*s",
		 (int)(name + 1 - file), file, (int)(end - name - 2),
		 name + 2);
}

static void see_descriptor(const struct look *machine, struct process *p,
			   const char *folder, const char *fd)
{
	char path[PATH_MAX], file[PATH_MAX];
	unsigned gpu;

	snprintf(path, sizeof(path), "%s/%s", folder, fd);
	if (look_link(machine, path, file, sizeof(file)) < 0)
		return;
	if (sscanf(file, "/dev/nvidia%2u", &gpu) == 1 && gpu < 64)
		p->gpus |= UINT64_C(1) << gpu;
	p->has_gpu |= !strncmp(file, "/dev/nvidia", 11) ||
		!strcmp(file, "/dev/dxg");
	see_twin(p, file);
}

static void each_entry(const struct look *machine, struct process *p,
		       const char *what,
		       void (*see)(const struct look *, struct process *,
				   const char *, const char *))
{
	char folder[96];
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/%s", p->folder, what);
	dir = look_folder(machine, folder);
	for (int i = 0; dir && i < ENTRIES_MAX && (entry = readdir(dir)); i++)
		if (entry->d_name[0] != '.')
			see(machine, p, folder, entry->d_name);
	if (dir)
		closedir(dir);
}

/* ---- The process ---- */

static struct process *refuse(struct process *p, char *why, size_t size,
			      const char *format, ...)
	__attribute__((format(printf, 4, 5)));
static struct process *refuse(struct process *p, char *why, size_t size,
			      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	process_free(p);
	return NULL;
}

static struct process *no_status(const struct look *machine, long pid,
				 int err, char *why, size_t size)
{
	if (machine->fd < 0 && !look_has(machine, "/proc/self/status"))
		return refuse(NULL, why, size, "there is no /proc here");
	if (err != ENOENT && err != ESRCH)
		return refuse(NULL, why, size, "pid %ld: %s", pid,
			      strerror(err));
	if (machine->fd < 0 && (!kill((pid_t)pid, 0) || errno == EPERM))
		return refuse(NULL, why, size, "pid %ld is hidden (/proc is "
			      "mounted with hidepid): run this as its user or "
			      "as root", pid);
	return refuse(NULL, why, size, "there is no process %ld (a container "
		      "counts its own: run this inside, or take the number "
		      "that ps shows here)", pid);
}

static struct process *no_maps(struct process *p, int err, char *why,
			       size_t size)
{
	long pid = p->pid, uid = p->uid;

	if (err != EACCES && err != EPERM)
		return refuse(p, why, size, "pid %ld has ended just now", pid);
	if (uid != (long)geteuid() && geteuid())
		return refuse(p, why, size, "pid %ld belongs to uid %ld: run "
			      "this as that user or as root", pid, uid);
	return refuse(p, why, size, "pid %ld may not be looked at: run this "
		      "as root with CAP_SYS_PTRACE (docker run --cap-add="
		      "SYS_PTRACE), or inside its container", pid);
}

struct process *process_read(const struct look *machine, long pid, char *why,
			     size_t why_size)
{
	struct process *p = calloc(1, sizeof(*p));
	char path[64], status[PROC_STATUS_SIZE];
	size_t len;
	int err;

	if (!p)
		return refuse(p, why, why_size, "out of memory");
	err = proc_status_read(machine, pid, status);
	if (err) {
		process_free(p);
		return no_status(machine, pid, -err, why, why_size);
	}
	/* A thread's number: its process counts. */
	p->pid = proc_status_number(status, "Tgid", 0);
	if (p->pid <= 0)
		p->pid = pid;
	snprintf(p->folder, sizeof(p->folder), "/proc/%ld", p->pid);
	read_status(p, status);
	if (p->state == 'Z' || p->state == 'X')
		return refuse(p, why, why_size, "pid %ld has ended (its parent "
			      "has not taken notice yet)", pid);
	if (!proc_status_word(status, "VmSize", 0))
		return refuse(p, why, why_size, "pid %ld (%s) is a thread of "
			      "the kernel", pid, p->name);
	snprintf(path, sizeof(path), "%s/maps", p->folder);
	p->maps = look_slurp(machine, path, MAPS_MAX, &len);
	if (!p->maps || !len)
		return no_maps(p, p->maps ? ESRCH : errno, why, why_size);
	read_maps(p);
	read_environment(machine, p);
	each_entry(machine, p, "task", see_thread);
	each_entry(machine, p, "fd", see_descriptor);
	/* The writer's own table of descriptors, where it has one. */
	if (p->has_writer)
		each_entry(machine, p, p->writer_files, see_descriptor);
	return p;
}

void process_free(struct process *p)
{
	if (!p)
		return;
	free(p->mapped);
	free(p->maps);
	free(p->environ_text);
	free(p->environment);
	free(p);
}

const char *process_variable(const char *const *environment,
			     const char *name)
{
	size_t len = strlen(name);

	for (; environment && *environment; environment++)
		if (!strncmp(*environment, name, len) &&
		    (*environment)[len] == '=')
			return *environment + len + 1;
	return NULL;
}

const struct mapped *process_find(const struct process *p, const char *part,
				  const struct mapped *from)
{
	const struct mapped *end;

	if (!p->nr_mapped)
		return NULL;
	end = p->mapped + p->nr_mapped;
	for (from = from ? from : p->mapped; from < end; from++)
		if (strstr(from->path, part))
			return from;
	return NULL;
}

bool process_open_file(const struct look *machine, const struct process *p,
		       const char *pattern, char *path, size_t size)
{
	char folder[96], link[PATH_MAX];
	struct dirent *entry;
	const char *name;
	bool found = false;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/%s", p->folder, p->writer_files);
	dir = look_folder(machine, folder);
	for (int i = 0; dir && !found && i < ENTRIES_MAX &&
	     (entry = readdir(dir)); i++) {
		snprintf(link, sizeof(link), "%s/%s", folder, entry->d_name);
		if (look_link(machine, link, path, size) <= 0)
			continue;
		name = strrchr(path, '/');
		found = name && !fnmatch(pattern, name + 1, FNM_PERIOD);
	}
	if (dir)
		closedir(dir);
	return found;
}

unsigned long process_auxv(const struct look *machine,
			   const struct process *p, unsigned long type)
{
	unsigned long pair[128] = { 0 };
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "%s/auxv", p->folder);
	len = look_read(machine, path, (char *)pair, sizeof(pair));
	for (ssize_t i = 0; i + 1 < len / (ssize_t)sizeof(*pair); i += 2)
		if (pair[i] == type)
			return pair[i + 1];
	return 0;
}
