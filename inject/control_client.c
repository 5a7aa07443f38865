/* SPDX-License-Identifier: MIT */
#include "inject/control_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collector/clock.h"
#include "inject/capture.h"
#include "inject/control_parse.h"
#include "inject/control_peer.h"
#include "inject/control_reply.h"
#include "inject/control_work.h"
#include "inject/protocol.h"

#define NS_PER_MS UINT64_C(1000000)
/* While somebody waits for a window or for work. */
#define LOOK_MS 10
/* The worker takes over so long before, and meets the moment itself. */
#define BEFORE_NS (20 * NS_PER_MS)

enum stage { IDLE, UNTIL_AT, WORKING, WAITING };

static struct client {
	struct peer peer;
	enum stage stage;
	uint32_t window;        /* that it waits for */
	uint32_t unheard;       /* whose start it has not been told of yet */
	uint32_t owned;         /* to be closed when it goes; 0: none */
} clients[CLIENTS_MAX];

/* One each; that of a client that is gone may still be under way. */
static struct work works[CLIENTS_MAX];
static struct bytes reply;

static struct work *work_of(const struct client *client)
{
	return &works[client - clients];
}

int control_client_init(void)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		clients[i].peer.fd = clients[i].peer.passed = -1;
		works[i].fd = -1;
	}
	return work_init(works, CLIENTS_MAX);
}

static void answer(struct client *client)
{
	peer_reply(&client->peer, &reply);
}

static void answer_error(struct client *client, const char *code,
			 const char *why)
{
	reply_error(&reply, code, why);
	answer(client);
}

/* ---- Work ---- */

static void give_to_worker(struct client *client)
{
	client->stage = WORKING;
	work_queue(work_of(client));
}

/* What the worker did for a client that is still there. */
static void answer_work(struct client *client)
{
	struct work *work = work_of(client);

	client->stage = IDLE;
	if (work->code) {
		answer_error(client, work->code, work->why);
		return;
	}
	switch (work->kind) {
	case WORK_START:
		client->owned = work_has_owner(work) ? work->window : 0;
		client->unheard = work->request.has_fd ? work->window : 0;
		reply_started(&reply, work);
		break;
	case WORK_DUMP:
		reply_dumped(&reply, work);
		break;
	default:
		client->window = work->window;
		client->stage = WAITING;
		return;
	}
	answer(client);
}

static void queue_abandon(struct work *work, uint32_t window)
{
	work->kind = WORK_ABANDON;
	work->window = window;
	work_queue(work);
}

static void take_done(struct client *client)
{
	struct work *work = work_of(client);
	bool is_gone = client->peer.fd < 0;

	if (atomic_load(&work->state) != WORK_DONE)
		return;
	work_close(work);
	atomic_store(&work->state, WORK_FREE);
	if (!is_gone)
		answer_work(client);
	else if (work->kind == WORK_START && !work->code &&
		 work->request.has_fd)
		/* Nobody knows of it, whatever its duration. */
		queue_abandon(work, work->window);
}

static void drop(struct client *client)
{
	struct work *work = work_of(client);

	if (client->peer.fd < 0)
		return;
	peer_close(&client->peer);
	if (client->stage == UNTIL_AT)
		work_close(work);
	else if (client->stage == WORKING)
		work_cancel(work);
	else if (client->owned || client->unheard)
		queue_abandon(work, client->owned ? client->owned :
			      client->unheard);
	client->stage = IDLE;
	client->owned = client->unheard = 0;
}

/* ---- Commands ---- */

/* Takes the descriptor that came; false: refused, and said. */
static bool take_descriptor(struct client *client, bool is_wanted)
{
	struct work *work = work_of(client);
	const char *why;

	work->code = NULL;
	work->fd = peer_take_passed(&client->peer);
	why = is_wanted ? peer_unfit(work->fd) : work->fd >= 0 ?
		"a descriptor came without fd=1" : NULL;
	if (!why)
		return true;
	work_close(work);
	answer_error(client, PROTOCOL_REFUSED, why);
	return false;
}

/* Opens its descriptor, and hands all to the worker. */
static void prepare_start(struct client *client)
{
	struct work *work = work_of(client);

	if (work->fd < 0 || !work_open_target(work)) {
		give_to_worker(client);
		return;
	}
	client->stage = IDLE;
	work_close(work);
	answer_error(client, work->code, work->why);
}

