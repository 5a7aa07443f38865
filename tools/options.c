/* SPDX-License-Identifier: MIT */
#include "tools/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gputrace.h"

int options_usage(const struct options *o, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "gputrace %s: ", o->command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nTry 'gputrace %s --help'.\n", o->command);
	return 2;
}

int options_bad_value(const struct options *o, int option)
{
	const struct option_spec *s = &o->specs[option];
	char help[256];

	snprintf(help, sizeof(help), "%s", s->help);
	for (char *at = help; (at = strchr(at, '\n')); )
		*at = ' ';
	return options_usage(o, "--%s '%s' is not possible; --%s %s: %s",
			     s->name, o->value, s->name, s->value, help);
}

static void print_option(const struct option_spec *s)
{
	const char *at = s->help, *end;
	int n = s->letter ? printf("  -%c, --%s", s->letter, s->name) :
		printf("      --%s", s->name);

	if (s->value)
		n += printf(" %s", s->value);
	if (n > OPTIONS_HELP_COLUMN - 2)
		n = printf("\n") - 1;
	for (; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, '\n');
		printf("%*s%.*s\n", OPTIONS_HELP_COLUMN - n, "",
		       (int)(end - at), at);
		n = 0;
	}
}

static int print_help(const struct options *o)
{
	static const struct option_spec help = {
		"help", 'h', NULL, "print this text",
	};

	printf("usage: gputrace %s %s\n\n%s\n\n", o->command, o->usage,
	       o->about);
	for (size_t i = 0; i < o->nr; i++)
		print_option(&o->specs[i]);
	print_option(&help);
	return OPTIONS_HELP;
}

static int bad(const struct options *o, const char *why, const char *option,
	       int len)
{
	options_usage(o, "%s: %.*s", why, len, option);
	return OPTIONS_BAD;
}

/* Gives spec i its value: what follows in the same word, or the next word. */
static int take(struct options *o, size_t i, const char *attached,
		const char *word, int len)
{
	o->value = NULL;
	if (!o->specs[i].value)
		return attached ? bad(o, "this option has no value", word, len)
			: (int)i;
	o->value = attached ? attached : o->argv[o->at];
	if (!o->value)
		return bad(o, "a value is missing", word, len);
	o->at += !attached;
	return i;
}

static int next_long(struct options *o, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);

	for (size_t i = 0; i < o->nr; i++)
		if (strlen(o->specs[i].name) == len &&
		    !memcmp(o->specs[i].name, name, len))
			return take(o, i, equals ? equals + 1 : NULL, word,
				    len + 2);
	if (!strcmp(name, "help"))
		return print_help(o);
	return bad(o, "unknown option", word, len + 2);
}

static int next_letter(struct options *o)
{
	const char *letter = o->bundle++;
	char word[] = { '-', *letter, '\0' };
	const char *attached;

	for (size_t i = 0; i < o->nr; i++) {
		if (o->specs[i].letter != *letter)
			continue;
		attached = o->specs[i].value && *o->bundle ? o->bundle : NULL;
		if (attached)
			o->bundle = "";
		return take(o, i, attached, word, 2);
	}
	if (*letter == 'h')
		return print_help(o);
	return bad(o, "unknown option", word, 2);
}

static int end(struct options *o)
{
	while (o->at < o->argc)
		o->argv[++o->nr_operands] = o->argv[o->at++];
	/* argv has a NULL of its own behind argc */
	o->argv[o->nr_operands + 1] = NULL;
	return OPTIONS_END;
}

int options_next(struct options *o)
{
	char *word;

	if (!o->at)
		o->at = 1;
	if (o->bundle && *o->bundle)
		return next_letter(o);
	while (o->at < o->argc) {
		word = o->argv[o->at];
		if (word[0] != '-' || !word[1]) {
			if (o->operands_end)
				break;
			o->argv[++o->nr_operands] = word;
			o->at++;
			continue;
		}
		o->at++;
		if (!strcmp(word, "--"))
			break;
		if (word[1] == '-')
			return next_long(o, word);
		o->bundle = word + 1;
		return next_letter(o);
	}
	return end(o);
}

int options_status(const struct options *o, int option, const char *operand)
{
	if (option == OPTIONS_HELP)
		return 0;
	if (option == OPTIONS_BAD)
		return 2;
	if (operand && !o->nr_operands)
		return options_usage(o, "which %s?", operand);
	return -1;
}

long options_number(const char *text, long max)
{
	char *end;
	long n = strtol(text, &end, 10);

	return *text < '0' || *text > '9' || *end || n > max ? -1 : n;
}

long *options_pids(const struct options *o, int *status)
{
	long *pids = calloc((size_t)o->nr_operands + 1, sizeof(*pids));

	*status = pids ? STATUS_DONE : complain("out of memory");
	for (int i = 0; pids && i < o->nr_operands; i++) {
		pids[i] = options_number(o->argv[i + 1], OPTIONS_PID_MAX);
		if (pids[i] > 0)
			continue;
		*status = options_usage(o, "not a PID: %s", o->argv[i + 1]);
		free(pids);
		pids = NULL;
	}
	return pids;
}
