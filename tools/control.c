/* SPDX-License-Identifier: MIT */
#include "tools/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "inject/protocol.h"
#include "tools/jsonval.h"
#include "tools/plain.h"

/* A process that is alive answers within some ms; one that is stopped never. */
enum { ASK_STATE_MS = 100 };

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- The connection ---- */

/* How it can be reached instead. */
static int no_socket(const struct target *t, char *why, size_t size)
{
	if (!t->is_known)
		snprintf(why, size, "%s", t->why);
	else if (t->reach == REACH_ATTACH)
		snprintf(why, size, "pid %ld does not have the library: "
			 "'gputrace attach %ld' puts it in", t->pid, t->pid);
	else if (t->reach == REACH_SIGNAL)
		snprintf(why, size, "pid %ld has no control socket: 'kill -%s "
			 "%ld' starts and stops", t->pid, t->signal, t->pid);
	else
		snprintf(why, size, "pid %ld: %s", t->pid, t->why);
	return -ENOENT;
}

/* The server sees who connects; root of the host may be nobody in there. */
static int connect_as(int fd, const struct sockaddr_un *address, long uid)
{
	bool is_root = !geteuid() && uid > 0;
	int error;

	if (is_root && seteuid((uid_t)uid))
		return -errno;
	error = connect(fd, (const struct sockaddr *)address,
			sizeof(*address)) ? -errno : 0;
	if (is_root && seteuid(0))
		return -errno;
	return error;
}

static int open_socket(const struct look *machine, const struct target *t)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int at = target_socket(machine, t), fd, error;

	if (at < 0)
		return at;
	/* Not to wait for room where nobody accepts. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	error = fd < 0 ? -errno : 0;
	/* Short, however long the path is. */
	snprintf(address.sun_path, sizeof(address.sun_path),
		 "/proc/self/fd/%d", at);
	if (!error)
		error = connect_as(fd, &address, t->socket_uid);
	close(at);
	if (!error)
		return fd;
	if (fd >= 0)
		close(fd);
	return error;
}

/* Anybody in the container's /tmp could listen there. */
static bool is_answered_by(int fd, long pid)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
		who.pid == pid;
}

static const char *reason(int error)
{
	switch (-error) {
	case EACCES:
	case EPERM: return "permission denied: run this as its user, or as "
		"root with CAP_SETUID and CAP_SYS_PTRACE";
	case ECONNREFUSED: return "nobody listens at its control socket: it "
		"has ended, or closed it";
	case EAGAIN: return "too many others ask it; try again";
	case ENOENT: return "its control socket is gone";
	default: return strerror(-error);
	}
}

int control_open(struct control *c, const struct look *machine,
		 const struct target *t, char *why, size_t why_size)
{
	int error;

	c->fd = -1;
	c->len = 0;
	c->pid = t->pid;
	if (t->reach != REACH_SOCKET)
		return no_socket(t, why, why_size);
	c->fd = open_socket(machine, t);
	error = c->fd < 0 ? c->fd : 0;
	if (error) {
		snprintf(why, why_size, "pid %ld: %s", t->pid, reason(error));
		return error;
	}
	if (is_answered_by(c->fd, t->pid)) {
		error = control_send(c, PROTOCOL_HELLO, -1);
		if (error)
			snprintf(why, why_size, "pid %ld: %s", t->pid,
				 strerror(-error));
		return error;
	}
	snprintf(why, why_size, "pid %ld: another process answers at %s",
		 t->pid, t->socket);
	control_close(c);
	return -EPERM;
}