static void begin_start(struct client *client)
{
	struct work *work = work_of(client);

	work->kind = WORK_START;
	if (!take_descriptor(client, work->request.has_fd))
		return;
	if (!work_set_moment(work)) {
		work_close(work);
		answer_error(client, PROTOCOL_BAD_VALUE, "at= is more than a "
			     "day away (nanoseconds since 1970 are meant)");
		return;
	}
	if (work->at_ns > clock_now_ns() + BEFORE_NS)
		client->stage = UNTIL_AT;
	else
		prepare_start(client);
}

static void begin_wait(struct client *client)
{
	struct capture_status status;

	client->window = work_of(client)->request.window;
	capture_status(&status);
	if (client->window <= status.windows)
		client->stage = WAITING;
	else
		answer_error(client, PROTOCOL_BAD_VALUE,
			     "no window has this number yet");
}

static void carry_out(struct client *client, const char *line, size_t len)
{
	struct work *work = work_of(client);
	char why[256];
	const char *code = request_parse(line, len, &work->request, why,
					 sizeof why);

	if (code) {
		answer_error(client, code, why);
		return;
	}
	switch (work->request.verb) {
	case REQUEST_START:
		begin_start(client);
		break;
	case REQUEST_WAIT:
		begin_wait(client);
		break;
	case REQUEST_STOP:
		work->kind = WORK_STOP;
		give_to_worker(client);
		break;
	case REQUEST_STATUS:
		reply_status(&reply);
		answer(client);
		break;
	case REQUEST_DUMP:
		work->kind = WORK_DUMP;
		if (take_descriptor(client, work->request.has_fd))
			give_to_worker(client);
		break;
	}
}

static void greet(struct client *client, const char *line, size_t len)
{
	client->peer.is_greeted = len == sizeof PROTOCOL_HELLO - 1 &&
		!memcmp(line, PROTOCOL_HELLO, len);
	if (client->peer.is_greeted)
		return;
	answer_error(client, PROTOCOL_UNKNOWN, "the first line must be: "
		     PROTOCOL_HELLO);
	client->peer.has_ended = true;
	client->peer.in_len = 0;
}

/* A command can be taken: all before it is answered and read. */
static bool is_ready(const struct client *client)
{
	return client->peer.fd >= 0 && client->stage == IDLE &&
		!client->peer.out_len &&
		atomic_load(&work_of(client)->state) == WORK_FREE;
}

/* One line a turn, so that no client is served before all others. */
static int take_line(struct client *client)
{
	static char line[PROTOCOL_LINE_MAX];
	size_t len;

	if (!is_ready(client))
		return 0;
	if (!peer_next_line(&client->peer, line, &len)) {
		if (client->peer.in_len < sizeof client->peer.in)
			return 0;
		answer_error(client, PROTOCOL_BAD_VALUE,
			     "the line is too long");
		client->peer.has_ended = true;
		client->peer.in_len = 0;
		return 1;
	}
	if (client->peer.is_greeted)
		carry_out(client, line, len);
	else
		greet(client, line, len);
	return 1;
}

/* ---- Turns ---- */

static void look_at_wait(struct client *client, uint64_t now_ns)
{
	static struct writer_result result;

	if (client->stage == UNTIL_AT &&
	    now_ns + BEFORE_NS >= work_of(client)->at_ns)
		prepare_start(client);
	if (client->stage != WAITING)
		return;
	memset(&result, 0, sizeof result);
	if (capture_wait(client->window, now_ns, &result) == -ETIMEDOUT)
		return;
	client->stage = IDLE;
	if (client->owned == client->window)
		client->owned = 0;
	reply_window(&reply, client->window, &result);
	answer(client);
}

/* Has a line that could be taken now. */
static bool has_line(const struct client *client)
{
	return is_ready(client) && client->peer.in_len &&
		(client->peer.in_len == sizeof client->peer.in ||
		 memchr(client->peer.in, '\n', client->peer.in_len));
}

static bool is_over(const struct client *client, short events, uint64_t now_ns)
{
	return peer_is_tiresome(&client->peer, now_ns) ||
		(events & (POLLERR | POLLHUP) && client->stage != IDLE) ||
		(client->peer.has_ended && client->stage == IDLE &&
		 !client->peer.out_len && !has_line(client));
}

