/* SPDX-License-Identifier: MIT */
/*
 * Secrets on the command line: what is behind a name like token, key,
 * password, secret is not told; what only looks like it is.
 */
#include "writer/argv.h"

#include "test/check.h"

/* cmdline: arguments with zeros between, as /proc/PID/cmdline has them. */
static void expect(const char *cmdline, size_t len, bool mask, const char *want)
{
	struct bytes out = { 0 };

	argv_write(&out, cmdline, len, mask);
	bytes_add(&out, "", 1);
	if (strcmp(out.data, want)) {
		fprintf(stderr, "got %s, want %s\n", out.data, want);
		check_failures++;
	}
	bytes_fini(&out);
}

#define MASKED(cmdline, want) expect(cmdline, sizeof(cmdline), true, want)

int main(void)
{
	MASKED("serve\0--hf-token\0abc\0--port\0008000",
	       "[\"serve\",\"--hf-token\",\"***\",\"--port\",\"8000\"]");
	MASKED("p\0--api_key=abc=d\0-x", "[\"p\",\"--api_key=***\",\"-x\"]");
	MASKED("env\0AWS_SECRET_ACCESS_KEY=s\0HF_TOKEN=t\0DB_PASSWORD=p",
	       "[\"env\",\"AWS_SECRET_ACCESS_KEY=***\",\"HF_TOKEN=***\","
	       "\"DB_PASSWORD=***\"]");
	MASKED("p\0--apiKey\0abc\0--mysecretthing\0x\0--Passwd\0y",
	       "[\"p\",\"--apiKey\",\"***\",\"--mysecretthing\",\"***\","
	       "\"--Passwd\",\"***\"]");
	MASKED("p\0--tokenizer\0gpt2\0--max-tokens\0009\0--path\0/x",
	       "[\"p\",\"--tokenizer\",\"gpt2\",\"--max-tokens\",\"9\","
	       "\"--path\",\"/x\"]");
	MASKED("p\0--token\0--verbose\0x",
	       "[\"p\",\"--token\",\"--verbose\",\"x\"]");
	MASKED("p\0https://user:pw@host/x?a=b:c@d",
	       "[\"p\",\"https://user:***@host/x?a=b:c@d\"]");
	MASKED("p\0http://host:80/a@b\0\0\xff",
	       "[\"p\",\"http://host:80/a@b\",\"\",\"\xef\xbf\xbd\"]");
	expect("p\0--token\0abc", 13, false, "[\"p\",\"--token\",\"abc\"]");
	expect("", 0, true, "[]");
	return check_result();
}
