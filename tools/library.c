/* SPDX-License-Identifier: MIT */
#include "tools/library.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool library_beside(char *path, size_t size)
{
	static const char *const places[] = { "", "../lib/" };
	char self[PATH_MAX], tried[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = '\0';
	if (len > 0)
		strrchr(self, '/')[1] = '\0';
	for (int i = 0; len > 0 && i < 2; i++) {
		snprintf(tried, sizeof(tried), "%s%slibgputrace.so", self,
			 places[i]);
		if (!access(tried, R_OK) && strlen(tried) < size) {
			strcpy(path, tried);
			return true;
		}
	}
	snprintf(path, size, "%s", self);
	return false;
}
