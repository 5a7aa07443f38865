/* SPDX-License-Identifier: MIT */
/*
 * The control socket's commands: lines of the input.  What is refused has a
 * code and a sentence that fits its room and is printable; what is accepted
 * holds only what its verb knows.
 */
#include "inject/control_parse.h"
#include "inject/protocol.h"
#include "inject/settings.h"
#include "test/fuzz/fuzz.h"

static void is_sentence(const char *why, size_t room)
{
	MUST(memchr(why, 0, room));
	for (; *why; why++)
		MUST(*why >= ' ' && *why <= '~');
}

static void is_whole(const struct request *request)
{
	bool has_target = request->has_fd || request->path[0];

	MUST(request->verb <= REQUEST_DUMP);
	MUST(memchr(request->path, 0, sizeof(request->path)));
	MUST(!request->has_fd || !request->path[0]);
	MUST(!request->is_gz || request->has_fd);
	MUST((request->window > 0) == (request->verb == REQUEST_WAIT));
	if (request->verb != REQUEST_START)
		MUST(!request->duration_ns && !request->sources &&
		     !request->at_ns);
	if (request->verb == REQUEST_STOP || request->verb == REQUEST_STATUS)
		MUST(!has_target);
	MUST(request->sources < SOURCE_TORCH << 1);
}

static void one(const char *line, size_t len)
{
	size_t room = len % 200 + 1;
	char *why = malloc(room), *exact = malloc(len + 1);
	struct request *request = malloc(sizeof(*request));
	const char *code;

	MUST(why && exact && request);
	memcpy(exact, line, len);
	/* No byte behind the line is the line's. */
	exact = realloc(exact, len ? len : 1);
	memset(why, 'x', room);
	code = request_parse(exact, len, request, why, room);
	if (code) {
		MUST(!strcmp(code, PROTOCOL_UNKNOWN) ||
		     !strcmp(code, PROTOCOL_BAD_VALUE));
		is_sentence(why, room);
	} else {
		is_whole(request);
	}
	free(request);
	free(exact);
	free(why);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *)bytes, *end = text + size, *next;

	for (; text < end; text = next + 1) {
		next = memchr(text, '\n', (size_t)(end - text));
		if (!next)
			next = end;
		if (next - text < PROTOCOL_LINE_MAX)
			one(text, (size_t)(next - text));
	}
	return 0;
}
