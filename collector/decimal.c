/* SPDX-License-Identifier: MIT */
#include "collector/decimal.h"

#include <string.h>

/* Two digits at a time. */
static const char pairs[] =
	"00010203040506070809101112131415161718192021222324"
	"25262728293031323334353637383940414243444546474849"
	"50515253545556575859606162636465666768697071727374"
	"75767778798081828384858687888990919293949596979899";

uint32_t decimal_put(char *at, uint64_t value)
{
	char digits[DECIMAL_MAX];
	char *first = digits + sizeof digits;
	uint32_t len;

	for (; value >= 100; value /= 100)
		memcpy(first -= 2, pairs + value % 100 * 2, 2);
	if (value >= 10)
		memcpy(first -= 2, pairs + value * 2, 2);
	else
		*--first = (char)('0' + value);
	len = (uint32_t)(digits + sizeof digits - first);
	for (uint32_t i = 0; i < len; i++)
		at[i] = first[i];
	return len;
}
