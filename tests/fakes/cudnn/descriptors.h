// Descriptors of the legacy half of the fake libcudnn: the values set, for the genuine getters.
#pragma once

#include <cstring>

#include "cudnn.h"

constexpr int kMostDimensions = 8;

struct Tensor {
  int type = 0, count = 0;
  int sizes[kMostDimensions] = {};
  int strides[kMostDimensions] = {};
};

struct Filter {
  int type = 0, format = 0, count = 0;
  int sizes[kMostDimensions] = {};
};

struct Convolution {
  int count = 0, mode = 0, compute_type = 0, groups = 1, math_type = 0;
  int pads[kMostDimensions] = {};
  int strides[kMostDimensions] = {};
  int dilations[kMostDimensions] = {};
};

struct Activation {
  int mode = 0, nan = 0;
  double coefficient = 0;
};

template <class T>
T* As(const void* descriptor) {
  return static_cast<T*>(const_cast<void*>(descriptor));
}

// The functions that create and destroy descriptors.
template <class T>
int Create(void** out) {
  *out = fake::New<T>();
  return 0;
}

template <class T>
int Destroy(void* descriptor) {
  fake::Delete(static_cast<T*>(descriptor));
  return 0;
}

inline void CopyInts(int* to, const int* from, int count) {
  if (to != nullptr && count > 0) memcpy(to, from, static_cast<size_t>(count) * sizeof(int));
}
