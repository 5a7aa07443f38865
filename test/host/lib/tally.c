/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "test/host/tally.h"

static struct tally *_Atomic tallies;

static void list(struct tally *tally)
{
	if (atomic_flag_test_and_set(&tally->listed))
		return;
	tally->next = atomic_load(&tallies);
	while (!atomic_compare_exchange_weak(&tallies, &tally->next, tally))
		;
}

void tally_add(struct tally *tally, long n)
{
	atomic_fetch_add(&tally->count, n);
	list(tally);
}

/* True if an earlier place in the list has the same section (and name). */
static bool seen_before(const struct tally *tally, bool name_too)
{
	const struct tally *t;

	for (t = tallies; t != tally; t = t->next) {
		if (strcmp(t->section, tally->section))
			continue;
		if (!name_too || !strcmp(t->name, tally->name))
			return true;
	}
	return false;
}

static long total(const struct tally *tally)
{
	const struct tally *t;
	long sum = 0;

	for (t = tallies; t; t = t->next)
		if (!strcmp(t->section, tally->section) &&
		    !strcmp(t->name, tally->name))
			sum += t->count;
	return sum;
}

static void print_section(const char *section)
{
	const struct tally *t;
	const char *comma = "";

	printf("\"%s\": {", section);
	for (t = tallies; t; t = t->next) {
		if (strcmp(t->section, section) || seen_before(t, true))
			continue;
		printf("%s\"%s\": %ld", comma, t->name, total(t));
		comma = ", ";
	}
	printf("}");
}

void tally_print(void)
{
	const struct tally *t;
	const char *comma = "";

	printf("{");
	for (t = tallies; t; t = t->next) {
		if (seen_before(t, false))
			continue;
		printf("%s", comma);
		print_section(t->section);
		comma = ", ";
	}
	printf("}\n");
	fflush(stdout);
}
