/* SPDX-License-Identifier: MIT */
#include "collector/cpu_cgroup.h"

#include <stdio.h>
#include <string.h>

#include "collector/cpu_proc.h"
#include "collector/text_file.h"

/* Nested deeper, the outer ones are not looked at. */
enum { LEVELS_MAX = 16 };

/* Version 1 says "no limit" by the largest number of whole pages. */
#define NO_LIMIT (UINT64_C(1) << 60)

/* ---- Where they are ---- */

static bool has_word(const char *list, size_t len, const char *word)
{
	size_t word_len = strlen(word), n;

	for (; len; list += n, len -= n) {
		n = strcspn(list, ",");
		if (n > len)
			n = len;
		if (n == word_len && !memcmp(list, word, n))
			return true;
		n += n < len;
	}
	return false;
}

/* The path behind "N:cpu,cpuacct:", or "0::" for `controller` "".  Its length,
 * or -1. */
static int find_own(const char *text, const char *controller,
		    const char **path)
{
	const char *list, *end;

	for (; *text; text += *text == '\n') {
		end = text + strcspn(text, "\n");
		list = memchr(text, ':', (size_t)(end - text));
		text = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) :
			NULL;
		if (text && (*controller ?
			     has_word(list + 1, (size_t)(text - list - 1),
				      controller) : text == list + 1)) {
			*path = text + 1;
			return (int)(end - text - 1);
		}
		text = end;
	}
	return -1;
}

struct mount {
	char root[PATH_MAX], point[PATH_MAX];
};

/* The next word of a line, cut at size - 1. */
static void take_word(const char **line, char *word, size_t size)
{
	size_t len = strcspn(*line, " \n"), kept = len < size ? len : size - 1;

	memcpy(word, *line, kept);
	word[kept] = 0;
	*line += len;
	*line += **line == ' ';
}

/* One line of mountinfo, of the type and with the option that we look for:
 * "32 31 0:29 ROOT POINT rw shared:1 - TYPE SOURCE rw,cpu". */
static bool read_mount(const char *line, const char *controller,
		       struct mount *mount)
{
	const char *behind = strstr(line, " - ");
	char word[256];

	if (!behind)
		return false;
	for (int i = 0; i < 3; i++)
		take_word(&line, word, sizeof word);
	take_word(&line, mount->root, sizeof mount->root);
	take_word(&line, mount->point, sizeof mount->point);
	behind += 3;
	take_word(&behind, word, sizeof word);
	if (!*controller)
		return !strcmp(word, "cgroup2");
	if (strcmp(word, "cgroup"))
		return false;
	take_word(&behind, word, sizeof word);
	return has_word(behind, strcspn(behind, "\n"), controller);
}

static bool find_mount(const char *proc, const char *controller,
		       struct mount *mount)
{
	char path[PATH_MAX], line[2 * PATH_MAX];
	bool is_found = false;
	FILE *file;

	snprintf(path, sizeof path, "%s/self/mountinfo", proc);
	file = fopen(path, "re");
	while (file && !is_found && fgets(line, sizeof line, file))
		is_found = read_mount(line, controller, mount);
	if (file)
		fclose(file);
	return is_found;
}

/* The part of the process's path that lies below what is mounted; outside of
 * it ("/..") the mount itself is the nearest. */
static const char *below(const char *path, const char *root)
{
	size_t len = strlen(root);

	if (!strcmp(root, "/"))
		len = 0;
	if (strncmp(path, root, len) || (path[len] && path[len] != '/') ||
	    strstr(path, "/.."))
		return "";
	return strcmp(path + len, "/") ? path + len : "";
}

static bool find_one(struct cgroup *cgroup, const char *text,
		     const char *controller, const char *proc,
		     const char *files)
{
	struct mount mount;
	char own[PATH_MAX];
	const char *path;
	int len = find_own(text, controller, &path), n;

	memset(cgroup, 0, sizeof *cgroup);
	if (len < 0 || !find_mount(proc, controller, &mount))
		return false;
	snprintf(own, sizeof own, "%.*s", len, path);
	cgroup->is_v2 = !*controller;
	cgroup->root_len = (uint32_t)(strlen(files) + strlen(mount.point));
	n = snprintf(cgroup->path, sizeof cgroup->path, "%s%s%s", files,
		     mount.point, below(own, mount.root));
	if (n < 0 || (size_t)n >= sizeof cgroup->path)
		cgroup->path[0] = 0;
	return cgroup->path[0];
}

