/* SPDX-License-Identifier: MIT */
#include "collector/text_file.h"

#include <fcntl.h>
#include <unistd.h>

void text_file_read(const char *path, char *text, size_t size)
{
	/* One that a user names may be a pipe, whose open waits. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = fd >= 0 ? pread(fd, text, size - 1, 0) : 0;

	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = 0;
}