static bool may_read(const struct client *client)
{
	return client->stage == IDLE && !client->peer.out_len &&
		!client->peer.has_ended &&
		client->peer.in_len < sizeof client->peer.in;
}

static int serve(struct client *client, short events, uint64_t now_ns)
{
	int served = 0;

	take_done(client);
	if (client->peer.fd < 0)
		return 0;
	look_at_wait(client, now_ns);
	if (events & (POLLIN | POLLHUP) && may_read(client)) {
		int error = peer_read(&client->peer);

		if (error && error != -EAGAIN) {
			drop(client);
			return 1;
		}
		served++;
	}
	served += take_line(client);
	if (events & POLLNVAL || peer_flush(&client->peer) ||
	    is_over(client, events, now_ns))
		drop(client);
	else if (!client->peer.out_len)
		client->unheard = 0;
	return served;
}

int control_client_serve(const struct pollfd *polled)
{
	uint64_t now_ns = clock_now_ns();
	int served = 0;

	for (int i = 0; i < CLIENTS_MAX; i++)
		served += serve(&clients[i], polled[i].fd < 0 ? 0 :
				polled[i].revents, now_ns);
	return served;
}

void control_client_poll(struct pollfd *polled)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *client = &clients[i];

		polled[i] = (struct pollfd){
			.fd = client->peer.fd,
			.events = (short)((may_read(client) ? POLLIN : 0) |
				(client->peer.out_len ? POLLOUT : 0)),
		};
	}
}

/* When this client wants to be looked at, though nothing comes from it. */
static uint64_t due_ns(const struct client *client, uint64_t now_ns)
{
	const struct work *work = work_of(client);

	if (atomic_load(&work->state) != WORK_FREE ||
	    client->stage == WAITING)
		return now_ns + LOOK_MS * NS_PER_MS;
	if (client->peer.fd < 0)
		return UINT64_MAX;
	if (has_line(client))
		return now_ns;
	if (client->stage == UNTIL_AT)
		return work->at_ns - BEFORE_NS;
	return client->peer.out_len || !client->peer.is_greeted ?
		client->peer.active_ns + PEER_PATIENCE_NS : UINT64_MAX;
}

int control_client_timeout_ms(uint64_t now_ns)
{
	uint64_t first_ns = UINT64_MAX, ns;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		ns = due_ns(&clients[i], now_ns);
		first_ns = ns < first_ns ? ns : first_ns;
	}
	if (first_ns == UINT64_MAX)
		return -1;
	ns = first_ns > now_ns ? first_ns - now_ns : 0;
	return ns < 1000 * NS_PER_MS ? (int)(ns / NS_PER_MS) + (ns > 0) :
		1000;
}

/* ---- Coming and going ---- */

/* Waits for nothing, the longest of all; or NULL. */
static struct client *idlest(void)
{
	struct client *found = NULL;

	for (int i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].stage == IDLE && !clients[i].owned &&
		    !clients[i].unheard &&
		    atomic_load(&works[i].state) == WORK_FREE &&
		    (!found || clients[i].peer.active_ns <
		     found->peer.active_ns))
			found = &clients[i];
	return found;
}

static struct client *free_client(void)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].peer.fd < 0 &&
		    atomic_load(&works[i].state) == WORK_FREE)
			return &clients[i];
	return NULL;
}

static void turn_away(int fd, const char *code, const char *why)
{
	reply_error(&reply, code, why);
	peer_turn_away(fd, &reply);
}

void control_client_accept(int fd)
{
	struct client *client = free_client();

	if (!peer_is_allowed(fd)) {
		turn_away(fd, PROTOCOL_REFUSED, "only the process's own user "
			  "and root may control it");
		return;
	}
	/* The one that has been silent for longest makes room. */
	if (!client) {
		client = idlest();
		if (client)
			drop(client);
	}
	if (!client) {
		turn_away(fd, PROTOCOL_BUSY, "eight others are waiting; try "
			  "again");
		return;
	}
	peer_open(&client->peer, fd);
	client->stage = IDLE;
	client->owned = 0;
}

void control_client_end(void)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		peer_close(&clients[i].peer);
	bytes_fini(&reply);
}

void control_client_forget(void)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		peer_close(&clients[i].peer);
}
