/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a library call as text, against the C library's printf;
 * what does not fit is left out whole.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/library_call.h"
#include "test/check.h"

static bool is(const struct call_args *args, const char *text)
{
	return args->len == strlen(text) &&
		!memcmp(args->text, text, args->len);
}

/* Around each power of ten and of two. */
static void test_numbers(void)
{
	uint64_t power[2] = { 1, 1 };
	int i, j, k;

	for (i = 0; i < 64; i++) {
		for (j = 0; j < 2; j++)
			for (k = -1; k < 2; k++) {
				struct call_args args = { .len = 0 };
				char text[64];

				snprintf(text, sizeof text, ",\"m\":%" PRIu64,
					 power[j] + k);
				call_args_number(&args, CALL_KEY("m"),
						 power[j] + k);
				CHECK(is(&args, text));
			}
		power[0] = power[0] > UINT64_MAX / 10 ? 1 : power[0] * 10;
		power[1] *= 2;
	}
}

static void test_others(void)
{
	static const struct call_word word = CALL_WORD("R_8F_E4M3");
	const int values[] = { 0, 7, -1, INT32_MAX, INT32_MIN };
	struct call_args args = { .len = 0 };

	call_args_word(&args, CALL_KEY("A type"), &word);
	call_args_pointer(&args, CALL_KEY("comm"), (void *)0x7f00dead0);
	call_args_list(&args, CALL_KEY("x"), values, 5);
	call_args_pointer(&args, CALL_KEY("p"), NULL);
	call_args_list(&args, CALL_KEY("y"), values, 0);
	CHECK(is(&args, ",\"A type\":\"R_8F_E4M3\",\"comm\":\"0x7f00dead0\","
		 "\"x\":[0,7,-1,2147483647,-2147483648],\"p\":\"0x0\","
		 "\"y\":[]"));
}

/* Members are whole or not there, whatever fills the room before. */
static void test_full(void)
{
	static const struct call_word word = CALL_WORD("word");
	const int values[8] = { 0 };
	char untouched[64];

	memset(untouched, 'x', sizeof untouched);
	for (uint32_t used = 0; used <= CALL_ARGS_MAX; used++) {
		struct {
			struct call_args args;
			char behind[64];
		} it;
		uint32_t len = used;

		memset(&it, 'x', sizeof it);
		it.args.len = used;
		call_args_number(&it.args, CALL_KEY("n"), UINT64_MAX);
		CHECK(it.args.len == len || it.args.len == len + 25);
		len = it.args.len;
		call_args_word(&it.args, CALL_KEY("w"), &word);
		CHECK(it.args.len == len || it.args.len == len + 11);
		len = it.args.len;
		call_args_pointer(&it.args, CALL_KEY("p"), (void *)-1l);
		CHECK(it.args.len == len || it.args.len == len + 25);
		len = it.args.len;
		call_args_list(&it.args, CALL_KEY("l"), values, 8);
		CHECK(it.args.len == len || it.args.len == len + 22);
		CHECK(it.args.len <= CALL_ARGS_MAX);
		CHECK(!memcmp(it.behind, untouched, sizeof untouched));
	}
}

static void test_product(void)
{
	const int64_t good[] = { 2, 5000000000, 3, 2, 6 }, none[] = { 4, 0 };
	const int64_t large[] = { INT64_MAX, 2 }, larger[] = { INT64_MAX, 3 };
	const int64_t negative[] = { 2, -1, 0 };
	uint64_t n;

	CHECK(call_product(&n, good, 5) && n == 360000000000);
	CHECK(call_product(&n, none, 2) && n == 0);
	CHECK(call_product(&n, large, 2) && n == UINT64_MAX - 1);
	CHECK(!call_product(&n, larger, 2));
	CHECK(!call_product(&n, negative, 3));
}

int main(void)
{
	test_numbers();
	test_others();
	test_full();
	test_product();
	return check_result();
}
