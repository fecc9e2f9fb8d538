// A hash of some bytes of a copied buffer, so that a report can tell that the same contents are copied again.
// Thread: any application thread. One system call, which reads nothing that does not exist: another thread may have
// freed the buffer of an asynchronous copy already.
#pragma once

#include <cstdint>

#include "preload/format/record.h"

namespace dlhook::inline decode {

// Of 8 pieces of 128 bytes, spread evenly with the first and the last. 0: not readable, or all of them are the same
// word: then the rest may well differ (padding, masks). `bytes` is at least kLeastSampledBytes.
uint64_t SampleContents(const void* buffer, uint64_t bytes);

}  // namespace dlhook::inline decode
