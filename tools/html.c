/* SPDX-License-Identifier: MIT */
#include "tools/html.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/diagnose.h"
#include "tools/gputrace.h"
#include "tools/html_assets.h"
#include "tools/series.h"

static const char mark_css[] = "@CSS@", mark_data[] = "@DATA@",
	     mark_js[] = "@JS@";

/* What is between two marks of the page (NULL: its start, its end). */
static void print_between(FILE *to, const char *from, const char *upto)
{
	const char *page = html_asset_page();
	const char *start = from ? strstr(page, from) + strlen(from) : page;
	const char *end = upto ? strstr(page, upto) : page + strlen(page);

	fwrite(start, 1, end - start, to);
}

/* The write function of html.data: in JSON, '<' is in strings only. */
static ssize_t write_escaped(void *page, const char *text, size_t len)
{
	const char *end = text + len;

	while (text < end) {
		const char *at = memchr(text, '<', end - text);

		fwrite(text, 1, (at ? at : end) - text, page);
		if (at)
			fputs("\\u003c", page);
		text = at ? at + 1 : end;
	}
	return ferror((FILE *)page) ? 0 : len;
}

static int open_page(struct html *h, const char *path)
{
	int fd, err;

	h->is_stdout = !strcmp(path, "-");
	h->draft.fd = -1;
	err = h->is_stdout ? 0 : draft_open(&h->draft, path);
	if (err)
		return err;
	fd = h->is_stdout ? STDOUT_FILENO : h->draft.fd;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	h->page = fd < 0 ? NULL : fdopen(fd, "w");
	if (h->page)
		return 0;
	err = -errno;
	if (fd >= 0)
		close(fd);
	draft_drop(&h->draft);
	return err;
}

int html_open(struct html *h, const char *path, const char *command)
{
	const cookie_io_functions_t escaped = { .write = write_escaped };
	int err;

	memset(h, 0, sizeof(*h));
	err = open_page(h, path);
	if (err)
		return err;
	h->data = fopencookie(h->page, "w", escaped);
	if (!h->data) {
		html_drop(h);
		return -ENOMEM;
	}
	print_between(h->page, NULL, mark_css);
	fputs(html_asset_css(), h->page);
	print_between(h->page, mark_css, mark_data);
	fprintf(h->data, "{\"schema\":1,\"command\":\"%s\",\"version\":\"%s\"",
		command, GPUTRACE_VERSION);
	return 0;
}

void html_key(struct html *h, const char *key)
{
	fprintf(h->data, ",\n\"%s\":", key);
}

int html_close(struct html *h)
{
	bool is_bad;

	errno = 0;
	fputs("}\n", h->data);
	is_bad = fclose(h->data);
	h->data = NULL;
	print_between(h->page, mark_data, mark_js);
	fputs(html_asset_js(), h->page);
	print_between(h->page, mark_js, NULL);
	is_bad |= fflush(h->page) || ferror(h->page);
	if (is_bad) {
		int err = errno ? -errno : -EIO;

		html_drop(h);
		return err;
	}
	fclose(h->page);
	return h->is_stdout ? 0 : draft_keep(&h->draft);
}

void html_drop(struct html *h)
{
	if (h->data)
		fclose(h->data);
	fclose(h->page);
	if (!h->is_stdout)
		draft_drop(&h->draft);
}

int html_complain(const char *path, int err)
{
	return complain("%s: cannot write the page: %s", path,
			err == -EINVAL ? "there is something that is not a "
			"file" : strerror(-err));
}

/* By its first bytes: JSON, behind a byte order mark and white space as the
 * PyTorch profiler writes it, or gzip. */
static bool is_trace(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char head[256] = "", *at = head;
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, head, sizeof(head) - 1);
	close(fd);
	if (n > 0 && !strncmp(at, "\xef\xbb\xbf", 3))
		at += 3;
	at += strspn(at, " \t\r\n");
	return n > 0 && (*at == '{' || *at == '[' ||
			 !strncmp(head, "\x1f\x8b", 2));
}

bool html_replaces(const char *path, char **files)
{
	struct stat out, in;

	if (!strcmp(path, "-") || stat(path, &out) || !S_ISREG(out.st_mode))
		return false;
	for (; *files; files++)
		if (!stat(*files, &in) && in.st_dev == out.st_dev &&
		    in.st_ino == out.st_ino)
			return true;
	return is_trace(path);
}

int html_diagnose(struct html *h, char **files)
{
	struct diagnosis d = { .limits = default_limits };
	struct trace_problem problem = { .has_offset = false };
	int err = 0, status = STATUS_DONE;

	model_init(&d.m);
	for (; !status && *files; files++)
		if (model_add_file(&d.m, *files, &problem))
			status = complain_file(*files, &problem);
	if (!status)
		model_finish(&d.m);
	if (!status && (d.m.no_memory || diagnose(&d, NULL)))
		err = -ENOMEM;
	if (!status && !err) {
		html_key(h, "diagnosis");
		diagnose_print(&d, h->data, true);
		html_key(h, "series");
		err = series_print(&d.m, h->data);
	}
	if (err)
		status = complain("out of memory");
	diagnose_fini(&d);
	return status;
}
