/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_RECORD_H
#define GPUTRACE_COLLECTOR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the program's own threads write into their rings (ring.h), one record
 * after another.  The writer thread reads them; nobody else does.
 *
 *   0      2      4      8                16
 *   +------+------+------+----------------+----------------- - - -
 *   | kind | size | len  | t_ns           | the kind's own fields, then
 *   +------+------+------+----------------+ `len` bytes of text
 *
 * size counts the whole record in bytes, always a multiple of 8.  The text is
 * what the program passed: any bytes, no terminating zero, cut at
 * RECORD_TEXT_MAX (RECORD_CUT in flags says so), not inside a UTF-8 character.
 */
#define RECORD_KINDS(X) \
	X(RECORD_PAD)         /* filler up to the end of the ring: skip it */ \
	X(RECORD_RANGE_PUSH)  /* struct range_record: opens a nested range */ \
	X(RECORD_RANGE_POP)   /* struct range_record: closes range `id` */ \
	X(RECORD_RANGE_START) /* struct range_record: opens range `id` */ \
	X(RECORD_RANGE_END)   /* struct range_record: closes `id` */ \
	X(RECORD_MARK)        /* struct range_record: a point in time */ \
	X(RECORD_NAME)        /* struct name_record: a name for a thing */ \
	X(RECORD_SLICE)       /* struct slice_record: what is over */ \
	X(RECORD_COUNTER)     /* struct slice_record: values at a time */ \
	X(RECORD_INSTANT)     /* struct slice_record: the same on a thread */ \
	X(RECORD_STACK)       /* struct stack_record: where a thread was */ \
	X(RECORD_THREAD_BEGIN) /* struct name_record: records of this thread \
				* follow; `handle` is its tid */ \
	X(RECORD_THREAD_END)  /* struct name_record: and no more */

enum record_kind {
#define X(kind) kind,
	RECORD_KINDS(X)
#undef X
	RECORD_NR_KINDS
};

/* 4 KiB: a page of text names anything; longer names are cut and counted. */
#define RECORD_TEXT_MAX 4096

struct record {
	uint16_t kind;
	uint16_t size;
	uint32_t len;   /* bytes of text at the end */
	uint64_t t_ns;  /* clock.h; of what is carried into a window, that
			 * window's opening (0: it is not known) */
};

/*
 * Domains, registered strings and categories as the program created them.
 * They live until the process ends, so a record may point at one.  Immutable
 * but for `next`.  The text is any bytes, `len` long, also 0-terminated.
 */
struct nvtx_text {
	struct nvtx_text *next;
	struct nvtx_text *next_known;   /* of strings: by address */
	const struct nvtx_domain *domain;
	uint32_t id;    /* category id; 0 for strings */
	uint32_t len;
	uint32_t is_cut; /* the program's text was longer */
	char text[];
};

struct nvtx_domain {
	struct nvtx_domain *next;
	struct nvtx_text *_Atomic categories;  /* newest first: it wins */
	_Atomic uint32_t nr_categories;
	_Atomic uint32_t nr_schemas;           /* nvtx_schema.h */
	/* Of a source (source.h), whose ranges are no annotations: their
	 * category in the file; NULL: NVTX's. */
	const char *cat;
	uint32_t id;
	uint8_t recorded;                      /* GPUTRACE_NVTX_DOMAINS */
	uint8_t is_operator;                   /* kernels carry its id */
	uint8_t is_projected;                  /* cat: on the GPU, too */
	/* It is known late that one is over, which ended with the last
	 * operator inside it (torch_modules.h); not carried into windows. */
	uint8_t ends_inside;
	uint32_t len;
	char name[];
};

enum {
	RECORD_HAS_COLOR = 1 << 0,
	RECORD_CUT = 1 << 1,          /* the text was longer */
	RECORD_CARRIED = 1 << 2,      /* was open before the window; nvtx.h */
	RECORD_PAYLOAD = 1 << 3,      /* args_len: of structured payloads */
	RECORD_PAYLOAD_CUT = 1 << 4,  /* of which not all is there */
};

/* NVTX's own numbers (nvtxPayloadType_t in nvtx3/nvToolsExt.h). */
enum payload_type {
	PAYLOAD_NONE = 0,
	PAYLOAD_U64 = 1,
	PAYLOAD_I64 = 2,
	PAYLOAD_DOUBLE = 3,
	PAYLOAD_U32 = 4,
	PAYLOAD_I32 = 5,
	PAYLOAD_FLOAT = 6,
};

/*
 * A range or mark.  Its name is `string` if not NULL, else the text.
 * PUSH/POP: `id` is the nesting level in its domain's stack, 0 the outermost
 * (each NVTX domain has a stack of its own on each thread).
 * START/END: `id` is unique in the process, never 0.
 * A POP, and an END, ends after `id`: it has no name and no attributes; but
 * with a payload (its size says so) it has all fields, and nothing in them.
 * The last args_len bytes of the text are a source's arguments (source.h), or
 * with RECORD_PAYLOAD what the program passed (struct payload_head).
 */
