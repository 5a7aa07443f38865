/* SPDX-License-Identifier: MIT */
#include "tools/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	REQUEST_SIZE = 16384,   /* browsers send about 1 KB */
	CHUNK = 256 << 10,
	PATIENCE_S = 60,
};

/* The page may read the answers, and nobody else's page may.  The third line
 * answers browsers that guard private addresses. */
static const char cors[] =
	"Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"
	"Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"
	"Access-Control-Allow-Headers: *\r\n"
	"Access-Control-Allow-Private-Network: true\r\n"
	"Vary: Origin\r\n"
	"Cache-Control: no-cache\r\n"
	"Connection: close\r\n";

bool http_quote(const char *text, char *out, size_t size)
{
	static const char hex[] = "0123456789ABCDEF";
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	size_t len = 0;

	for (; *text && len + 4 < size; text++) {
		unsigned char c = *text;

		if (strchr(plain, c)) {
			out[len++] = c;
			continue;
		}
		out[len++] = '%';
		out[len++] = hex[c >> 4];
		out[len++] = hex[c & 15];
	}
	out[len] = '\0';
	return !*text;
}

static int send_all(int fd, const char *from, size_t len)
{
	while (len) {
		ssize_t n = send(fd, from, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		from += n;
		len -= n;
	}
	return 0;
}

/* Reads up to the empty line that ends a request. */
static int read_request(int fd, char *request)
{
	size_t len = 0;
	ssize_t n;

	do {
		n = recv(fd, request + len, REQUEST_SIZE - 1 - len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		len += n;
		request[len] = '\0';
		if (strstr(request, "\r\n\r\n"))
			return 0;
	} while (len < REQUEST_SIZE - 1);
	return -EMSGSIZE;
}

static int answer(int fd, const char *status, unsigned long long length)
{
	char head[1024];
	int len = snprintf(head, sizeof(head),
			   "HTTP/1.1 %s\r\n%s"
			   "Content-Type: application/octet-stream\r\n"
			   "Content-Length: %llu\r\n\r\n",
			   status, cors, length);

	return send_all(fd, head, len);
}

/* The file may be replaced while it is sent: the descriptor stays the same
 * file, and its length at the start is what was promised. */
static int send_file(int fd, int from, unsigned long long left)
{
	static char chunk[CHUNK];
	int err = 0;

	while (left && !err) {
		size_t most = left < CHUNK ? left : CHUNK;
		ssize_t n = read(from, chunk, most);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		err = send_all(fd, chunk, n);
		left -= n;
	}
	return err;
}

static int answer_file(int fd, const char *path, bool with_body)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), err;
	struct stat st;

	if (from < 0)
		return answer(fd, "404 Not Found", 0);
	err = fstat(from, &st) ? -errno :
		answer(fd, "200 OK", st.st_size);
	if (!err && with_body)
		err = send_file(fd, from, st.st_size);
	close(from);
	return err ? err : with_body;
}

/* "GET /name?query HTTP/1.1": is it our name? */
static bool is_name(const char *target, const char *name)
{
	size_t len = strcspn(target, " ?#");

	return target[0] == '/' && strlen(name) == len - 1 &&
		!memcmp(target + 1, name, len - 1);
}

static int answer_request(int fd, const char *request,
			  const struct http_file *file)
{
	bool is_get = !strncmp(request, "GET ", 4);
	bool is_head = !strncmp(request, "HEAD ", 5);

	if (!strncmp(request, "OPTIONS ", 8))
		return answer(fd, "204 No Content", 0);
	if (!is_get && !is_head)
		return answer(fd, "405 Method Not Allowed", 0);
	if (!is_name(request + (is_get ? 4 : 5), file->name))
		return answer(fd, "404 Not Found", 0);
	return answer_file(fd, file->path, is_get);
}

int http_serve(int fd, const struct http_file *file)
{
	static char request[REQUEST_SIZE];
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int err;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
			 sizeof(patience));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
			 sizeof(patience));
	err = read_request(fd, request);
	if (!err)
		err = answer_request(fd, request, file);
	(void)shutdown(fd, SHUT_WR);
	close(fd);
	return err;
}
