/* SPDX-License-Identifier: MIT */
#include "tools/table.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/plain.h"
#include "tools/utf8.h"

enum {
	MAX_COLUMNS = 32,
	NAME_WIDTH = 72,        /* 12 numbers of a kernel row fit beside it */
	CELL_SIZE = 48,
};

int table_format(const char *name)
{
	static const char *const names[] = { "table", "csv", "json" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

/* 1234567 -> 1,234,567 */
static int group_digits(char *to, size_t size, int64_t n)
{
	char plain[CELL_SIZE];
	int len = snprintf(plain, sizeof(plain), "%" PRId64, n), out = 0;

	for (int i = 0; i < len && out < (int)size - 2; i++) {
		to[out++] = plain[i];
		if (plain[i] != '-' && i + 1 < len && (len - i) % 3 == 1)
			to[out++] = ',';
	}
	to[out] = '\0';
	return out;
}

/* A number as text; tables group its digits, CSV and JSON do not. */
static void format_number(char *to, size_t size, enum table_format format,
			  enum cell_kind kind, int64_t n)
{
	int len;

	if (kind == CELL_SHARE && n < 0) {
		*to = '-';
		format_number(to + 1, size - 1, format, kind, -n);
	} else if (kind == CELL_SHARE && format == FORMAT_JSON) {
		snprintf(to, size, "%" PRId64 ".%06" PRId64,
			 n / CELL_SHARE_ONE, n % CELL_SHARE_ONE);
	} else if (kind == CELL_SHARE) {
		n = (n + 500) / 1000;
		snprintf(to, size, "%" PRId64 ".%" PRId64, n / 10, n % 10);
	} else if (kind == CELL_MEAN) {
		snprintf(to, size, "%" PRId64 ".%02" PRId64, n / 100, n % 100);
	} else if (kind == CELL_BYTES && format != FORMAT_JSON) {
		n = n / 1000 + (n % 1000 >= 500);
		len = format == FORMAT_TABLE ?
			group_digits(to, size, n / 1000) :
			snprintf(to, size, "%" PRId64, n / 1000);
		snprintf(to + len, size - len, ".%03" PRId64, n % 1000);
	} else if (format == FORMAT_TABLE) {
		group_digits(to, size, n);
	} else {
		snprintf(to, size, "%" PRId64, n);
	}
}

/* Prints at most `most` characters of a text; to == NULL only counts them. */
static unsigned print_text(FILE *to, const char *text, unsigned most)
{
	size_t left = strlen(text);
	unsigned shown = 0, len;

	for (; left; text += len, left -= len) {
		len = utf8_char(text, left);
		if (!plain_is(text, len)) {
			len = 1;
			shown += 4;
			if (to && shown <= most)
				fprintf(to, "\\x%02x", (unsigned char)*text);
			continue;
		}
		if (++shown >= most && left > len) {
			if (to)
				fputs("\xe2\x80\xa6", to);
			return most;
		}
		if (to)
			fwrite(text, 1, len, to);
	}
	return shown;
}

static void print_csv_text(FILE *to, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, to);
		return;
	}
	putc('"', to);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', to);
		putc(*text, to);
	}
	putc('"', to);
}

void table_json_text(FILE *to, const char *text)
{
	putc('"', to);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			putc('\\', to);
		if (c < 0x20 || c == 0x7f)
			fprintf(to, "\\u%04x", c);
		else
			putc(c, to);
	}
	putc('"', to);
}

static bool is_used(const struct table_out *out, const struct column *c)
{
	return c->use & (out->format == FORMAT_JSON ? COLUMN_JSON :
			 COLUMN_TEXT);
}

static unsigned cell_width(const struct table_out *out,
			   const struct column *column, union cell cell)
{
	char text[CELL_SIZE];

	if (column->kind == CELL_TEXT)
		return print_text(NULL, cell.text,
				  out->wide ? UINT32_MAX : NAME_WIDTH);
	format_number(text, sizeof(text), out->format, column->kind, cell.n);
	return strlen(text);
}

