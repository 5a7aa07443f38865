/* SPDX-License-Identifier: MIT */
#include "tools/html_assets.h"

/* The assembler reads the files (from where make runs), so that no program of
 * the build machine has to turn them into C.  The Makefile knows of them. */
#define ASSET(name, file) \
	extern const char html_bytes_##name[] \
		__attribute__((visibility("hidden"))); \
	__asm__(".pushsection .rodata\n" \
		".globl html_bytes_" #name "\n" \
		".hidden html_bytes_" #name "\n" \
		"html_bytes_" #name ":\n" \
		".incbin \"tools/html/" file "\"\n" \
		".byte 0\n" \
		".popsection\n"); \
	const char *html_asset_##name(void) \
	{ \
		return html_bytes_##name; \
	}

ASSET(page, "page.html")
ASSET(css, "page.css")
ASSET(js, "page.js")
