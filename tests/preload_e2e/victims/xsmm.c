// A small convolutional network on LIBXSMM's direct convolutions, as frameworks on it do: every thread of a parallel region calls
// execute_st with its number.
//
//   xsmm cnn THREADS STEPS      three convolutions, forward and backward: STEPS times
//   xsmm layers THREADS         once each: fully connected, pooling, SGD
//   xsmm products               gemm, batches, kernels by dispatch and called through their pointers
//   xsmm computes               two kernels, called through their pointers for 0.5 s
//
// Prints what it computed: sums that any run must repeat.
#include <libxsmm.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int threads = 1;

static void check(libxsmm_dnn_err_t status, const char* what) {
  if (status == LIBXSMM_DNN_SUCCESS || status < LIBXSMM_DNN_ERR_GENERAL) return;
  printf("%s: %s\n", what, libxsmm_dnn_get_error(status));
  exit(1);
}

static void* memory(size_t bytes) {
  float* data = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  for (size_t i = 0; i < bytes / 4; ++i) data[i] = (float)(i % 7) / 8;
  return data;
}

static double sum(const void* data, size_t bytes) {
  double total = 0;
  for (size_t i = 0; i < bytes / 4; ++i) total += ((const float*)data)[i];
  return total;
}

// A tensor of a layer, with memory in the layer's own format.
#define TENSOR(prefix, handle, type, tensor, bytes)                                                                \
  do {                                                                                                             \
    libxsmm_dnn_err_t status;                                                                                      \
    libxsmm_dnn_tensor_datalayout* layout = libxsmm_dnn_##prefix##create_tensor_datalayout(handle, type, &status); \
    check(status, #type);                                                                                          \
    bytes = libxsmm_dnn_get_tensor_size(layout, &status);                                                          \
    tensor = libxsmm_dnn_link_tensor(layout, memory(bytes), &status);                                              \
    check(status, #type);                                                                                          \
    check(libxsmm_dnn_destroy_tensor_datalayout(layout), #type);                                                   \
    check(libxsmm_dnn_##prefix##bind_tensor(handle, tensor, type), #type);                                         \
  } while (0)

#define EXECUTE(prefix, ...)                   \
  _Pragma("omp parallel num_threads(threads)") \
      check(libxsmm_dnn_##prefix##execute_st(__VA_ARGS__, 0, omp_get_thread_num()), #prefix "execute_st")

enum { FWD = LIBXSMM_DNN_COMPUTE_KIND_FWD, BWD = LIBXSMM_DNN_COMPUTE_KIND_BWD, UPD = LIBXSMM_DNN_COMPUTE_KIND_UPD };

typedef struct {
  int C, K, H, R, stride;
  libxsmm_dnn_layer* handle;
  libxsmm_dnn_tensor* output;
  size_t output_bytes;
} Convolution;

static void create(Convolution* layer) {
  libxsmm_dnn_err_t status;
  libxsmm_dnn_conv_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.N = 4;
  desc.C = layer->C;
  desc.K = layer->K;
  desc.H = desc.W = layer->H;
  desc.R = desc.S = layer->R;
  desc.u = desc.v = layer->stride;
  desc.pad_h = desc.pad_w = layer->R / 2;
  desc.threads = threads;
  desc.datatype_in = desc.datatype_out = LIBXSMM_DNN_DATATYPE_F32;
  desc.buffer_format = desc.filter_format = LIBXSMM_DNN_TENSOR_FORMAT_LIBXSMM;
  desc.algo = LIBXSMM_DNN_CONV_ALGO_AUTO;
  desc.options = LIBXSMM_DNN_CONV_OPTION_OVERWRITE;
  layer->handle = libxsmm_dnn_create_conv_layer(desc, &status);
  check(status, "create_conv_layer");
  libxsmm_dnn_tensor *input, *filter, *other;
  size_t bytes;
  TENSOR(, layer->handle, LIBXSMM_DNN_REGULAR_INPUT, input, bytes);
  check(libxsmm_dnn_copyin_tensor(input, memory(bytes), LIBXSMM_DNN_TENSOR_FORMAT_NCHW), "copyin");
  TENSOR(, layer->handle, LIBXSMM_DNN_REGULAR_FILTER, filter, bytes);
  check(libxsmm_dnn_copyin_tensor(filter, memory(bytes), LIBXSMM_DNN_TENSOR_FORMAT_KCRS), "copyin");
  TENSOR(, layer->handle, LIBXSMM_DNN_REGULAR_OUTPUT, layer->output, layer->output_bytes);
  TENSOR(, layer->handle, LIBXSMM_DNN_GRADIENT_INPUT, other, bytes);
  TENSOR(, layer->handle, LIBXSMM_DNN_GRADIENT_FILTER, other, bytes);
  TENSOR(, layer->handle, LIBXSMM_DNN_GRADIENT_OUTPUT, other, bytes);
  bytes = libxsmm_dnn_get_scratch_size(layer->handle, LIBXSMM_DNN_COMPUTE_KIND_ALL, &status);
  check(libxsmm_dnn_bind_scratch(layer->handle, LIBXSMM_DNN_COMPUTE_KIND_ALL, memory(bytes)), "bind_scratch");
}

static void cnn(int steps) {
  Convolution layers[] = {{16, 32, 16, 3, 1}, {32, 32, 16, 3, 2}, {32, 64, 8, 1, 1}};
  for (int i = 0; i < 3; ++i) create(&layers[i]);
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < 3; ++i) EXECUTE(, layers[i].handle, FWD);
    for (int i = 2; i >= 0; --i) {
      if (i > 0) EXECUTE(, layers[i].handle, BWD);  // the first layer's input has no gradient
      EXECUTE(, layers[i].handle, UPD);
    }
  }
  for (int i = 0; i < 3; ++i) {
    float* plain = memory(layers[i].output_bytes);
    check(libxsmm_dnn_copyout_tensor(layers[i].output, plain, LIBXSMM_DNN_TENSOR_FORMAT_NCHW), "copyout");
    printf("%.1f\n", sum(plain, layers[i].output_bytes));
    check(libxsmm_dnn_destroy_conv_layer(layers[i].handle), "destroy");
  }
}

static void fully_connected(void) {
  libxsmm_dnn_err_t status;
  libxsmm_dnn_fullyconnected_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.N = 16;
  desc.C = 64;
  desc.K = 32;
  desc.bn = desc.bc = desc.bk = 16;
  desc.threads = threads;
  desc.datatype_in = desc.datatype_out = LIBXSMM_DNN_DATATYPE_F32;
  desc.buffer_format = LIBXSMM_DNN_TENSOR_FORMAT_NCPACKED;
  desc.filter_format = LIBXSMM_DNN_TENSOR_FORMAT_CKPACKED;
  libxsmm_dnn_fullyconnected* handle = libxsmm_dnn_create_fullyconnected(desc, &status);
  check(status, "create_fullyconnected");
  libxsmm_dnn_tensor *tensor, *output;
  size_t bytes;
  TENSOR(fullyconnected_, handle, LIBXSMM_DNN_REGULAR_INPUT, tensor, bytes);
  TENSOR(fullyconnected_, handle, LIBXSMM_DNN_REGULAR_FILTER, tensor, bytes);
  TENSOR(fullyconnected_, handle, LIBXSMM_DNN_GRADIENT_INPUT, tensor, bytes);
  TENSOR(fullyconnected_, handle, LIBXSMM_DNN_GRADIENT_FILTER, tensor, bytes);
  TENSOR(fullyconnected_, handle, LIBXSMM_DNN_GRADIENT_OUTPUT, tensor, bytes);
  TENSOR(fullyconnected_, handle, LIBXSMM_DNN_REGULAR_OUTPUT, output, bytes);
  check(libxsmm_dnn_fullyconnected_bind_scratch(handle,
                                                memory(libxsmm_dnn_fullyconnected_get_scratch_size(handle, &status))),
        "scratch");
  EXECUTE(fullyconnected_, handle, FWD);
  EXECUTE(fullyconnected_, handle, LIBXSMM_DNN_COMPUTE_KIND_BWDUPD);
  printf("%.1f\n", sum(libxsmm_dnn_get_tensor_data_ptr(output, &status), bytes));
  check(libxsmm_dnn_destroy_fullyconnected(handle), "destroy");
}

static void pooling(void) {
  libxsmm_dnn_err_t status;
  libxsmm_dnn_pooling_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.N = 4;
  desc.C = 32;
  desc.H = desc.W = 8;
  desc.R = desc.S = desc.u = desc.v = 2;
  desc.threads = threads;
  desc.datatype_in = desc.datatype_out = LIBXSMM_DNN_DATATYPE_F32;
  desc.datatype_mask = LIBXSMM_DNN_DATATYPE_I32;
  desc.buffer_format = LIBXSMM_DNN_TENSOR_FORMAT_LIBXSMM;
  desc.pooling_type = LIBXSMM_DNN_POOLING_MAX;
  libxsmm_dnn_pooling* handle = libxsmm_dnn_create_pooling(desc, &status);
  check(status, "create_pooling");
  libxsmm_dnn_tensor *tensor, *output;
  size_t bytes;
  TENSOR(pooling_, handle, LIBXSMM_DNN_POOLING_MASK, tensor, bytes);
  TENSOR(pooling_, handle, LIBXSMM_DNN_REGULAR_INPUT, tensor, bytes);
  TENSOR(pooling_, handle, LIBXSMM_DNN_GRADIENT_INPUT, tensor, bytes);
  TENSOR(pooling_, handle, LIBXSMM_DNN_GRADIENT_OUTPUT, tensor, bytes);
  TENSOR(pooling_, handle, LIBXSMM_DNN_REGULAR_OUTPUT, output, bytes);
  check(libxsmm_dnn_pooling_bind_scratch(handle, memory(libxsmm_dnn_pooling_get_scratch_size(handle, &status))),
        "scratch");
  EXECUTE(pooling_, handle, FWD);
  EXECUTE(pooling_, handle, BWD);
  printf("%.1f\n", sum(libxsmm_dnn_get_tensor_data_ptr(output, &status), bytes));
  check(libxsmm_dnn_destroy_pooling(handle), "destroy");
}

static void update(void) {
  libxsmm_dnn_err_t status;
  libxsmm_dnn_optimizer_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.C = 64;
  desc.K = 32;
  desc.bc = desc.bk = 16;
  desc.learning_rate = 0.5f;
  desc.threads = threads;
  desc.opt_type = LIBXSMM_DNN_OPTIMIZER_SGD;
  desc.datatype = desc.datatype_master = LIBXSMM_DNN_DATATYPE_F32;
  desc.filter_format = LIBXSMM_DNN_TENSOR_FORMAT_CKPACKED;
  libxsmm_dnn_optimizer* handle = libxsmm_dnn_create_optimizer(desc, &status);
  check(status, "create_optimizer");
  libxsmm_dnn_tensor *filter, *gradient;
  size_t bytes;
  TENSOR(optimizer_, handle, LIBXSMM_DNN_GRADIENT_FILTER, gradient, bytes);
  TENSOR(optimizer_, handle, LIBXSMM_DNN_REGULAR_FILTER, filter, bytes);
  (void)gradient;
  EXECUTE(optimizer_, handle);
  printf("%.1f\n", sum(libxsmm_dnn_get_tensor_data_ptr(filter, &status), bytes));
  check(libxsmm_dnn_destroy_optimizer(handle), "destroy");
}

static void products(void) {
  const int m = 23, n = 17, k = 31, groups = 2, sizes[] = {2, 1}, ms[] = {8, 4}, ns[] = {8, 4}, ks[] = {8, 4};
  const float alpha = 1, beta = 0, alphas[] = {1, 1}, betas[] = {0, 0};
  const double one = 1, zero = 0;
  float *a = memory(1 << 14), *b = memory(1 << 14), *c = memory(1 << 14);
  double *da = calloc(4096, 8), *db = calloc(4096, 8), *dc = calloc(4096, 8);
  for (int i = 0; i < 3; ++i) libxsmm_sgemm("N", "N", &m, &n, &k, &alpha, a, &m, b, &k, &beta, c, &m);
  printf("%.1f\n", sum(c, m * n * 4));
  libxsmm_sgemm(NULL, NULL, &m, NULL, NULL, &alpha, a, NULL, b, NULL, &beta, c, NULL);  // a square one: all sizes are m
  libxsmm_dgemm("N", "N", &m, &n, &k, &one, da, &m, db, &k, &zero, dc, &m);
  const float *as[] = {a, a + 64, a}, *bs[] = {b, b + 64, b};
  float* cs[] = {c, c + 64, c + 128};
  libxsmm_sgemm_batch("NN", "NN", ms, ns, ks, alphas, as, ms, bs, ks, betas, cs, ms, &groups, sizes);
  const int offsets[] = {0, 64, 128, 192, 256};
  const int square = 8;
  libxsmm_gemm_batch(LIBXSMM_GEMM_PRECISION_F32, LIBXSMM_GEMM_PRECISION_F32, "N", "N", 8, 8, 8, &alpha, a, &square, b,
                     &square, &beta, c, &square, 0, sizeof(int), offsets, offsets, offsets, 5);
  for (int i = 0; i < 2; ++i) {
    libxsmm_smmfunction kernel = libxsmm_smmdispatch(16, 12, 10, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    kernel(a, b, c);
  }
  const unsigned long long count = 2;
  libxsmm_smmfunction_reducebatch_addr reduce =
      libxsmm_smmdispatch_reducebatch_addr(8, 8, 8, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  reduce(as, bs, c, &count);
  printf("%.1f\n", sum(c, 64 * 4));
}

static void computes(void) {
  static float a[64 * 64], b[64 * 64], c[64 * 64];
  libxsmm_smmfunction small = libxsmm_smmdispatch(16, 16, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  libxsmm_smmfunction large = libxsmm_smmdispatch(64, 48, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  struct timespec now = {0, 0};
  while (now.tv_sec == 0 && now.tv_nsec < 500000000) {
    for (int i = 0; i < 4000; ++i) small(a, b, c);
    for (int i = 0; i < 1000; ++i) large(a, b, c);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  }
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "cnn";
  threads = argc > 2 ? atoi(argv[2]) : 2;
  libxsmm_init();
  if (strcmp(mode, "cnn") == 0) cnn(argc > 3 ? atoi(argv[3]) : 2);
  if (strcmp(mode, "products") == 0) products();
  if (strcmp(mode, "computes") == 0) computes();
  if (strcmp(mode, "layers") == 0) {
    fully_connected();
    pooling();
    update();
  }
  libxsmm_finalize();
  return 0;
}
