/* SPDX-License-Identifier: MIT */
/*
 * inert: a program that does not use CUDA.
 *
 *	inert [--nvtx] [--exit N]
 *
 * Shows what the trace library leaves in it before main has done anything: its
 * threads, sockets, open files and whether libcupti is mapped.  With --nvtx it
 * uses NVTX all the same.  Ends with status N.
 */
#include <dirent.h>
#include <getopt.h>
#include <nvtx3/nvToolsExt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entries of a folder of /proc; with `prefix` only links that lead there. */
static long count_entries(const char *folder, const char *prefix)
{
	DIR *dir = opendir(folder);
	char path[512], link[512];
	struct dirent *entry;
	long count = 0;
	ssize_t len;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		len = readlink(path, link, sizeof(link) - 1);
		if (!prefix || (len > 0 &&
				!strncmp(link, prefix, strlen(prefix))))
			count++;
	}
	if (dir)
		closedir(dir);
	return count;
}

static bool maps_hold(const char *text)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[1024];
	bool found = false;

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, text))
			found = true;
	if (maps)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "nvtx", no_argument, NULL, 'n' },
		{ "exit", required_argument, NULL, 'e' },
		{ NULL, 0, NULL, 0 },
	};
	int c, status = 0;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'n':
			nvtxRangePushA("inert");
			nvtxMarkA("inert");
			nvtxRangePop();
			break;
		case 'e':
			status = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	printf("{\"threads\": %ld, \"sockets\": %ld, \"files\": %ld, "
	       "\"cupti\": %d, \"preloaded\": %d}\n",
	       count_entries("/proc/self/task", NULL),
	       count_entries("/proc/self/fd", "socket:"),
	       count_entries("/proc/self/fd", "/") -
	       count_entries("/proc/self/fd", "/dev/"),
	       maps_hold("libcupti"), maps_hold("libgputrace.so"));
	return status;
}