struct range_record {
	struct record head;
	const struct nvtx_domain *domain;  /* NULL: the default domain */
	uint64_t id;
	const struct nvtx_text *string;
	uint64_t payload;                  /* bits as payload_type says */
	uint32_t color;                    /* ARGB */
	uint32_t category;                 /* 0: none */
	uint8_t payload_type;
	uint8_t flags;
	uint16_t args_len;
	uint8_t reserved[4];
	char text[];
};

/*
 * A structured payload, as the program passed it, of a schema of the range's
 * domain (nvtx_schema.h): at most PAYLOADS_MAX heads with their bytes behind
 * them, each padded to 8, anywhere in the text.
 */
#define PAYLOADS_MAX 4
#define PAYLOAD_BYTES_MAX 256   /* of an event, in all */

struct payload_head {
	uint64_t schema;        /* 0: none, of what could not be registered */
	uint32_t len;           /* of the bytes behind it, without padding */
	uint32_t reserved;
};

static inline size_t payload_padded(size_t len)
{
	return (len + 7) & ~(size_t)7;
}

enum named_kind {
	NAMED_THREAD,      /* handle: system thread id (also of BEGIN, END:
			    * the text is the name the system knows it by) */
	NAMED_DEVICE,      /* handle: device number */
	NAMED_CONTEXT,     /* handle: CUPTI context id */
	NAMED_STREAM,      /* handle: CUPTI stream id */
	NAMED_EVENT,       /* handle: the CUevent as a number */
};

struct name_record {
	struct record head;
	uint64_t handle;
	uint32_t what;     /* enum named_kind */
	uint32_t reserved;
	char text[];
};

/*
 * What a source other than NVTX tells: a slice on a row of its own beside its
 * thread's (a blocking call, a thread's state), the values of a counter, or an
 * instant among the thread's calls that is of a counter too (an allocation).
 * Its kind is static, so that a record needs only to point at it; the writer
 * knows nothing else of the source.
 */
enum value_type {
	VALUE_U64, VALUE_I64, VALUE_DOUBLE /* its bits */,
	VALUE_WORD,             /* a place in `words` */
	VALUE_STRING,           /* a const char * that stays, or NULL: absent */
	VALUE_ABSENT_0,         /* VALUE_U64, and not there when 0 */
	VALUE_TRUE,             /* true, and not there when 0 */
};

struct value_field {
	const char *name;       /* NULL: the end */
	enum value_type type;
	const char *const *words;
};

/* Which row: of the thread that it is about (`tid`), or of the process. */
enum slice_row { ROW_OSRT, ROW_STATE, ROW_STACK, ROW_PROCESS, NR_ROWS };

#define SLICE_VALUES_MAX 12

struct slice_kind {
	const char *cat;        /* of a slice: "osrt" */
	const char *name;       /* NULL: the record's text is the name */
	enum slice_row row;
	bool is_of_device;      /* counter: `tid` is a device's number */
	/* Instant: its first values are also those of this counter, of the
	 * device `tid`. */
	const struct slice_kind *counter;
	struct value_field fields[SLICE_VALUES_MAX + 1];
};

struct slice_record {
	struct record head;     /* t_ns: its start */
	uint64_t end_ns;        /* counter, instant: 0 */
	const struct slice_kind *kind;
	uint32_t tid;           /* slice: its thread, 0: the ring's; counter,
				 * instant: a device's number, if it has one */
	uint32_t nr_values;
	uint64_t values[];      /* then the text */
};

/*
 * A thread's stack: code addresses, innermost first, of callers inside the
 * call.  The text is its Python frames as python_walk_calls() tells them, and
 * `ends` too; they belong where an address has STACK_EVAL.
 */
#define STACK_EVAL (UINT64_C(1) << 63)
#define STACK_PCS_MAX 96

enum stack_of {
	STACK_OF_CALL,          /* of the CUDA call `correlation` */
	STACK_OF_NEXT,          /* of the slice that its ring tells next */
	STACK_SAMPLE,           /* the thread was running; `correlation`:
				 * how many periods it stands for */
};

struct stack_record {
	struct record head;
	uint64_t ends;
	uint32_t tid;
	uint32_t correlation;
	uint32_t of;            /* enum stack_of */
	uint32_t nr_pcs;
	uint64_t pcs[];         /* then the text */
};

_Static_assert(sizeof(struct record) == 16, "drawn above");
_Static_assert(sizeof(struct range_record) == 64, "8-byte steps");
#define RECORD_END_SIZE offsetof(struct range_record, string)
_Static_assert(sizeof(struct name_record) == 32, "8-byte steps");

#endif
