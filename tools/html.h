/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_HTML_H
#define GPUTRACE_TOOLS_HTML_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/draft.h"

/*
 * One self-contained page: tools/html/page.html with the style, the script and
 * the results as JSON in it.  It fetches nothing, and its own policy says so.
 *
 *      html_open()     the page up to {"schema":1,"command":...
 *      html_key()      ,"key": and then one JSON value, printed to h.data,
 *                      as often as wanted
 *      html_close()    }, the rest of the page; or html_drop()
 *
 * A name in a trace cannot end the block of data: what is printed to h.data
 * has '<' only inside of strings, and it arrives there as \u003c.  The script
 * puts text into the page as text, never as markup.
 */
struct html {
	FILE *page;
	FILE *data;             /* its block of data */
	bool is_stdout;         /* path was "-" */
	struct draft draft;     /* else: seen when it is whole */
};

/* 0 or -errno, then nothing is open; -EINVAL: there is something at the path
 * that is not a file. */
int html_open(struct html *h, const char *path, const char *command);
void html_key(struct html *h, const char *key);
int html_close(struct html *h);
void html_drop(struct html *h);

/* "gputrace: ... cannot be written: ..."; returns STATUS_COULD_NOT. */
int html_complain(const char *path, int err);

/* Would the page replace one of the files (NULL at the end), or another trace?
 * `report --html A B` may be meant as a page of both. */
bool html_replaces(const char *path, char **files);

/* The keys "diagnosis" (as `diagnose --format json` prints it) and "series"
 * (tools/series.h) of trace files.  Returns an exit status. */
int html_diagnose(struct html *h, char **files);

#endif
