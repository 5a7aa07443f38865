/* SPDX-License-Identifier: MIT */
#include "collector/sample_signal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/stack_fill.h"
#include "collector/window.h"

/* What the handler may need, of which 3 KiB are its own. */
#define HANDLER_STACK 6144

/* glibc's headers of before 2.34 hide this part of the structure. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int number;              /* of the signal; 0: none */
static uintptr_t slots_from, slots_to;

/* Periods that were over before the signal came are told with it. */
static void write_sample(struct sample_slot *slot, const ucontext_t *context,
			 uint32_t nr_periods)
{
	struct unwind_frame frame;
	struct stack_record *record = ring_reserve(slot->ring,
						   STACK_RECORD_MAX);
	uint32_t size;

	if (!record)
		return;
	unwind_interrupted(&frame, context);
	size = stack_fill(record, &frame);
	record->head.t_ns = clock_now_ns();
	record->tid = atomic_load_explicit(&slot->tid, memory_order_relaxed);
	record->correlation = nr_periods;
	record->of = STACK_SAMPLE;
	ring_shorten(slot->ring, STACK_RECORD_MAX - size);
	ring_commit(slot->ring);
}

/* On the stack for signals that the program gave the thread, there may be
 * little left. */
static bool has_room(const ucontext_t *context)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t lowest = (uintptr_t)context->uc_stack.ss_sp;

	return context->uc_stack.ss_flags & SS_DISABLE ||
		here - lowest >= context->uc_stack.ss_size ||
		here - lowest >= HANDLER_STACK;
}

/* The program's timers can send it, too, with any value. */
static bool is_our_timers(const siginfo_t *why)
{
	uintptr_t slot = (uintptr_t)why->si_value.sival_ptr;

	return why->si_code == SI_TIMER && slot >= slots_from &&
		slot < slots_to;
}

/* Not our timer's: what the system does with a signal that nobody handles. */
static void do_default(void)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };

	if (number == SIGURG)           /* nothing */
		return;
	sigaction(number, &plain, NULL);
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

/* One that was meant for a thread that has ended since can come to the next
 * with its number: it is sampled once too often. */
static void on_signal(int signal_number, siginfo_t *why, void *context)
{
	struct sample_slot *slot = why->si_value.sival_ptr;
	int saved = errno;

	(void)signal_number;
	if (!is_our_timers(why))
		do_default();
	else if (window_is_open(window_epoch()) && has_room(context) &&
		 atomic_load_explicit(&slot->tid, memory_order_acquire) ==
		 (uint32_t)syscall(SYS_gettid))
		write_sample(slot, context, 1 + (uint32_t)why->si_overrun);
	errno = saved;
}

static bool is_free(int signal_number)
{
	struct sigaction now;

	return !sigaction(signal_number, NULL, &now) &&
		!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

int sample_signal_take(const void *slots, size_t size)
{
	/* Go's threads have small stacks, and another one for signals. */
	struct sigaction ours = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK,
	};

	slots_from = (uintptr_t)slots;
	slots_to = slots_from + size;
	sigfillset(&ours.sa_mask);
	number = is_free(SIGURG) ? SIGURG : SIGRTMAX;
	while (number >= SIGRTMIN && !is_free(number))
		number--;
	if ((number == SIGURG || number >= SIGRTMIN) &&
	    !sigaction(number, &ours, NULL))
		return 0;
	number = 0;
	log_line(LOG_WARN, "stacks: no samples: the program uses SIGURG and "
		 "all real-time signals itself");
	return -EBUSY;
}

int sample_signal(void)
{
	return number;
}

bool sample_signal_is_ours(void)
{
	struct sigaction now;

	return number && !sigaction(number, NULL, &now) &&
		now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal;
}

int sample_slot_start(struct sample_slot *slot, uint32_t tid, uint32_t hz)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number,
		.sigev_value = { .sival_ptr = slot },
	};
	struct itimerspec period = {
		.it_interval.tv_nsec = (long)(999999999 / hz),
	};

	period.it_value = period.it_interval;
	event.sigev_notify_thread_id = (int)tid;
	if (syscall(SYS_timer_create, SAMPLE_CLOCK_OF(tid), &event,
		    &slot->timer))
		return errno == EAGAIN ? -EAGAIN : -ESRCH;
	/* Pairs with the load in on_signal(). */
	atomic_store_explicit(&slot->tid, tid, memory_order_release);
	if (!syscall(SYS_timer_settime, slot->timer, 0, &period, NULL))
		return 0;
	sample_slot_stop(slot);
	return -ESRCH;
}

void sample_slot_stop(struct sample_slot *slot)
{
	syscall(SYS_timer_delete, slot->timer);
	atomic_store(&slot->tid, 0);
}

void sample_signal_forget(void)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };

	if (sample_signal_is_ours())
		(void)sigaction(number, &plain, NULL);
	number = 0;
}
