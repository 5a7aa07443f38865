/* SPDX-License-Identifier: MIT */
#include <ctype.h>

#include "writer/names.h"

/*
 * Shortens a demangled function to what a person calls it.
 *
 *   void ns::f<8, ns::A<b::C>, std::array<char*, 3ul> >(int, ns::D)
 *        -> f<8, A<C>, array<char*, 3>>
 *   ns::f(ns::T&)::{lambda()#2}::operator()() const::{lambda(b::C)#1}
 *        -> f::lambda(C)
 *
 * Return type, parameters and namespaces go; template arguments stay, each
 * shortened the same way.  Of a type inside a function the function's name
 * stays, since that is what tells lambdas apart for a reader.
 */
enum {
	/* Longer shorts are cut: a label in a viewer holds less. */
	SHORT_MAX = 120,
	DEPTH_MAX = 64,
};

struct reader {
	const char *at, *end;
	struct bytes *out;
	int depth;
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '~' ||
	       c == '.' || (unsigned char)c >= 0x80;
}

static bool starts(const struct reader *in, const char *text)
{
	size_t len = strlen(text);

	return (size_t)(in->end - in->at) >= len &&
	       !memcmp(in->at, text, len);
}

/* The end of the bracket that opens at `at`; `end` if it never closes. */
static const char *skip_group(const char *at, const char *end)
{
	char open = *at;
	char close = open == '(' ? ')' : open == '<' ? '>' :
		     open == '{' ? '}' : ']';
	int depth = 0;

	for (; at < end; at++) {
		if (*at == open)
			depth++;
		else if (*at == close && !(close == '>' && at[-1] == '-') &&
			 !--depth)
			return at + 1;
		else if (open == '<' && (*at == '(' || *at == '{'))
			at = skip_group(at, end) - 1;
	}
	return end;
}

static void shorten_list(struct reader *in, const char *end);

static void add(struct reader *in, const char *text, size_t len)
{
	bytes_add(in->out, text, len);
}

/* <...> or (...), its content shortened. */
static void read_group(struct reader *in)
{
	const char *end = skip_group(in->at, in->end);
	char close = end > in->at + 1 ? end[-1] : 0;

	add(in, in->at++, 1);
	shorten_list(in, close ? end - 1 : end);
	if (in->out->len && close == '>' &&
	    in->out->data[in->out->len - 1] == ' ')
		in->out->len--;         /* "> >" is C++98 */
	in->at = end;
	if (close)
		add(in, &close, 1);
}

/* {lambda(b::C)#1} -> lambda(C); {unnamed type#1} -> unnamed type */
static void read_braced(struct reader *in)
{
	const char *end = skip_group(in->at, in->end);
	const char *group;

	in->at++;
	if (starts(in, "lambda(")) {
		in->at += 6;
		group = skip_group(in->at, end);
		add(in, "lambda", 6);
		if (group > in->at + 2)
			read_group(in);
	} else {
		while (in->at < end - 1 && *in->at != '#')
			add(in, in->at++, 1);
	}
	in->at = end;
}

/* operator(), operator<, operator new ...: up to its parameters. */
static void read_operator(struct reader *in)
{
	const char *from = in->at;

	in->at += 8;
	if (starts(in, "()"))
		in->at += 2;
	while (in->at < in->end && *in->at != '(')
		in->at++;
	add(in, from, (size_t)(in->at - from));
}

static void read_component(struct reader *in)
{
	if (starts(in, "(anonymous namespace)")) {
		add(in, in->at, 21);
		in->at += 21;
	} else if (*in->at == '{') {
		read_braced(in);
	} else if (starts(in, "operator") && !is_word(in->at[8])) {
		read_operator(in);
	} else {
		while (in->at < in->end && is_word(*in->at))
			add(in, in->at++, 1);
	}
	if (in->at < in->end && *in->at == '<')
		read_group(in);
}

/* Steps over "(int) const" if a local name follows: f(int) const::x */
static bool skip_parameters(struct reader *in)
{
	const char *at = in->at, *end;

	if (at >= in->end || *at != '(')
		return false;
	end = skip_group(at, in->end);
	if (in->end - end >= 6 && !memcmp(end, " const", 6))
		end += 6;
	if (in->end - end < 2 || memcmp(end, "::", 2))
		return false;
	in->at = end;
	return true;
}

