/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_TABLE_H
#define GPUTRACE_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Results on stdout, in one of three forms.  This is the only place that
 * prints tables and CSV; JSON of another shape is printed by doctor,
 * diagnose and series themselves:
 *
 *      table_begin()
 *      table_facts()   one block of single values, as often as wanted
 *      table_rows()    one table
 *      table_end()     0, or -errno if the output could not be written
 *
 * Text for people shows control characters as \xNN (a name in a trace is not
 * to be trusted with a terminal) and cuts long names; CSV and JSON are whole.
 */
enum table_format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

enum cell_kind {
	CELL_TEXT,
	CELL_COUNT,
	CELL_NS,
	CELL_SHARE,     /* millionths; "(%)" in text, a fraction in JSON */
	CELL_MEAN,      /* hundredths of what is counted */
	CELL_BYTES,     /* MB (10^6) in text, bytes in JSON */
};
enum { CELL_SHARE_ONE = 1000000 };

enum column_use {
	COLUMN_TEXT = 1,        /* in tables and CSV */
	COLUMN_JSON = 2,
	COLUMN_BOTH = 3,
};

struct column {
	const char *title;      /* "Total Time (ns)" */
	const char *key;        /* "total_ns" */
	enum cell_kind kind;
	enum column_use use;
};

union cell {
	int64_t n;
	const char *text;       /* valid UTF-8 */
};

struct table {
	const char *title;      /* for people */
	const char *key;        /* of the array in JSON */
	const struct column *columns;
	size_t nr_columns;
	union cell *cells;      /* row after row */
	size_t nr_rows;
	size_t nr_hidden;       /* rows that --top leaves out */
	enum column_use use;    /* formats that have the table at all */
};

struct fact {
	const char *title, *key;
	enum cell_kind kind;    /* CELL_TEXT: the text, or the list */
	int64_t n;
	int64_t whole;          /* show n as part of it; 0: do not */
	const struct named_count {
		const char *name;
		int64_t n;
	} *list;                /* an object in JSON instead of n */
	size_t nr_list;
	const char *text;       /* a string in JSON */
	const char *sentence;   /* ... and what people read instead */
};

struct table_out {
	FILE *to;
	enum table_format format;
	bool wide;              /* do not cut names */
	bool bare;              /* CSV of one table: no title lines */
	unsigned nr_parts;
};

void table_begin(struct table_out *out);
void table_facts(struct table_out *out, const char *title, const char *key,
		 const struct fact *facts, size_t nr);
void table_rows(struct table_out *out, const struct table *t);
int table_end(struct table_out *out);

/* A string of JSON, quotes and all, for what is no table. */
void table_json_text(FILE *to, const char *text);

/* Parses the name of a format; returns -1 if it is none. */
int table_format(const char *name);

#endif