static void print_cell(const struct table_out *out,
		       const struct column *column, union cell cell,
		       unsigned width, bool is_last)
{
	char text[CELL_SIZE];
	unsigned shown;

	if (column->kind != CELL_TEXT) {
		format_number(text, sizeof(text), out->format, column->kind,
			      cell.n);
		fprintf(out->to, "  %*s", width, text);
		return;
	}
	fputs("  ", out->to);
	shown = print_text(out->to, cell.text,
			   out->wide ? UINT32_MAX : NAME_WIDTH);
	if (!is_last)
		fprintf(out->to, "%*s", (int)(width - shown), "");
}

static void print_heads(const struct table_out *out, const struct table *t,
			const unsigned *width)
{
	for (size_t c = 0; c < t->nr_columns; c++) {
		const struct column *column = &t->columns[c];

		if (!is_used(out, column))
			continue;
		if (column->kind != CELL_TEXT)
			fprintf(out->to, "  %*s", width[c], column->title);
		else if (c + 1 < t->nr_columns)
			fprintf(out->to, "  %-*s", width[c], column->title);
		else
			fprintf(out->to, "  %s", column->title);
	}
	putc('\n', out->to);
}

static void print_table(struct table_out *out, const struct table *t)
{
	unsigned width[MAX_COLUMNS];

	for (size_t c = 0; c < t->nr_columns; c++)
		width[c] = strlen(t->columns[c].title);
	for (size_t i = 0; i < t->nr_rows * t->nr_columns; i++) {
		size_t c = i % t->nr_columns;
		unsigned w = cell_width(out, &t->columns[c], t->cells[i]);

		width[c] = w > width[c] ? w : width[c];
	}
	fprintf(out->to, "%s%s\n", out->nr_parts ? "\n" : "", t->title);
	print_heads(out, t, width);
	for (size_t r = 0; r < t->nr_rows; r++) {
		for (size_t c = 0; c < t->nr_columns; c++)
			if (is_used(out, &t->columns[c]))
				print_cell(out, &t->columns[c],
					   t->cells[r * t->nr_columns + c],
					   width[c], c + 1 == t->nr_columns);
		putc('\n', out->to);
	}
	if (t->nr_hidden)
		fprintf(out->to, "  ... and %zu more\n", t->nr_hidden);
}

static void print_csv(struct table_out *out, const struct table *t)
{
	const char *comma = "";
	char text[CELL_SIZE];

	if (!out->bare)
		fprintf(out->to, "%s# %s\n", out->nr_parts ? "\n" : "",
			t->key);
	for (size_t c = 0; c < t->nr_columns; c++) {
		if (!is_used(out, &t->columns[c]))
			continue;
		fprintf(out->to, "%s%s", comma, t->columns[c].title);
		comma = ",";
	}
	for (size_t i = 0; i < t->nr_rows * t->nr_columns; i++) {
		const struct column *column = &t->columns[i % t->nr_columns];

		if (i % t->nr_columns == 0)
			comma = "\n";
		if (!is_used(out, column))
			continue;
		fputs(comma, out->to);
		comma = ",";
		if (column->kind == CELL_TEXT) {
			print_csv_text(out->to, t->cells[i].text);
			continue;
		}
		format_number(text, sizeof(text), FORMAT_CSV, column->kind,
			      t->cells[i].n);
		fputs(text, out->to);
	}
	putc('\n', out->to);
}

static void print_json_row(struct table_out *out, const struct table *t,
			   const union cell *cells)
{
	const char *comma = "{";
	char text[CELL_SIZE];

	for (size_t c = 0; c < t->nr_columns; c++) {
		const struct column *column = &t->columns[c];

		if (!is_used(out, column))
			continue;
		fprintf(out->to, "%s\"%s\":", comma, column->key);
		comma = ",";
		if (column->kind == CELL_TEXT) {
			table_json_text(out->to, cells[c].text);
			continue;
		}
		format_number(text, sizeof(text), FORMAT_JSON, column->kind,
			      cells[c].n);
		fputs(text, out->to);
	}
	putc('}', out->to);
}

static void print_json(struct table_out *out, const struct table *t)
{
	fprintf(out->to, ",\n\"%s\":[", t->key);
	for (size_t r = 0; r < t->nr_rows; r++) {
		fputs(r ? ",\n" : "\n", out->to);
		print_json_row(out, t, t->cells + r * t->nr_columns);
	}
	putc(']', out->to);
}

