/* SPDX-License-Identifier: MIT */
#include "inject/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "collector/log.h"
#include "inject/timer.h"

enum { NR_SIGNALS = 65 };       /* 1 to 64 */

static _Atomic uint32_t wishes_of[NR_SIGNALS];

/* errno is kept by timer_ask(). */
static void note(int number)
{
	timer_ask(atomic_load(&wishes_of[number]));
}

void signals_install(int number, uint32_t wishes, const char *setting)
{
	/* Go's threads have small stacks, and another one for signals. */
	struct sigaction before, ours = {
		.sa_handler = note, .sa_flags = SA_RESTART | SA_ONSTACK,
	};

	if (!number)
		return;
	sigfillset(&ours.sa_mask);
	atomic_store(&wishes_of[number], wishes);
	if (sigaction(number, NULL, &before) ||
	    before.sa_flags & SA_SIGINFO || before.sa_handler != SIG_DFL ||
	    sigaction(number, &ours, NULL)) {
		atomic_store(&wishes_of[number], 0);
		log_line(LOG_WARN, "%s does nothing: the program uses signal "
			 "%d itself", setting, number);
	}
}

void signals_forget(void)
{
	struct sigaction now, plain = { .sa_handler = SIG_DFL };

	for (int i = 1; i < NR_SIGNALS; i++)
		if (atomic_exchange(&wishes_of[i], 0) &&
		    !sigaction(i, NULL, &now) &&
		    !(now.sa_flags & SA_SIGINFO) && now.sa_handler == note)
			(void)sigaction(i, &plain, NULL);
}