void control_close(struct control *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* ---- Lines ---- */

static ssize_t send_some(int fd, const void *bytes, size_t len, int passed)
{
	union {
		struct cmsghdr first;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec what = { (void *)bytes, len };
	struct msghdr message = { .msg_iov = &what, .msg_iovlen = 1 };

	if (passed >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.first.cmsg_level = SOL_SOCKET;
		control.first.cmsg_type = SCM_RIGHTS;
		control.first.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.first), &passed, sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

int control_send(struct control *c, const char *line, int passed)
{
	char whole[PROTOCOL_LINE_MAX];
	int len = snprintf(whole, sizeof(whole), "%s\n", line), at = 0;
	ssize_t n;

	if (len >= (int)sizeof(whole))
		return -ENAMETOOLONG;
	while (at < len) {
		n = send_some(c->fd, whole + at, (size_t)(len - at), passed);
		/* Who is turned away can still read why. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += (int)n;
			passed = -1;
		}
	}
	return 0;
}

bool control_add(char *line, size_t size, const char *key, const char *value)
{
	size_t at = strlen(line);
	int len = snprintf(line + at, size - at, " %s=", key);

	for (at += (size_t)len; *value && at + 4 < size; value++) {
		if (*value > ' ' && *value < 0x7f && *value != '%')
			line[at++] = *value;
		else
			at += (size_t)sprintf(line + at, "%%%02x",
					      (unsigned char)*value);
	}
	if (at < size)
		line[at] = '\0';
	return !*value;
}

/* ---- Answers ---- */

static void take_text(const struct json_value *object, const char *key,
		      char *to, size_t size)
{
	struct json_value v = jsonval_member(object, key);

	to[0] = '\0';
	if (v.type == JSON_STRING)
		jsonval_string(&v, to, size);
}

static void take_number(const struct json_value *object, const char *key,
			int64_t *to)
{
	struct json_value v = jsonval_member(object, key);

	*to = 0;
	if (v.type == JSON_NUMBER && (!jsonval_int(&v, to) || *to < 0))
		*to = 0;
}

static void take(const struct json_value *object, struct control_reply *to)
{
	const struct {
		const char *key;
		char *text;
		size_t size;
	} texts[] = {
		{ "code", to->code, sizeof(to->code) },
		{ "error", to->error, sizeof(to->error) },
		{ "state", to->state, sizeof(to->state) },
		{ "version", to->version, sizeof(to->version) },
		{ "start", to->start, sizeof(to->start) },
	};
	const struct {
		const char *key;
		int64_t *number;
	} numbers[] = {
		{ "window", &to->window }, { "started_ns", &to->started_ns },
		{ "windows", &to->windows }, { "opened_ns", &to->opened_ns },
		{ "kernels", &to->kernels }, { "events", &to->events },
		{ "bytes", &to->bytes }, { "lost", &to->lost },
		{ "span_ns", &to->span_ns },
		{ "unfinished", &to->unfinished },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		take_text(object, texts[i].key, texts[i].text, texts[i].size);
		plain_make(texts[i].text, texts[i].size);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		take_number(object, numbers[i].key, numbers[i].number);
	take_text(object, "path", to->path, sizeof(to->path));
}

/* The line that begins the buffer, of that length. */
static int parse(const char *line, size_t len, struct control_reply *reply)
{
	static char text[CONTROL_REPLY_MAX + JSON_PAD];
	struct json j = { .end = text + len };
	struct json_value v, ok;
	const char *end;

	memcpy(text, line, len);
	memset(text + len, 0, JSON_PAD);
	end = json_scan(&j, json_space(text), &v, 0);
	json_fini(&j);
	if (!end || *json_space(end) || v.type != JSON_OBJECT)
		return -EBADMSG;
	ok = jsonval_member(&v, "ok");
	if (ok.type != JSON_TRUE && ok.type != JSON_FALSE)
		return -EBADMSG;
	take(&v, reply);
	reply->ok = ok.type == JSON_TRUE;
	return 0;
}

/* 0 when there is a line; -EAGAIN: not yet. */
static int take_line(struct control *c, struct control_reply *reply)
{
	char *end = memchr(c->in, '\n', c->len);
	int error;

	if (!end)
		return c->len < CONTROL_REPLY_MAX ? -EAGAIN : -EBADMSG;
	error = parse(c->in, (size_t)(end - c->in), reply);
	c->len -= (size_t)(end + 1 - c->in);
	memmove(c->in, end + 1, c->len);
	return error;
}

static int receive(struct control *c, int timeout_ms,
		   struct control_reply *reply)
{
	int64_t until = now_ms() + timeout_ms, left;
	struct pollfd wait = { .fd = c->fd, .events = POLLIN };
	int error;
	ssize_t n;

	for (;;) {
		error = take_line(c, reply);
		if (error != -EAGAIN)
			return error;
		left = until - now_ms();
		n = poll(&wait, 1, left > 0 ? (int)left : 0);
		if (n < 0 && errno == EINTR)
			return -EINTR;
		if (n <= 0)
			return -ETIMEDOUT;
		n = recv(c->fd, c->in + c->len, CONTROL_REPLY_MAX - c->len,
			 MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return -ECONNRESET;
		c->len += n > 0 ? (size_t)n : 0;
	}
}

int control_answer(struct control *c, int timeout_ms,
		   struct control_reply *reply, char *why, size_t why_size)
{
	int error = c->fd < 0 ? -ECONNRESET :
		receive(c, timeout_ms, reply);

	if (!error && reply->ok)
		return 0;
	if (!error)
		snprintf(why, why_size, "pid %ld: %s", c->pid, reply->error);
	else if (error == -ETIMEDOUT)
		snprintf(why, why_size, "pid %ld does not answer: it is "
			 "stopped, or its driver hangs", c->pid);
	else if (error == -EBADMSG)
		snprintf(why, why_size, "pid %ld answers what is not an "
			 "answer", c->pid);
	else if (error == -ECONNRESET || error == -EPIPE)
		snprintf(why, why_size, "pid %ld has ended", c->pid);
	else
		snprintf(why, why_size, "pid %ld: %s", c->pid,
			 strerror(-error));
	return error ? error : -EPROTO;
}

int control_ask(struct control *c, const char *line, int passed,
		int timeout_ms, struct control_reply *reply, char *why,
		size_t why_size)
{
	if (control_send(c, line, passed))
		control_close(c);
	return control_answer(c, timeout_ms, reply, why, why_size);
}

int control_ask_state(const struct look *machine, const struct target *t,
		      char *state, size_t size)
{
	static struct control c;
	static struct control_reply reply;
	char why[PATH_MAX + 256];
	int error = control_open(&c, machine, t, why, sizeof(why));

	if (!error)
		error = control_ask(&c, "status", -1, ASK_STATE_MS, &reply,
				    why, sizeof(why));
	control_close(&c);
	if (!error)
		snprintf(state, size, "%s", reply.state);
	return error;
}
