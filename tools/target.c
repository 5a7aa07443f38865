/* SPDX-License-Identifier: MIT */
#include "tools/target.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/protocol.h"
#include "tools/doctor_process.h"
#include "tools/plain.h"

enum {
	CGROUP_MAX = 64 << 10,
	MOUNTS_MAX = 8 << 20,           /* some 50,000 mounts */
	COMMAND_BYTES = 512,            /* made plain it is 4 times that */
	EXEC_MS = 20,                   /* more than one takes */
};

static const char *const states[] = {
	[STATE_UNTRACED] = "untraced", [STATE_WAITING] = "waiting",
	[STATE_ASIDE] = "aside", [STATE_SLEEPING] = "sleeping",
	[STATE_RECORDING] = "recording", [STATE_RECORDER] = "recorder",
	[STATE_STOPPING] = "stopping", [STATE_STOPPED] = "stopped",
};

const char *target_state_name(enum target_state state)
{
	return states[state];
}

/* NR_STATES if it is no such word. */
static enum target_state parse_state(const char *name)
{
	int i = 0;

	while (i < NR_STATES && strcmp(states[i], name))
		i++;
	return (enum target_state)i;
}

const char *target_reach_name(enum target_reach reach)
{
	static const char *const names[] = {
		[REACH_NO] = "no", [REACH_SOCKET] = "socket",
		[REACH_SIGNAL] = "signal", [REACH_ATTACH] = "attach",
	};

	return names[reach];
}

void target_gpus(const struct target *t, char *text, size_t size)
{
	size_t len = 0;

	snprintf(text, size, "%s", t->gpus ? "" : t->visible);
	for (int i = 0; i < 64 && len < size; i++)
		if (t->gpus >> i & 1)
			len += (size_t)snprintf(text + len, size - len,
						"%s%d", len ? "," : "", i);
}

/* ---- What /proc tells besides doctor_process.c ---- */

static const char *variable(const struct process *p, const char *name)
{
	return process_variable(p->environment, name);
}

static char *slurp(const struct look *machine, const struct process *p,
		   const char *file, size_t limit)
{
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", p->folder, file);
	return look_slurp(machine, path, limit, &len);
}

