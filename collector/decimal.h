/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_DECIMAL_H
#define GPUTRACE_COLLECTOR_DECIMAL_H

#include <stdint.h>

/* The digits of UINT64_MAX. */
enum { DECIMAL_MAX = 20 };

/* Writes the digits, without a zero behind them; returns how many.  Without
 * the locale and the stack of printf.  Context: any thread, signal-safe. */
uint32_t decimal_put(char *at, uint64_t value);

#endif
