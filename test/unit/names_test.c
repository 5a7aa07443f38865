/* SPDX-License-Identifier: MIT */
/*
 * Names of kernels.  Full forms: what c++filt says of the same symbol (an
 * independent demangler).  Short forms: chosen by hand from the names in a
 * PyTorch trace of an H200, before the code.
 */
#include "writer/names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "collector/loss.h"
#include "test/check.h"
#include "writer/json.h"

static void expect_short(const char *full, const char *want)
{
	struct bytes out = { 0 };

	name_shorten(full, &out);
	bytes_add(&out, "", 1);
	if (strcmp(out.data, want)) {
		fprintf(stderr, "%s\n  became %s\n  not    %s\n", full,
			out.data, want);
		check_failures++;
	}
	bytes_fini(&out);
}

static void test_short(void)
{
	expect_short("void at::native::vectorized_elementwise_kernel<8, "
		"at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*,"
		" 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, "
		"std::array<char*, 3ul>)",
		"vectorized_elementwise_kernel<8, CUDAFunctor_add<BFloat16>, "
		"array<char*, 3>>");
	expect_short("void at::native::vectorized_elementwise_kernel<8, "
		"at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
		"at::native::GeluType)::{lambda()#2}::operator()() const::"
		"{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, "
		"std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl("
		"at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}"
		"::operator()() const::{lambda()#4}::operator()() const::"
		"{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>)",
		"vectorized_elementwise_kernel<8, "
		"GeluCUDAKernelImpl::lambda(BFloat16), array<char*, 2>>");
	expect_short("void at::native::(anonymous namespace)::"
		"vectorized_layer_norm_kernel<c10::BFloat16, float, false>("
		"int, float, c10::BFloat16 const*, float*)",
		"vectorized_layer_norm_kernel<BFloat16, float, false>");
	expect_short("void at::native::(anonymous namespace)::"
		"indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, "
		"2, -2>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned "
		"int>, int, long)", "indexSelectSmallIndex<BFloat16, long, "
		"unsigned int, 2, 2, -2>");
	expect_short("void at::native::reduce_kernel<512, 1, at::native::"
		"ReduceOp<c10::BFloat16, at::native::ArgMaxOps<float>, "
		"unsigned int, long, 4, 4> >(at::native::ReduceOp<"
		"c10::BFloat16, at::native::ArgMaxOps<float>, unsigned int, "
		"long, 4, 4>)", "reduce_kernel<512, 1, ReduceOp<BFloat16, "
		"ArgMaxOps<float>, unsigned int, long, 4, 4>>");
	expect_short("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_bias_TNT",
		     "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_bias_TNT");
	expect_short("vecAdd(float const*, float const*, float*, int)",
		     "vecAdd");
	expect_short("void ns::f<(ns::Mode)1, -2, true>(int)",
		     "f<(Mode)1, -2, true>");
	expect_short("ns::Functor::operator()(int) const", "operator()");
	expect_short("std::vector<int> ns::g<int>(int)", "g<int>");
	/* Odd ones must end, and give something. */
	expect_short("<", "<");
	expect_short("a<b<c", "a<b<c");
	expect_short("::", "::");
	/* Mangled, and too long to undo: the function is in it all the same. */
	expect_short("_ZN2at6native13reduce_kernelILi512EXXXX",
		     "reduce_kernel");
	expect_short("_Z99x", "_Z99x");
}

static void test_long(void)
{
	static char full[20000];
	struct bytes out = { 0 };

	memset(full, 'x', sizeof(full) - 1);
	name_shorten(full, &out);
	CHECK_EQ(out.len, 120);
	CHECK(!memcmp(out.data + 117, "...", 3));
	bytes_fini(&out);
	memset(full, '<', sizeof(full) - 1);
	full[0] = 'f';
	name_shorten(full, &out);
	CHECK(out.len > 0 && out.len <= 120);
	bytes_fini(&out);
}

/* The judge: what c++filt makes of the same symbols. */
static void test_full(void)
{
	static const char *const mangled[] = {
		"_Z6vecAddPKfS0_Pfi",
		"_ZN2at6native29vectorized_elementwise_kernelILi8E"
		"NS0_15CUDAFunctor_addIfEEEEvT0_",
		"_ZN8cublasLt19splitKreduce_kernelILi32ELi16EifffEEvv",
		"_ZN2at6native32_GLOBAL__N__0_1_x_cu_1234567828vectorized_layer"
		"_norm_kernelIfEEvi",
		"_ZZN1aIiE1fEvENKUliE0_clEi",
	};
	char command[512], want[4096];
	size_t i;

	for (i = 0; i < sizeof(mangled) / sizeof(*mangled); i++) {
		struct bytes out = { 0 };
		FILE *judge;

		snprintf(command, sizeof(command), "c++filt '%s'", mangled[i]);
		judge = popen(command, "r");
		CHECK(judge && fgets(want, sizeof(want), judge));
		pclose(judge);
		want[strcspn(want, "\n")] = 0;
		if (!name_demangle(mangled[i], &out)) {
			CHECK(!strcmp(want, mangled[i]));
		} else {
			bytes_add(&out, "", 1);
			CHECK(!strcmp(out.data, want));
		}
		bytes_fini(&out);
	}
}

