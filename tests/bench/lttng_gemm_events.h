// The two tracepoints of lttng_gemm.c: the entry of a matrix product with six of its arguments, its exit with two.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dlhook_peer

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_gemm_events.h"

#if !defined(DLHOOK_TESTS_BENCH_LTTNG_GEMM_EVENTS_H_) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define DLHOOK_TESTS_BENCH_LTTNG_GEMM_EVENTS_H_

#include <lttng/tracepoint.h>

// clang-format off
LTTNG_UST_TRACEPOINT_EVENT(dlhook_peer, sgemm_entry,
  LTTNG_UST_TP_ARGS(int, m, int, n, int, k, const void*, a, const void*, b, const void*, c),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int, m, m)
    lttng_ust_field_integer(int, n, n)
    lttng_ust_field_integer(int, k, k)
    lttng_ust_field_integer_hex(unsigned long, a, (unsigned long)a)
    lttng_ust_field_integer_hex(unsigned long, b, (unsigned long)b)
    lttng_ust_field_integer_hex(unsigned long, c, (unsigned long)c)))

LTTNG_UST_TRACEPOINT_EVENT(dlhook_peer, sgemm_exit,
  LTTNG_UST_TP_ARGS(int, ldc, const void*, c),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int, ldc, ldc)
    lttng_ust_field_integer_hex(unsigned long, c, (unsigned long)c)))
// clang-format on

#endif  // DLHOOK_TESTS_BENCH_LTTNG_GEMM_EVENTS_H_

#include <lttng/tracepoint-event.h>
