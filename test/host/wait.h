/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_HOST_WAIT_H
#define GPUTRACE_TEST_HOST_WAIT_H

/* For programs whose threads wait for one another. */

/* All of it, whatever interrupts. */
void sleep_ms(long ms);

/* On a thread that nobody joins; ends the program where there is none. */
void start(void *(*run)(void *), void *argument);

#endif
