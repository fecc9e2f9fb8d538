// Opens a BLAS and calls each of these products that it has, twice; prints the name and an element of the result.
// products LIBRARY [SIZE]: with SIZE also one cblas_sgemm of SIZE³, and the number of threads then. Built twice:
// INTEGER, CBLAS(name) and FORTRAN(name) are for 32 bits (cblas_sgemm, sgemm_) or 64 (cblas_sgemm_64, sgemm_64_).
// Shapes: see PRODUCTS in products.py.
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef INTEGERS_OF_64_BITS
typedef int64_t Int;
#define CBLAS(name) "cblas_" name "_64"
#define FORTRAN(name) name "_64_"
#else
typedef int Int;
#define CBLAS(name) "cblas_" name
#define FORTRAN(name) name "_"
#endif

enum { kRow = 101, kNo = 111, kTrans = 112, kUpper = 121, kPacked = 151, kIdentifierA = 161, kFixOffset = 173 };

static void* library;
static float a[1024], b[1024], c[1024];
static uint16_t a16[1024], b16[1024], c16[1024];
static int8_t a8[1024], b8[1024];
static int32_t c32[1024];

static void* Find(const char* name) { return dlsym(library, name); }

// Finds NAME as a function of these parameter types; the block is run twice.
#define CASE(name, parameters)                                      \
  for (int left = Find(name) ? 2 : 0; left; --left, puts(" " name)) \
    for (void(*call) parameters = (void(*) parameters)Find(name); call; call = NULL)
#define RESULT(value) printf("%g", (double)(value))

