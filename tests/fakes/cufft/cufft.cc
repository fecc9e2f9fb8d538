// libcufft: plans are numbers; sizes are written, as callers allocate by them.
#include "fake.h"

FAKE(int, cufftCreate, int* plan) {
  static int next = 1;
  *plan = next++;
  return 0;
}

FAKE(int, cufftXtMakePlanMany, int, int, int64_t*, int64_t*, int64_t, int64_t, int, int64_t*, int64_t, int64_t, int,
     int64_t, size_t* bytes, int) {
  *bytes = 1 << 16;
  return 0;
}

FAKE(int, cufftMakePlanMany, int, int, int*, int*, int, int, int*, int, int, int, int, size_t* bytes) {
  *bytes = 1 << 16;
  return 0;
}

FAKE(int, cufftPlan1d, int* plan, int, int, int) { return behave_cufftCreate(plan); }
FAKE(int, cufftPlan2d, int* plan, int, int, int) { return behave_cufftCreate(plan); }
FAKE(int, cufftPlanMany, int* plan, int, int*, int*, int, int, int*, int, int, int, int) {
  return behave_cufftCreate(plan);
}

FAKE(int, cufftGetVersion, int* version) {
  *version = 12000;
  return 0;
}
