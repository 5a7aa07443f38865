/* SPDX-License-Identifier: MIT */
#include <stdint.h>

/*
 * The library's version as an ELF note (owner "gputrace", type 1), so that
 * `gputrace doctor` and readelf -n can tell it from the file of a running
 * process.
 */
enum { NOTE_VERSION = 1 };

__attribute__((used, section(".note.gputrace"), aligned(4)))
static const struct {
	uint32_t name_size, text_size, type;
	char name[12];          /* padded to 4 bytes */
	char text[16];
} version = {
	sizeof "gputrace", sizeof version.text, NOTE_VERSION,
	"gputrace", GPUTRACE_VERSION,
};
