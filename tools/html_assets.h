/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_HTML_ASSETS_H
#define GPUTRACE_TOOLS_HTML_ASSETS_H

/* The files of tools/html, as they are, with a NUL behind each. */
const char *html_asset_page(void);
const char *html_asset_css(void);
const char *html_asset_js(void);

#endif
