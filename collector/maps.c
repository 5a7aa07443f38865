/* SPDX-License-Identifier: MIT */
#include "collector/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int maps_open(struct maps *maps)
{
	maps->file = fopen("/proc/self/maps", "re");
	return maps->file ? 0 : -errno;
}

void maps_close(struct maps *maps)
{
	fclose(maps->file);
}

/* Its code, of a file that is there: a deleted one says so behind its name,
 * and is not found. */
static bool take_line(char *line, struct maps_entry *entry)
{
	char *at = line, *rights;

	line[strcspn(line, "\n")] = 0;
	entry->start = strtoull(at, &at, 16);
	entry->end = strtoull(at + (*at == '-'), &at, 16);
	rights = at + strspn(at, " ");
	at = rights + strcspn(rights, " ");
	if (at - rights < 3 || rights[2] != 'x')
		return false;
	entry->offset = strtoull(at, &at, 16);
	at += strspn(at, " ");
	at += strcspn(at, " ");         /* the device */
	entry->inode = strtoull(at, &at, 10);
	at += strspn(at, " ");
	if ((*at != '/' && strcmp(at, "[vdso]")) ||
	    strlen(at) >= sizeof entry->path)
		return false;
	strcpy(entry->path, at);
	return true;
}

bool maps_next_code(struct maps *maps, struct maps_entry *entry)
{
	char line[PATH_MAX + 256];

	while (fgets(line, sizeof line, maps->file))
		if (take_line(line, entry))
			return true;
	return false;
}