/* Deep and expanding symbols on the stack that the writer has. */
static void *hostile(void *unused)
{
	static char deep[70000], bomb[2000];
	struct bytes out = { 0 };
	size_t i, at;

	strcpy(deep, "_Z1f");
	for (i = 4; i < 1000; i++) {
		memset(deep + 4, 'P', i - 4);
		deep[i] = 'i';
		deep[i + 1] = 0;
		name_demangle(deep, &out);
		bytes_clear(&out);
	}
	memset(deep + 4, 'P', sizeof(deep) - 5);
	CHECK(!name_demangle(deep, &out));
	for (i = 1; i < 240; i++) {     /* f(a<a<a<...>>>) */
		strcpy(deep, "_Z1f");
		for (at = 0; at < i; at++)
			strcat(deep, "1aI");
		strcat(deep, "i");
		for (at = 0; at < i; at++)
			strcat(deep, "E");
		name_demangle(deep, &out);
		bytes_clear(&out);
	}
	/* each step doubles what the one before said */
	strcpy(bomb, "_Z1fP1aIiiE");
	for (i = 0; i < 60; i++) {
		char step[32];

		snprintf(step, sizeof(step), "1aIS%cS%cE",
			 i < 10 ? (char)('0' + (int)i) : 'A',
			 i < 10 ? (char)('0' + (int)i) : 'A');
		strcat(bomb, i % 2 ? step : "P1aIS_S_E");
	}
	name_demangle(bomb, &out);
	CHECK(out.len <= 16 << 10);
	bytes_fini(&out);
	return unused;
}

static void test_hostile(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	/* ThreadSanitizer keeps most of it for itself. */
#ifdef __SANITIZE_THREAD__
	pthread_attr_setstacksize(&attr, 1536 << 10);
#else
	pthread_attr_setstacksize(&attr, 512 << 10);
#endif
	CHECK(!pthread_create(&thread, &attr, hostile, NULL));
	pthread_join(thread, NULL);
}

/* Two that shorten alike; the same from two modules; a pointer used again. */
static void test_table(void)
{
	char one[] = "void a::k<b::X>(int)", two[] = "void a::k<c::X>(int)";
	char copy[] = "void a::k<c::X>(int)", reused[64];
	const struct name *x, *y, *z;
	struct names names;

	CHECK_EQ(names_init(&names, NAMES_SHORT, NULL), 0);
	x = names_get(&names, one);
	y = names_get(&names, two);
	z = names_get(&names, copy);
	CHECK(!strcmp(x->text, "k<X>"));
	CHECK(strlen(y->text) == strlen("k<X> #0123") &&
	      !strncmp(y->text, "k<X> #", 6));
	CHECK(y == z && x->is_selected && !strcmp(y->full, two));
	strcpy(reused, "first");
	x = names_get(&names, reused);
	names_forget_pointers(&names);
	strcpy(reused, "second");
	y = names_get(&names, reused);
	CHECK(!strcmp(x->text, "first") && !strcmp(y->text, "second"));
	CHECK(!strcmp(names_get(&names, NULL)->text, "unknown kernel"));
	CHECK(!strcmp(names_get(&names, "")->text, "unknown kernel"));
	names_fini(&names);

	CHECK_EQ(names_init(&names, NAMES_FULL, "*gemm*,k*"), 0);
	CHECK(!names_get(&names, one)->is_selected);
	CHECK(names_get(&names, "sgemm_1")->is_selected);
	CHECK(!strcmp(names_get(&names, "_Z1fi")->text, "f(int)"));
	names_fini(&names);

	CHECK_EQ(names_init(&names, NAMES_MANGLED, NULL), 0);
	CHECK(!strcmp(names_get(&names, "_Z1fi")->text, "_Z1fi"));
	CHECK(!strcmp(names_get(&names, "_Z1fi")->full, "f(int)"));
	names_fini(&names);
}

static char *of_many(char byte, size_t len, const char *end)
{
	char *text = malloc(len + strlen(end) + 1);

	memset(text, byte, len);
	strcpy(text + len, end);
	return text;
}

/* In each style: names that differ only in what is no UTF-8, or far behind,
 * stay different; a kept name is found again by what is kept. */
static void test_odd_names(enum name_style style)
{
	char *ends[] = { of_many('x', 70000, "a"), of_many('x', 70000, "b"),
			 of_many('\xff', 3, ""), of_many('\xfe', 3, ""),
			 of_many('\x80', 70000, ""), of_many('(', 65000, "") };
	const struct name *found[6], *again;
	uint64_t nr_cut = loss_get(LOSS_TEXT_CUT);
	struct names names;
	int i, j;

	CHECK_EQ(names_init(&names, style, NULL), 0);
	for (i = 0; i < 6; i++) {
		found[i] = names_get(&names, ends[i]);
		again = names_get(&names, found[i]->mangled);
		CHECK(again == found[i] && names_get(&names, ends[i]) == again);
		CHECK(json_is_utf8(again->text, strlen(again->text)));
		CHECK(json_is_utf8(again->full, strlen(again->full)));
		for (j = 0; j < i; j++)
			CHECK(strcmp(found[j]->text, found[i]->text));
	}
	CHECK_EQ(loss_get(LOSS_TEXT_CUT), nr_cut + 3);
	CHECK_EQ(strlen(found[0]->mangled), 65536);
	CHECK(!strcmp(found[2]->full, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
	CHECK(!strcmp(found[5]->full, ends[5]));
	/* No more than the bound; what is known stays so. */
	names.max_bytes = names.bytes;
	CHECK(!strcmp(names_get(&names, "another kernel")->text,
		      "unknown kernel"));
	CHECK(names_get(&names, ends[1]) == found[1]);
	names_fini(&names);
	for (i = 0; i < 6; i++)
		free(ends[i]);
}

int main(void)
{
	test_odd_names(NAMES_SHORT);
	test_odd_names(NAMES_FULL);
	test_odd_names(NAMES_MANGLED);
	test_short();
	test_long();
	test_full();
	test_hostile();
	test_table();
	return check_result();
}
