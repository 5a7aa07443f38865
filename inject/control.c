/* SPDX-License-Identifier: MIT */
#include "inject/control.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/own_thread.h"
#include "collector/wait.h"
#include "inject/control_client.h"
#include "inject/control_folder.h"
#include "inject/control_peer.h"
#include "inject/control_place.h"
#include "inject/control_work.h"
#include "writer/writer.h"

#define NS_PER_MS UINT64_C(1000000)

enum {
	/* Commands and connections that are served in each 10 ms: some 1 % of
	 * a core, however many are sent. */
	SERVED_MAX = 16, SERVED_MS = 10,
	/* poll() that fails, again and again: there is nothing to be done. */
	FAILURES_MAX = 100,
};

static char socket_path[PATH_MAX];
static int listener = -1;
static uint64_t identity;               /* of the listener: peer_identity() */
static _Atomic uint32_t is_ending, has_path;
static struct {
	uint64_t since_ns;
	int served;
} pace;

static void nap(uint64_t ns)
{
	wait_change(&is_ending, 0, ns);
}

/* One more was served; sleeps when there have been too many. */
static void keep_pace(int more)
{
	uint64_t now_ns = clock_now_ns(), until_ns;

	until_ns = pace.since_ns + SERVED_MS * NS_PER_MS;
	pace.served += more;
	if (now_ns < until_ns && pace.served < SERVED_MAX)
		return;
	if (now_ns < until_ns)
		nap(until_ns - now_ns);
	pace.since_ns = clock_now_ns();
	pace.served = 0;
}

/* False: nobody came. */
static bool accept_one(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		control_client_accept(fd);
		return true;
	}
	/* No descriptor is left: it would ask again at once. */
	if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		nap(SERVED_MS * NS_PER_MS);
	return false;
}

static void serve(void)
{
	struct pollfd polled[1 + CLIENTS_MAX];
	int failures = 0, served, n;

	while (!atomic_load(&is_ending) && failures < FAILURES_MAX) {
		polled[0] = (struct pollfd){ .fd = listener,
					     .events = POLLIN };
		control_client_poll(polled + 1);
		if (!peer_is_ours(listener, identity))
			return;
		n = poll(polled, 1 + CLIENTS_MAX,
			 control_client_timeout_ms(clock_now_ns()));
		if (n < 0) {
			failures++;
			nap(SERVED_MS * NS_PER_MS);
			continue;
		}
		failures = 0;
		served = control_client_serve(polled + 1);
		if (polled[0].revents && peer_is_ours(listener, identity) &&
		    accept_one())
			served++;
		keep_pace(served);
	}
}

static void close_listener(void)
{
	if (listener >= 0 && peer_is_ours(listener, identity))
		close(listener);
	listener = -1;
}

static void *run(void *argument)
{
	char why[PATH_MAX + 128];

	(void)argument;
	listener = control_place_listen(socket_path, sizeof socket_path, why,
					sizeof why);
	if (listener < 0) {
		log_queue(LOG_INFO, "no control socket: %s", why);
		return NULL;
	}
	atomic_store(&has_path, 1);
	identity = peer_identity(listener);
	if (work_start_dumps())
		log_queue(LOG_INFO, "no thread for dumps could be started");
	log_queue(LOG_INFO, "control socket: %s", socket_path);
	if (atomic_load(&is_ending))
		(void)unlink(socket_path);
	serve();
	control_client_end();
	close_listener();
	return NULL;
}

/* On the writer's thread, whose table of descriptors ours is then, too. */
static void start_beside_writer(void)
{
	if (own_thread_start("gputrace-socket", run, NULL))
		log_queue(LOG_INFO, "no control socket: no thread could be "
			  "started");
}

void control_start(const struct control_options *options)
{
	control_folder_init(options->out, options->rank);
	if (control_client_init())
		log_line(LOG_INFO, "no control socket: no thread could be "
			 "started");
	else
		writer_call(start_beside_writer);
}

void control_finish(void)
{
	atomic_store(&is_ending, 1);
	work_end();
	if (atomic_load(&has_path))
		(void)unlink(socket_path);
}

void control_forget(void)
{
	/* Where tables are shared, a copy would keep the parent's alive. */
	if (!own_thread_files_are_apart()) {
		control_client_forget();
		close_listener();
	}
	listener = -1;
	atomic_store(&has_path, 0);
}
