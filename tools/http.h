/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_HTTP_H
#define GPUTRACE_TOOLS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/* As much of HTTP/1.1 as a browser needs to fetch one file from another
 * origin: GET, HEAD and OPTIONS, one request a connection. */
struct http_file {
	const char *path;       /* opened anew for each request */
	char name[1024];        /* its name in a URL */
};

/* Answers the request on a connected socket and closes it.  Returns 1 if the
 * whole file was sent, 0 for any other answer, -errno. */
int http_serve(int fd, const struct http_file *file);

/* Percent-encodes a name for a URL; false if it does not fit. */
bool http_quote(const char *text, char *out, size_t size);

#endif
