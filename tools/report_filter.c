/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tools/report.h"

/* What --filter says. */
static const struct unit {
	const char *name;
	int power;              /* of ten, ns */
} units[] = { { "ns", 0 }, { "us", 3 }, { "ms", 6 }, { "s", 9 } };

/* "1.5ms" to ns, exactly; text ends at len. */
static bool parse_time(const char *text, size_t len, int64_t *ns)
{
	size_t digits = strspn(text, "0123456789.");
	struct json_value number = {
		.text = text, .len = digits, .type = JSON_NUMBER,
	};

	if (!digits || digits > len || text[0] == '.' ||
	    text[digits - 1] == '.' || memchr(text, '.', digits) !=
	    memrchr(text, '.', digits))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strlen(units[i].name) == len - digits &&
		    !memcmp(units[i].name, text + digits, len - digits))
			return jsonval_scaled(&number, units[i].power, ns);
	return false;
}

/* FROM..TO, of which either may be left out. */
static bool parse_window(const char *text, struct report_select *select)
{
	const char *dots = strstr(text, ".."), *to = dots + 2;

	if (!dots || (dots == text && !*to))
		return false;
	select->has_from = dots != text;
	select->has_to = *to;
	if (select->has_from &&
	    !parse_time(text, dots - text, &select->from_ns))
		return false;
	if (select->has_to && !parse_time(to, strlen(to), &select->to_ns))
		return false;
	return !select->has_from || !select->has_to ||
		select->from_ns < select->to_ns;
}

static bool parse_number(const char *text, int64_t *n)
{
	struct json_value number = {
		.text = text, .len = strlen(text), .type = JSON_NUMBER,
	};

	return *text && strspn(text, "0123456789") == number.len &&
		jsonval_int(&number, n);
}

/* What stands behind "KEY=", or NULL. */
static const char *behind(const char *text, const char *key)
{
	size_t len = strlen(key);

	return strncmp(text, key, len) ? NULL : text + len;
}

bool report_filter(const char *text, struct report_select *select,
		   const char **name)
{
	const char *value;

	if ((value = behind(text, "time=")))
		return parse_window(value, select);
	if ((value = behind(text, "device=")))
		return select->has_device = parse_number(value,
							 &select->device);
	if ((value = behind(text, "stream=")))
		return select->has_stream = parse_number(value,
							 &select->stream);
	if ((value = behind(text, "range="))) {
		select->range = value;
		return *value;
	}
	value = behind(text, "name=");
	*name = value ? value : text;
	return true;
}
