/* SPDX-License-Identifier: MIT */
#include "collector/maps.h"

#include <errno.h>
#include <inttypes.h>
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
	char rights[5];
	int name = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64
		   " %*x:%*x %" SCNu64 " %n", &entry->start, &entry->end,
		   rights, &entry->offset, &entry->inode, &name) != 5 ||
	    !name || rights[2] != 'x')
		return false;
	line[strcspn(line, "\n")] = 0;
	if (line[name] != '/' && strcmp(line + name, "[vdso]"))
		return false;
	if (strlen(line + name) >= sizeof entry->path)
		return false;
	strcpy(entry->path, line + name);
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