static void Plain(void) {
  CASE(CBLAS("sgemm"), (int, int, int, Int, Int, Int, float, float*, Int, float*, Int, float, float*, Int)) {
    call(kRow, kNo, kTrans, 5, 6, 7, 1, a, 7, b, 7, 0, c, 6);
    RESULT(c[0]);
  }
  CASE(FORTRAN("sgemm"), (char*, char*, Int*, Int*, Int*, float*, float*, Int*, float*, Int*, float*, float*, Int*)) {
    Int m = 4, n = 5, k = 6;
    float one = 1, zero = 0;
    call("T", "N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &m);
    RESULT(c[0]);
  }
  CASE(CBLAS("sgemmt"), (int, int, int, int, Int, Int, float, float*, Int, float*, Int, float, float*, Int)) {
    call(kRow, kUpper, kNo, kTrans, 6, 7, 1, a, 7, b, 7, 0, c, 6);
    RESULT(c[0]);
  }
  CASE(CBLAS("cgemm3m"), (int, int, int, Int, Int, Int, float*, float*, Int, float*, Int, float*, float*, Int)) {
    float one[2] = {1, 0}, zero[2] = {0, 0};
    call(kRow, kNo, kNo, 3, 4, 5, one, a, 5, b, 4, zero, c, 4);
    RESULT(c[1]);
  }
}

static void Batches(void) {
  Int m[] = {4, 7}, n[] = {5, 8}, k[] = {6, 9}, sizes[] = {2, 3}, groups = 2;
  float one[] = {1, 1}, zero[] = {0, 0};
  float *as[] = {a, a, a, a, a}, *bs[] = {b, b, b, b, b}, *cs[] = {c, c + 100, c + 200, c + 300, c + 400};
  CASE(CBLAS("sgemm_batch"),
       (int, int*, int*, Int*, Int*, Int*, float*, float**, Int*, float**, Int*, float*, float**, Int*, Int, Int*)) {
    int trans_a[] = {kNo, kTrans}, trans_b[] = {kTrans, kNo};
    Int lda[] = {6, 7}, ldb[] = {6, 8}, ldc[] = {5, 8};
    call(kRow, trans_a, trans_b, m, n, k, one, as, lda, bs, ldb, zero, cs, ldc, groups, sizes);
    RESULT(c[400]);
  }
  CASE(FORTRAN("sgemm_batch"),
       (char*, char*, Int*, Int*, Int*, float*, float**, Int*, float**, Int*, float*, float**, Int*, Int*, Int*)) {
    char trans_a[] = {'N', 'T'}, trans_b[] = {'T', 'N'};
    Int ld[] = {9, 9};
    call(trans_a, trans_b, m, n, k, one, as, ld, bs, ld, zero, cs, ld, &groups, sizes);
    RESULT(c[400]);
  }
  CASE(CBLAS("sgemm_batch_strided"),
       (int, int, int, Int, Int, Int, float, float*, Int, Int, float*, Int, Int, float, float*, Int, Int, Int)) {
    call(kRow, kNo, kNo, 2, 3, 4, 1, a, 4, 8, b, 3, 12, 0, c, 3, 6, 5);
    RESULT(c[29]);
  }
}

static void Packed(void) {
  size_t (*size)(int, Int, Int, Int) = (size_t(*)(int, Int, Int, Int))Find(CBLAS("sgemm_pack_get_size"));
  float* packed = size ? aligned_alloc(64, (size(kIdentifierA, 5, 6, 7) + 63) / 64 * 64) : NULL;
  CASE(CBLAS("sgemm_pack"), (int, int, int, Int, Int, Int, float, float*, Int, float*)) {
    call(kRow, kIdentifierA, kNo, 5, 6, 7, 1, a, 7, packed);
    RESULT(packed != NULL);
  }
  CASE(CBLAS("sgemm_compute"), (int, Int, Int, Int, Int, Int, float*, Int, float*, Int, float, float*, Int)) {
    call(kRow, kPacked, kNo, 5, 6, 7, packed, 7, b, 6, 0, c, 6);
    RESULT(c[0]);
  }
}

static void Narrow(void) {
  for (int i = 0; i < 1024; ++i) a16[i] = b16[i] = 0x3f80;  // 1 as bfloat16
  CASE(CBLAS("gemm_bf16bf16f32"),
       (int, int, int, Int, Int, Int, float, uint16_t*, Int, uint16_t*, Int, float, float*, Int)) {
    call(kRow, kNo, kTrans, 5, 6, 8, 1, a16, 8, b16, 8, 0, c, 6);
    RESULT(c[0]);
  }
  for (int i = 0; i < 1024; ++i) a16[i] = b16[i] = 0x3c00;  // 1 as float16
  CASE(CBLAS("gemm_f16f16f32"),
       (int, int, int, Int, Int, Int, float, uint16_t*, Int, uint16_t*, Int, float, float*, Int)) {
    call(kRow, kTrans, kNo, 5, 6, 8, 1, a16, 5, b16, 6, 0, c, 6);
    RESULT(c[0]);
  }
  CASE(CBLAS("hgemm"),
       (int, int, int, Int, Int, Int, uint16_t, uint16_t*, Int, uint16_t*, Int, uint16_t, uint16_t*, Int)) {
    call(kRow, kNo, kNo, 5, 6, 8, 0x3c00, a16, 8, b16, 6, 0, c16, 6);
    RESULT(c16[0]);
  }
  CASE(CBLAS("gemm_s8u8s32"), (int, int, int, int, Int, Int, Int, float, int8_t*, Int, int8_t, int8_t*, Int, int8_t,
                               float, int32_t*, Int, int32_t*)) {
    int32_t none = 0;
    call(kRow, kNo, kNo, kFixOffset, 5, 6, 8, 1, a8, 8, 0, b8, 6, 0, 0, c32, 6, &none);
    RESULT(c32[0]);
  }
  CASE(CBLAS("gemm_s16s16s32"), (int, int, int, int, Int, Int, Int, float, uint16_t*, Int, int16_t, uint16_t*, Int,
                                 int16_t, float, int32_t*, Int, int32_t*)) {
    int32_t none = 0;
    for (int i = 0; i < 1024; ++i) a16[i] = b16[i] = 1;
    call(kRow, kNo, kTrans, kFixOffset, 5, 6, 8, 1, a16, 8, 0, b16, 8, 0, 0, c32, 6, &none);
    RESULT(c32[0]);
  }
}

static void Large(Int size) {
  void (*call)(int, int, int, Int, Int, Int, float, float*, Int, float*, Int, float, float*, Int) =
      Find(CBLAS("sgemm"));
  float* matrix = calloc(3 * size * size, sizeof(float));
  call(kRow, kNo, kNo, size, size, size, 1, matrix, size, matrix + size * size, size, 0, matrix + 2 * size * size,
       size);
  int threads = -2;  // . and ..
  DIR* tasks = opendir("/proc/self/task");
  while (readdir(tasks)) ++threads;
  printf("threads %d\n", threads);
}

int main(int argc, char** argv) {
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  for (int i = 0; i < 1024; ++i) a[i] = b[i] = a8[i] = b8[i] = 1;
  Plain();
  Batches();
  Packed();
  Narrow();
  if (argc > 2) Large(atoi(argv[2]));
  return 0;
}