void table_rows(struct table_out *out, const struct table *t)
{
	if (out->format == FORMAT_JSON) {
		if (t->use & COLUMN_JSON)
			print_json(out, t);
	} else if (!(t->use & COLUMN_TEXT)) {
		return;
	} else if (out->format == FORMAT_CSV) {
		print_csv(out, t);
	} else {
		print_table(out, t);
	}
	out->nr_parts++;
}

static void print_fact(struct table_out *out, const struct fact *f)
{
	char text[CELL_SIZE];

	if (f->text) {
		fprintf(out->to, "  %-20s %s\n", f->title, f->sentence);
		return;
	}
	if (f->kind == CELL_TEXT) {
		fprintf(out->to, "  %-20s", f->title);
		for (size_t i = 0; i < f->nr_list; i++) {
			fputs(i ? ", " : " ", out->to);
			print_text(out->to, f->list[i].name, NAME_WIDTH);
			fprintf(out->to, " %" PRId64, f->list[i].n);
		}
		fputs(f->nr_list ? "\n" : " none\n", out->to);
		return;
	}
	group_digits(text, sizeof(text), f->n);
	fprintf(out->to, "  %-20s %20s%s", f->title, text,
		f->kind == CELL_NS ? " ns" : "");
	if (f->whole > 0) {
		format_number(text, sizeof(text), FORMAT_TABLE, CELL_SHARE,
			      (__int128)f->n * CELL_SHARE_ONE / f->whole);
		fprintf(out->to, " %6s %%", text);
	}
	putc('\n', out->to);
}

static void print_json_fact(struct table_out *out, const struct fact *f)
{
	if (f->kind != CELL_TEXT) {
		fprintf(out->to, "\"%s\":%" PRId64, f->key, f->n);
		return;
	}
	if (f->text) {
		fprintf(out->to, "\"%s\":", f->key);
		table_json_text(out->to, f->text);
		return;
	}
	fprintf(out->to, "\"%s\":{", f->key);
	for (size_t i = 0; i < f->nr_list; i++) {
		fputs(i ? "," : "", out->to);
		table_json_text(out->to, f->list[i].name);
		fprintf(out->to, ":%" PRId64, f->list[i].n);
	}
	putc('}', out->to);
}

static void print_csv_fact(struct table_out *out, const struct fact *f)
{
	if (f->kind != CELL_TEXT)
		fprintf(out->to, "%s,%" PRId64 "\n", f->key, f->n);
	else if (f->text)
		fprintf(out->to, "%s,%s\n", f->key, f->text);
	for (size_t i = 0; f->kind == CELL_TEXT && i < f->nr_list; i++) {
		fprintf(out->to, "%s.", f->key);
		print_csv_text(out->to, f->list[i].name);
		fprintf(out->to, ",%" PRId64 "\n", f->list[i].n);
	}
}

void table_facts(struct table_out *out, const char *title, const char *key,
		 const struct fact *facts, size_t nr)
{
	if (out->format == FORMAT_JSON)
		fprintf(out->to, ",\n\"%s\":{", key);
	else if (out->format == FORMAT_CSV)
		fprintf(out->to, "# %s\nkey,value\n", key);
	else
		fprintf(out->to, "%s%s\n", out->nr_parts ? "\n" : "", title);
	for (size_t i = 0; i < nr; i++) {
		if (out->format == FORMAT_TABLE) {
			print_fact(out, &facts[i]);
		} else if (out->format == FORMAT_CSV) {
			print_csv_fact(out, &facts[i]);
		} else {
			fputs(i ? "," : "", out->to);
			print_json_fact(out, &facts[i]);
		}
	}
	if (out->format == FORMAT_JSON)
		putc('}', out->to);
	out->nr_parts++;
}

void table_begin(struct table_out *out)
{
	out->nr_parts = 0;
	if (out->format == FORMAT_JSON)
		fputs("{\"schema\":1", out->to);
}

int table_end(struct table_out *out)
{
	if (out->format == FORMAT_JSON)
		fputs("}\n", out->to);
	errno = 0;
	if (fflush(out->to) || ferror(out->to))
		return errno ? -errno : -EIO;
	return 0;
}