void cgroups_find(struct cgroups *cgroups, const char *proc,
		  const char *files)
{
	char path[PATH_MAX], text[8192];

	snprintf(path, sizeof path, "%s/self/cgroup", proc);
	text_file_read(path, text, sizeof text);
	/* A hybrid has both; the controllers are then in version 1. */
	if (!find_one(&cgroups->cpu, text, "cpu", proc, files))
		find_one(&cgroups->cpu, text, "", proc, files);
	if (!find_one(&cgroups->memory, text, "memory", proc, files))
		find_one(&cgroups->memory, text, "", proc, files);
}

/* ---- What they say ---- */

static void read_file(const char *folder, uint32_t len, const char *name,
		      char *text, size_t size)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof path, "%.*s/%s", (int)len, folder, name);
	text_file_read(path, text, size);
}

static bool read_number(const char *folder, uint32_t len, const char *name,
			uint64_t *number)
{
	char text[64];
	const char *at = text;

	read_file(folder, len, name, text, sizeof text);
	return proc_take_number(&at, number);
}

/* The number behind "name " at the start of a line; 0 if there is none. */
static uint64_t field(const char *text, const char *name)
{
	size_t len = strlen(name);
	uint64_t number;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		if (strncmp(text, name, len) || text[len] != ' ')
			continue;
		text += len + 1;
		if (proc_take_number(&text, &number))
			return number;
		break;
	}
	return 0;
}

static bool read_quota(const struct cgroup *cgroup, uint32_t len,
		       uint64_t *quota_us, uint64_t *period_us)
{
	char text[64];
	const char *at = text;

	if (!cgroup->is_v2)     /* -1: none */
		return read_number(cgroup->path, len, "cpu.cfs_quota_us",
				   quota_us) &&
			read_number(cgroup->path, len, "cpu.cfs_period_us",
				    period_us) && *period_us;
	read_file(cgroup->path, len, "cpu.max", text, sizeof text);
	return proc_take_number(&at, quota_us) &&       /* "max": none */
		proc_take_number(&at, period_us) && *period_us;
}

static void read_cpu(const struct cgroup *cgroup, uint32_t len,
		     struct cgroup_load *load)
{
	uint64_t quota_us, period_us, throttled_ns;
	char text[4096];

	if (!read_quota(cgroup, len, &quota_us, &period_us))
		return;
	/* quota / period, without a division */
	if (!load->period_us || (unsigned __int128)quota_us * load->period_us <
	    (unsigned __int128)load->quota_us * period_us) {
		load->quota_us = quota_us;
		load->period_us = period_us;
	}
	read_file(cgroup->path, len, "cpu.stat", text, sizeof text);
	throttled_ns = cgroup->is_v2 ? field(text, "throttled_usec") * 1000 :
		field(text, "throttled_time");
	load->nr_throttled += field(text, "nr_throttled");
	load->throttled_ns += throttled_ns;
}

static void read_memory(const struct cgroup *cgroup, uint32_t len,
			struct cgroup_load *load)
{
	uint64_t used, limit;

	if (!read_number(cgroup->path, len, cgroup->is_v2 ? "memory.current" :
			 "memory.usage_in_bytes", &used))
		return;
	if (!read_number(cgroup->path, len, cgroup->is_v2 ? "memory.max" :
			 "memory.limit_in_bytes", &limit) || limit >= NO_LIMIT)
		limit = 0;
	/* Without a limit the root of version 1 is the whole machine. */
	if (!limit && (load->memory || len == cgroup->root_len))
		return;
	if (!load->memory || (limit && (!load->memory_limit ||
					limit < load->memory_limit))) {
		load->memory = used;
		load->memory_limit = limit;
	}
}

static void each_level(const struct cgroup *cgroup,
		       void (*read)(const struct cgroup *cgroup, uint32_t len,
				    struct cgroup_load *load),
		       struct cgroup_load *load)
{
	uint32_t len = (uint32_t)strlen(cgroup->path);

	for (int i = 0; i < LEVELS_MAX && len && len >= cgroup->root_len; i++) {
		read(cgroup, len, load);
		do
			len--;
		while (len && cgroup->path[len] != '/');
	}
}

void cgroups_read(const struct cgroups *cgroups, struct cgroup_load *load)
{
	memset(load, 0, sizeof *load);
	each_level(&cgroups->cpu, read_cpu, load);
	each_level(&cgroups->memory, read_memory, load);
}
