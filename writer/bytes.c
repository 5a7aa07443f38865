/* SPDX-License-Identifier: MIT */
#include "writer/bytes.h"

#include <stdlib.h>

void bytes_fini(struct bytes *bytes)
{
	free(bytes->data);
	memset(bytes, 0, sizeof(*bytes));
}

char *bytes_grow(struct bytes *bytes, size_t more)
{
	size_t size = bytes->size ? bytes->size : 256;
	char *data;

	while (size - bytes->len < more)
		size *= 2;
	data = realloc(bytes->data, size);
	if (!data) {
		bytes->is_cut = true;
		return NULL;
	}
	bytes->data = data;
	bytes->size = size;
	return data + bytes->len;
}

char *bytes_copy(const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, text, len);
	copy[len] = 0;
	return copy;
}