/* Field 22, counted behind the name, which may hold spaces and brackets. */
static uint64_t read_started(const struct look *machine,
			     const struct process *p)
{
	char path[64], text[1024];
	const char *at;

	snprintf(path, sizeof(path), "%s/stat", p->folder);
	if (look_read(machine, path, text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')');
	for (int i = 2; i < 22 && at; i++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at ? strtoull(at, NULL, 10) : 0;
}

/* What a user without a number in a user namespace is there
 * (/proc/sys/kernel/overflowuid). */
#define NO_SUCH_UID 65534

/* A line of uid_map: inside, outside, how many. */
static long read_inner_uid(const struct look *machine,
			   const struct process *p)
{
	char path[64], text[4096];
	const char *line = text;
	unsigned long inside, outside, nr, uid = (unsigned long)p->uid;

	snprintf(path, sizeof(path), "%s/uid_map", p->folder);
	if (look_read(machine, path, text, sizeof(text)) < 0)
		return p->uid;
	while (line && sscanf(line, "%lu %lu %lu", &inside, &outside,
			      &nr) == 3) {
		if (uid >= outside && uid - outside < nr)
			return (long)(inside + (uid - outside));
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return NO_SUCH_UID;
}

static void read_program(const struct look *machine, const struct process *p,
			 struct target *t)
{
	char path[64], exe[PATH_MAX], command[COMMAND_BYTES + 1];
	ssize_t len;

	snprintf(path, sizeof(path), "%s/exe", p->folder);
	if (look_link(machine, path, exe, sizeof(exe)) > 0)
		snprintf(t->program, sizeof(t->program), "%.60s",
			 strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe);
	plain_make(t->program, sizeof(t->program));
	snprintf(path, sizeof(path), "%s/cmdline", p->folder);
	len = look_read(machine, path, command, sizeof(command));
	while (len > 0 && !command[len - 1])
		len--;
	for (ssize_t i = 0; i < len; i++)
		if (!command[i])
			command[i] = ' ';
	if (len > 0)
		snprintf(t->command, sizeof(t->command), "%s", command);
	plain_make(t->command, sizeof(t->command));
}

static void read_container(const struct look *machine,
			   const struct process *p, struct target *t)
{
	char *cgroup = slurp(machine, p, "cgroup", CGROUP_MAX);
	char *mounts = slurp(machine, p, "mountinfo", MOUNTS_MAX);

	container_find(cgroup, mounts, &t->container);
	free(cgroup);
	free(mounts);
}

/* ---- Its socket ---- */

static void name_socket(const struct look *machine, const struct process *p,
			struct target *t, long inner_uid)
{
	const char *tmp = variable(p, "TMPDIR");

	if (!tmp || *tmp != '/')
		tmp = PROTOCOL_TMP;
	if ((size_t)snprintf(t->socket, sizeof(t->socket),
			     "%s%s/root%s/" PROTOCOL_FOLDER "/"
			     PROTOCOL_SOCKET, machine->path, p->folder, tmp,
			     (unsigned long)inner_uid, t->inner_pid,
			     (unsigned long long)t->started) >=
	    sizeof(t->socket))
		t->socket[0] = '\0';
}

/* ---- State and reach ---- */

static enum target_state guess_state(const struct process *p,
				     const struct target *t)
{
	const char *start = variable(p, "GPUTRACE_START");
	bool is_ours = p->has_writer || p->has_socket;

	if (p->state == 'T' || p->state == 't')
		return STATE_STOPPED;
	if (!t->has_library)
		return STATE_UNTRACED;
	if (!is_ours)
		return p->has_gpu ? STATE_ASIDE : STATE_WAITING;
	/* Of a file that is being written the second one is open. */
	if (p->twin[0])
		return STATE_RECORDING;
	if (variable(p, "GPUTRACE_RECORDER"))
		return STATE_RECORDER;
	return !start || !strcmp(start, "now") ? STATE_RECORDING :
		STATE_SLEEPING;
}

static void refuse(struct target *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void refuse(struct target *t, const char *format, ...)
{
	va_list args;

	t->reach = REACH_NO;
	va_start(args, format);
	vsnprintf(t->why, sizeof(t->why), format, args);
	va_end(args);
}

static void judge_untraced(const struct process *p, struct target *t)
{
	if (!t->has_cuda)
		refuse(t, "it does not use CUDA");
	else if (p->tracer)
		refuse(t, "pid %ld debugs it: end that first", p->tracer);
	else
		t->reach = REACH_ATTACH;
}

/* A server that gave up root after it had opened the socket left it where
 * root's are. */
static int socket_of_root(const struct look *machine, const struct process *p,
			  struct target *t)
{
	int fd = -ENOENT;

	if (t->uid && t->uid == t->inner_uid) {
		t->socket_uid = 0;
		name_socket(machine, p, t, 0);
		fd = target_socket(machine, t);
	}
	if (fd < 0) {
		t->socket_uid = t->uid;
		name_socket(machine, p, t, t->inner_uid);
	}
	return fd;
}

static void judge_traced(const struct look *machine, const struct process *p,
			 struct target *t)
{
	const char *control = variable(p, "GPUTRACE_CONTROL");
	int fd = target_socket(machine, t);

	if (fd == -ENOENT)
		fd = socket_of_root(machine, p, t);
	if (fd >= 0) {
		close(fd);
		t->reach = REACH_SOCKET;
		return;
	}
	if (control && !strcmp(control, "off"))
		refuse(t, "GPUTRACE_CONTROL=off, and no GPUTRACE_SIGNAL");
	else
		target_no_socket(machine, t);
	if (t->signal[0]) {
		t->reach = REACH_SIGNAL;
		t->why[0] = '\0';
	}
	t->socket[0] = '\0';
}

/* Between the load of the library, or cuInit, and its threads. */
static bool may_be_starting(const struct process *p, const struct target *t)
{
	return t->state == STATE_ASIDE ||
		(t->state == STATE_WAITING && p->has_attach);
}

static void judge(const struct look *machine, const struct process *p,
		  struct target *t)
{
	if (t->state != STATE_STOPPED && t->state >= STATE_SLEEPING) {
		judge_traced(machine, p, t);
		return;
	}
	t->socket[0] = '\0';
	t->may_come = may_be_starting(p, t);
	if (t->state == STATE_STOPPED)
		refuse(t, "it is stopped: kill -CONT %ld", t->pid);
	else if (t->state == STATE_UNTRACED)
		judge_untraced(p, t);
	else if (t->state == STATE_WAITING)
		refuse(t, "it has not used CUDA yet");
	else
		refuse(t, "not started: see gputrace doctor %ld", t->pid);
}

static void ask_state(const struct look *machine, target_ask *ask,
		      struct target *t)
{
	char word[32];

	if (!ask || t->reach != REACH_SOCKET ||
	    ask(machine, t, word, sizeof(word)))
		return;
	if (parse_state(word) != NR_STATES)
		t->state = parse_state(word);
}

/* ---- One process ---- */

/* Has it mapped such a file: "/usr/lib/libcuda.so.1", "/memfd:libcuda.so"? */
static bool has_mapped(const struct process *p, const char *name)
{
	size_t len = strlen(name);
	const char *last;

	for (size_t i = 0; i < p->nr_mapped; i++) {
		last = strrchr(p->mapped[i].path, '/') + 1;
		if (!strncmp(last, "memfd:", 6))
			last += 6;
		if (!strncmp(last, name, len) &&
		    (!last[len] || last[len] == '.'))
			return true;
	}
	return false;
}

static void fill(const struct look *machine, const struct process *p,
		 struct target *t)
{
	const char *value;

	t->is_known = true;
	t->pid = p->pid;
	t->inner_pid = p->inner_pid ? p->inner_pid : p->pid;
	t->uid = p->uid;
	t->inner_uid = read_inner_uid(machine, p);
	t->started = read_started(machine, p);
	snprintf(t->name, sizeof(t->name), "%.15s", p->name);
	plain_make(t->name, sizeof(t->name));
	read_program(machine, p, t);
	read_container(machine, p, t);
	t->gpus = p->gpus;
	value = variable(p, "CUDA_VISIBLE_DEVICES");
	snprintf(t->visible, sizeof(t->visible), "%.15s", value ? value : "");
	plain_make(t->visible, sizeof(t->visible));
	value = variable(p, "GPUTRACE_SIGNAL");
	if (value && strlen(value) < sizeof(t->signal))
		snprintf(t->signal, sizeof(t->signal), "%s", value);
	plain_make(t->signal, sizeof(t->signal));
	t->has_library = has_mapped(p, "libgputrace.so");
	t->has_cuda = has_mapped(p, "libcuda.so");
	t->socket_uid = t->uid;
	name_socket(machine, p, t, t->inner_uid);
}

/* In the middle of an exec a process has no maps and looks as if it had
 * ended. */
static struct process *read_patiently(const struct look *machine, long pid,
				      char *why, size_t size)
{
	struct process *p = process_read(machine, pid, why, size);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/exe", pid);
	for (int i = 0; !p && i < EXEC_MS && look_has(machine, path); i++) {
		usleep(1000);
		p = process_read(machine, pid, why, size);
	}
	return p;
}

void target_read(const struct look *machine, long pid, target_ask *ask,
		 struct target *t)
{
	char why[192];
	struct process *p = read_patiently(machine, pid, why, sizeof(why));

	memset(t, 0, sizeof(*t));
	t->pid = t->inner_pid = pid;
	t->uid = t->inner_uid = -1;
	if (!p) {
		refuse(t, "%s", why);
		plain_make(t->why, sizeof(t->why));
		return;
	}
	fill(machine, p, t);
	t->state = guess_state(p, t);
	judge(machine, p, t);
	ask_state(machine, ask, t);
	process_free(p);
}
