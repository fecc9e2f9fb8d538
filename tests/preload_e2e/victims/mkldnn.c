// A library that reports its executions like MKL-DNN and oneDNN before 2.2: the same variables, formats and flushes
// (src/common/verbose.cpp, primitive.cpp of v0.21.5, v1.0.4, v1.3 and v1.7), with lines as printed by the MXNet wheels.
// It computes nothing; the genuine releases are in tests/frameworks/mxnet. Named libmkldnn.so, by which the tap knows
// it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Release {
  const char* prefix;   // of all lines
  const char* version;  // of the first one
  const char* create;   // the whole beginning of a creation line, as the argument of a "%s"; NULL: part of the format
  const char* lines[2];
};

static const struct Release kReleases[] = {
    {"mkldnn",
     "Intel MKL-DNN v0.21.5",
     NULL,
     {"reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c,num:1,4x8x16x16",
      "convolution,jit:avx2,forward_training,fsrc:nChw8c fwei:OIhw8i8o fbia:x fdst:nChw8c,alg:convolution_direct,"
      "mb4_ic8oc16_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1"}},
    {"mkldnn",
     "Intel MKL-DNN v1.0.4",
     NULL,
     {"cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32::blocked:Acdb16a:f0,num:1,16x8x3x3",
      "cpu,eltwise,jit:avx512_common,forward_training,data_f32::blocked:aBcd16b:f0 diff_undef::undef::f0,"
      "alg:eltwise_relu:0:0,4x16x16x16"}},
    {"dnnl",
     "DNNL v1.3.0",
     "dnnl_verbose,create",
     {"cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32::blocked:Acdb16a:f0,,,16x8x3x3",
      "cpu,convolution,jit:avx512_common,forward_training,src_f32::blocked:abcd:f0 wei_f32::blocked:Acdb16a:f0 "
      "bia_f32::blocked:a:f0 dst_f32::blocked:aBcd16b:f0,,alg:convolution_direct,"
      "mb4_ic8oc16_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1"}},
    {"dnnl",
     "oneDNN v1.7.0",
     "dnnl_verbose,create:cache_miss",
     {"cpu,pooling,jit:avx512_core,forward_training,src_f32::blocked:aBcd16b:f0 dst_f32::blocked:aBcd16b:f0 "
      "ws_u8::blocked:aBcd16b:f0,,alg:pooling_max,mb4ic16_ih16oh8kh2dh0sh2ph0_iw16ow8kw2dw0sw2pw0",
      "cpu,inner_product,gemm:jit,forward_training,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 bia_f32::blocked:a:f0 "
      "dst_f32::blocked:ab:f0,,,mb4ic1024oc10"}},
};

static int level = -1;

int mkldnn_set_verbose(int to) {
  level = to;
  return 0;
}

static void ReadLevel(int release) {
  const char* value = getenv("MKLDNN_VERBOSE");
  const char* newer = release >= 2 ? getenv("DNNL_VERBOSE") : NULL;
  level = newer ? atoi(newer) : value ? atoi(value) : 0;
}

// The level is read at the first call, the first line printed before the first line for an execution or creation.
void Execute(int release, int rounds) {
  static int version_printed;
  const struct Release* r = &kReleases[release];
  if (level < 0) ReadLevel(release);
  const int mkldnn = strcmp(r->prefix, "mkldnn") == 0;
  if (level > 0 && !version_printed++)
    printf(mkldnn ? "mkldnn_verbose,info,%s (commit %s)\n" : "dnnl_verbose,info,%s (commit %s)\n", r->version,
           "a0a87d6");
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      if (level > 1 && r->create) printf("%s,%s,%g\n", r->create, r->lines[i], 0.125), fflush(0);
      if (level > 1 && !r->create) printf("mkldnn_verbose,create,%s,%g\n", r->lines[i], 0.125), fflush(0);
      if (level < 1) continue;
      printf(mkldnn ? "mkldnn_verbose,exec,%s,%g\n" : "dnnl_verbose,exec,%s,%g\n", r->lines[i], 0.0449219);
      fflush(release == 3 ? stdout : 0);
    }
  }
}