/* a::b<c>::d: only the last part stays, and a function that it is in. */
static void read_path(struct reader *in)
{
	size_t from = in->out->len;
	bool is_operator, is_lambda;

	for (;;) {
		size_t part = in->out->len;

		is_operator = starts(in, "operator");
		is_lambda = *in->at == '{';
		read_component(in);
		if (skip_parameters(in)) {
			if (is_operator || is_lambda)
				bytes_cut(in->out, part);
			else
				add(in, "::", 2);
			if (!is_operator && !is_lambda && part > from)
				bytes_cut(in->out, in->out->len);
			from = in->out->len;
		} else if (!starts(in, "::")) {
			return;
		} else {
			bytes_cut(in->out, from);
		}
		in->at += 2;
		if (in->at >= in->end)
			return;
	}
}

/* 3ul -> 3 */
static void read_number(struct reader *in)
{
	while (in->at < in->end && isdigit((unsigned char)*in->at))
		add(in, in->at++, 1);
	while (in->at < in->end && (*in->at == 'u' || *in->at == 'l'))
		in->at++;
}

static void shorten_list(struct reader *in, const char *end)
{
	const char *outer_end = in->end;

	in->end = end;
	if (in->depth++ < DEPTH_MAX) {
		while (in->at < in->end) {
			if (isdigit((unsigned char)*in->at))
				read_number(in);
			else if (is_word(*in->at) || *in->at == '{' ||
				 starts(in, "(anonymous namespace)"))
				read_path(in);
			else if (*in->at == '(' || *in->at == '<')
				read_group(in);
			else
				add(in, in->at++, 1);
		}
	}
	in->depth--;
	in->at = in->end;
	in->end = outer_end;
}

/* Where the parameters of the outermost function begin: the last bracket on
 * the top level, but not one inside a local name. */
static const char *parameters_of(const char *full, const char *end)
{
	const char *at, *found = end;

	for (at = full; at < end;) {
		if (!strncmp(at, "operator()", 10)) {
			at += 10;
		} else if (!strncmp(at, "(anonymous namespace)", 21)) {
			at += 21;
		} else if (*at == '(') {
			found = at;
			at = skip_group(at, end);
			if (!strncmp(at, " const::", 8) ||
			    !strncmp(at, "::", 2))
				found = end;
		} else if (*at == '<' || *at == '{') {
			at = skip_group(at, end);
		} else {
			at++;
		}
	}
	return found;
}

/* Where the function's own name begins: behind the return type, if there is
 * one. */
static const char *name_of(const char *full, const char *end)
{
	const char *at, *name = full;

	for (at = full; at < end;) {
		if (*at == '<' || *at == '(' || *at == '{') {
			at = skip_group(at, end);
		} else if (*at == ' ' && strncmp(at, " const::", 8)) {
			name = ++at;
		} else {
			at++;
		}
	}
	return name;
}

/* _ZN2ns1fI...: a mangled name that could not be undone still has the
 * function's name in it. */
static bool shorten_mangled(const char *mangled, struct bytes *out)
{
	const char *at = mangled + 2, *name = NULL;
	size_t len = 0, name_len = 0, left = strlen(mangled);

	if (left < 3 || strncmp(mangled, "_Z", 2))
		return false;
	left -= 2;
	if (*at == 'N')
		at++, left--;
	while (isdigit((unsigned char)*at)) {
		for (len = 0; isdigit((unsigned char)*at) && len < left;
		     at++, left--)
			len = len * 10 + (size_t)(*at - '0');
		if (!len || len > left)
			break;
		name = at;
		name_len = len;
		at += len;
		left -= len;
	}
	if (name)
		bytes_add(out, name, name_len);
	return name;
}

/* Between two characters: at most three bytes belong to the one before. */
static void cut(struct bytes *out, size_t from)
{
	size_t len = from + SHORT_MAX - 3;

	if (out->len <= from + SHORT_MAX)
		return;
	while (len > from + SHORT_MAX - 6 &&
	       ((unsigned char)out->data[len] & 0xC0) == 0x80)
		len--;
	bytes_cut(out, len);
	bytes_add(out, "...", 3);
}

void name_shorten(const char *full, struct bytes *out)
{
	const char *end = full + strlen(full);
	struct reader in = { .out = out };
	size_t from = out->len;

	if (shorten_mangled(full, out)) {
		cut(out, from);
		return;
	}
	in.end = parameters_of(full, end);
	in.at = name_of(full, in.end);
	while (in.at < in.end) {
		if (is_word(*in.at) || *in.at == '{' || *in.at == '(')
			read_path(&in);
		if (in.at < in.end)
			add(&in, in.at++, 1);
	}
	if (out->len == from)
		bytes_add(out, full, (size_t)(end - full));
	cut(out, from);
}
