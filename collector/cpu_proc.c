/* SPDX-License-Identifier: MIT */
#include "collector/cpu_proc.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collector/text_file.h"

/* A line of stat has 52 numbers of at most 20 digits and a name of 64 bytes. */
enum { TEXT_SIZE = 1280 };

bool proc_take_number(const char **at, uint64_t *number)
{
	const char *text = *at;
	uint64_t value = 0;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'),
					   &value))
			return false;
	while (*text == ' ' || *text == '\t' || *text == '\n')
		text++;
	*at = text;
	*number = value;
	return true;
}

/* Past one field, whatever is in it. */
static const char *next_field(const char *at)
{
	at += strcspn(at, " ");
	return *at ? at + 1 : at;
}

static uint64_t tick_ns(void)
{
	long hz = sysconf(_SC_CLK_TCK);

	return 1000000000u / (uint64_t)(hz > 0 ? hz : 100);
}

bool proc_parse_stat(const char *text, struct proc_stat *stat)
{
	/* Behind the last ')': the name may hold one, and blanks. */
	const char *at = strrchr(text, ')');
	uint64_t user, system;

	memset(stat, 0, sizeof *stat);
	if (!at || at[1] != ' ' || !at[2] || at[3] != ' ')
		return false;
	stat->state = at[2];
	at += 4;
	/* Ten fields lie between the state and the two times. */
	for (int i = 0; i < 10; i++)
		at = next_field(at);
	if (!proc_take_number(&at, &user) || !proc_take_number(&at, &system))
		return false;
	stat->cpu_ns = (user + system) * tick_ns();
	return true;
}

bool proc_parse_sched(const char *text, struct proc_sched *sched)
{
	memset(sched, 0, sizeof *sched);
	/* Without the kernel's counts (CONFIG_SCHED_INFO) all are 0. */
	if (proc_take_number(&text, &sched->run_ns) &&
	    proc_take_number(&text, &sched->delay_ns) &&
	    proc_take_number(&text, &sched->nr_runs) && sched->nr_runs)
		return true;
	memset(sched, 0, sizeof *sched);
	return false;
}

static void read_of_thread(const char *proc, uint32_t tid, const char *name,
			   char *text, size_t size)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/self/task/%u/%s", proc, tid, name);
	text_file_read(path, text, size);
}

bool proc_read_stat(const char *proc, uint32_t tid, struct proc_stat *stat)
{
	char text[TEXT_SIZE];

	read_of_thread(proc, tid, "stat", text, sizeof text);
	return proc_parse_stat(text, stat);
}

bool proc_read_sched(const char *proc, uint32_t tid, struct proc_sched *sched)
{
	char text[128];

	read_of_thread(proc, tid, "schedstat", text, sizeof text);
	return proc_parse_sched(text, sched);
}

uint64_t proc_resident(const char *proc)
{
	char path[PATH_MAX], text[128];
	const char *at = text;
	uint64_t pages;

	snprintf(path, sizeof path, "%s/self/statm", proc);
	text_file_read(path, text, sizeof text);
	at = next_field(at);            /* the address space comes first */
	return proc_take_number(&at, &pages) ? pages * proc_page_size() : 0;
}

uint64_t proc_cpu_ns(clockid_t id)
{
	struct timespec t;

	if (clock_gettime(id, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t proc_page_size(void)
{
	long size = sysconf(_SC_PAGESIZE);

	return size >= 1024 ? (uint64_t)size : 4096;
}

bool proc_threads(const char *proc, void (*see)(void *context, uint32_t tid),
		  void *context)
{
	char path[PATH_MAX];
	struct dirent *entry;
	const char *at;
	uint64_t tid;
	DIR *folder;

	snprintf(path, sizeof path, "%s/self/task", proc);
	folder = opendir(path);
	if (!folder)
		return false;
	while ((entry = readdir(folder))) {
		at = entry->d_name;
		if (proc_take_number(&at, &tid) && !*at && tid &&
		    tid <= INT_MAX)
			see(context, (uint32_t)tid);
	}
	closedir(folder);
	return true;
}

uint64_t proc_number(const char *proc, const char *name, uint64_t otherwise)
{
	char path[PATH_MAX], text[64];
	const char *at = text;
	uint64_t number;

	snprintf(path, sizeof path, "%s/sys/%s", proc, name);
	text_file_read(path, text, sizeof text);
	return proc_take_number(&at, &number) ? number : otherwise;
}
