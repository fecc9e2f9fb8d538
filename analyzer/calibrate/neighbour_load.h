// What the neighbours that are built into `dlhook contend` do: use one part of the machine for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline calibrate {

enum class LoadKind : uint8_t { kProcessors, kCache, kMemory, kDisk };
absl::StatusOr<LoadKind> FindLoad(absl::string_view name);  // "cache"
std::string LoadName(LoadKind kind);
bool MovesBytes(LoadKind kind);  // its work is counted in bytes

// To be called in a process of its own. Works for the part `intensity` of the time, in slices of 10 ms. `sharers`: processes
// that do the same; together they fill the caches. `folder`: for the file of kDisk. `done`: in memory that the caller sees;
// bytes read and written (kProcessors: slices).
[[noreturn]] void RunLoad(LoadKind kind, double intensity, size_t sharers, const std::string& folder,
                          std::atomic<uint64_t>* done);

}  // namespace dlhook::analyzer::calibrate
