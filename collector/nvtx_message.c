/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "collector/loss.h"
#include "collector/nvtx_payload.h"
#include "collector/nvtx_record.h"
#include "collector/nvtx_text.h"

/* From the program's words to a message. */

void nvtx_set_text(struct nvtx_message *message, const char *text)
{
	size_t len = text ? strnlen(text, RECORD_TEXT_MAX + 1) : 0;

	if (len > RECORD_TEXT_MAX) {
		len = nvtx_text_fit(text, len, RECORD_TEXT_MAX);
		message->flags |= RECORD_CUT;
	}
	message->text = text;
	message->len = (uint32_t)len;
}

void nvtx_set_wide(struct nvtx_message *message, const wchar_t *text)
{
	/* 4: the longest character. */
	size_t len = nvtx_utf8(NULL, RECORD_TEXT_MAX + 4, text);

	if (len > RECORD_TEXT_MAX) {
		len = nvtx_utf8(NULL, RECORD_TEXT_MAX, text);
		message->flags |= RECORD_CUT;
		loss_add(LOSS_TEXT_CUT, 1);
	}
	message->wide = text;
	message->len = (uint32_t)len;
}

static void set_payload(struct nvtx_message *message,
			const nvtxEventAttributes_t *attributes)
{
	if (attributes->payloadType < NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 ||
	    attributes->payloadType > NVTX_PAYLOAD_TYPE_FLOAT) {
		/* One with a schema: `reserved0` is how many there are. */
		if (attributes->payloadType == NVTX_PAYLOAD_TYPE_EXT)
			nvtx_payload_set(message, (const void *)(uintptr_t)
					 attributes->payload.ullValue,
					 (uint32_t)attributes->reserved0);
		return;
	}
	message->payload_type = (uint8_t)attributes->payloadType;
	memcpy(&message->payload, &attributes->payload,
	       sizeof message->payload);
}

static void set_message(struct nvtx_message *message,
			const nvtxEventAttributes_t *attributes)
{
	switch (attributes->messageType) {
	case NVTX_MESSAGE_TYPE_ASCII:
		nvtx_set_text(message, attributes->message.ascii);
		break;
	case NVTX_MESSAGE_TYPE_UNICODE:
		nvtx_set_wide(message, attributes->message.unicode);
		break;
	case NVTX_MESSAGE_TYPE_REGISTERED:
		message->string = (const void *)attributes->message.registered;
		break;
	}
}

/* The fields of the structure are appended over time: read only what the
 * program's own `size` covers. */
void nvtx_set_attributes(struct nvtx_message *message,
			 const nvtxEventAttributes_t *attributes)
{
	if (!attributes || attributes->size < sizeof *attributes)
		return;
	message->category = attributes->category;
	if (attributes->colorType == NVTX_COLOR_ARGB) {
		message->color = attributes->color;
		message->flags |= RECORD_HAS_COLOR;
	}
	set_payload(message, attributes);
	set_message(message, attributes);
}
