#include <fcntl.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <thread>

#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

constexpr absl::string_view kLoads[] = {"processors", "cache", "memory", "disk"};  // by LoadKind
constexpr double kSlice = 0.01;                                                    // seconds
constexpr uint64_t kPiece = 1 << 20;
constexpr uint64_t kFileBytes = 64 << 20;
constexpr uint64_t kLeastMemory = 64 << 20;

// Of the array that is copied to and fro: as large as the sharers' part of the L3 cache, or four times all of it.
uint64_t ArrayBytes(LoadKind kind, size_t sharers) {
  const Caches caches = ReadCaches(AllowedProcessors());
  const uint64_t cache = std::max({caches.l3_bytes, caches.l2_bytes, uint64_t{1} << 20});
  if (kind == LoadKind::kCache) return std::max(cache / sharers, 2 * kPiece);
  struct sysinfo info = {};
  sysinfo(&info);
  const uint64_t free_bytes = uint64_t{info.freeram} * info.mem_unit;
  return std::max(std::min(std::max(4 * cache, kLeastMemory), free_bytes / 4 / sharers), 2 * kPiece);
}

// Bytes of a piece of work.
std::function<uint64_t()> WorkOf(LoadKind kind, size_t sharers, const std::string& folder) {
  if (kind == LoadKind::kProcessors) {
    return [x = 1.0]() mutable {
      for (int i = 0; i < 10000; ++i) x = x * 0.999999 + 0.5;
      return static_cast<uint64_t>(x > 0);
    };
  }
  auto bytes =
      std::vector<char>(kind == LoadKind::kDisk ? kPiece : ArrayBytes(kind, sharers) / 2 / kPiece * 2 * kPiece, 1);
  if (kind == LoadKind::kDisk) {
    const std::string path = absl::StrCat(folder, "/load-", getpid());
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return [file, bytes = std::move(bytes), at = uint64_t{0}]() mutable {
      const ssize_t written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
      at = (at + kPiece) % kFileBytes;
      if (written < 0 || fdatasync(file) != 0) _exit(1);
      return static_cast<uint64_t>(written);
    };
  }
  return [bytes = std::move(bytes), at = size_t{0}]() mutable {
    const size_t half = bytes.size() / 2;
    memcpy(bytes.data() + at, bytes.data() + half + at, kPiece);
    at = (at + kPiece) % (half / kPiece * kPiece);
    return 2 * kPiece;
  };
}

}  // namespace

absl::StatusOr<LoadKind> FindLoad(absl::string_view name) {
  const auto* const found = absl::c_find(kLoads, name);
  if (found != std::end(kLoads)) return static_cast<LoadKind>(found - std::begin(kLoads));
  return absl::InvalidArgumentError(
      absl::StrCat("--load expects processors, cache, memory or disk, found '", name, "'"));
}

std::string LoadName(LoadKind kind) { return std::string(kLoads[static_cast<size_t>(kind)]); }
bool MovesBytes(LoadKind kind) { return kind != LoadKind::kProcessors; }

void RunLoad(LoadKind kind, double intensity, size_t sharers, const std::string& folder, std::atomic<uint64_t>* done) {
  const std::function<uint64_t()> work = WorkOf(kind, sharers, folder);
  while (true) {
    const Clock::time_point start = Clock::now();
    double took = 0;
    while (took < kSlice) {
      *done += work();
      took = SecondsSince(start);
    }
    if (intensity < 1) std::this_thread::sleep_for(std::chrono::duration<double>(took * (1 / intensity - 1)));
  }
}

}  // namespace dlhook::analyzer::calibrate
