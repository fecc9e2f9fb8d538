// The peer that dlhook is compared with: a preloaded sgemm_ with two LTTng-UST tracepoints around the real one, as a
// user would write it to trace these calls. The session daemon decides whether they record.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include <dlfcn.h>
#include <stddef.h>

#include "lttng_gemm_events.h"

typedef void Sgemm(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
                   const float*, const int*, const float*, float*, const int*, size_t, size_t);

static Sgemm* g_real;

__attribute__((constructor)) static void FindReal(void) { g_real = (Sgemm*)dlsym(RTLD_NEXT, "sgemm_"); }

void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c, const int* ldc,
            size_t trans_a_length, size_t trans_b_length) {
  lttng_ust_tracepoint(dlhook_peer, sgemm_entry, *m, *n, *k, a, b, c);
  g_real(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, trans_a_length, trans_b_length);
  lttng_ust_tracepoint(dlhook_peer, sgemm_exit, *ldc, c);
}
