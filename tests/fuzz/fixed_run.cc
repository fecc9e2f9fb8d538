// Runs a fuzz target without a fuzzer: every file of the folders given, then a fixed number of
// mutations of them, always the same ones. For CI, which has the compiler of the other tests and no
// time to search.
//
//   TARGET_fuzz [--inputs N] [--seed N] FOLDER|FILE…
//
// An input that breaks the target is left in the working folder as crash-TARGET.
#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using Bytes = std::vector<uint8_t>;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// For targets whose inputs have a structure.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                                unsigned int seed);
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kMaxBytes = 1 << 15;

std::mt19937_64 random_bits;
Bytes current;
std::string crash_file;

size_t Below(size_t bound) { return bound == 0 ? 0 : random_bits() % bound; }

void KeepCurrent() {
  const int fd = open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || write(fd, current.data(), current.size()) != static_cast<ssize_t>(current.size())) return;
  close(fd);
  fprintf(stderr, "the input is in %s\n", crash_file.c_str());
}

void OnAbort(int) { KeepCurrent(); }

void Run(Bytes input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

std::vector<Bytes> ReadSeeds(const std::vector<std::string>& places) {
  std::vector<std::string> files;
  for (const std::string& place : places) {
    if (!std::filesystem::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(place)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> seeds;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// The input, changed in a few places.
Bytes Mutated(Bytes input) {
  const size_t max = std::max(kMaxBytes, input.size());
  for (size_t changes = 1 + Below(4); changes > 0; --changes) {
    const size_t size = input.size();
    input.resize(max);
    const auto seed = static_cast<unsigned>(random_bits());
    const size_t changed = LLVMFuzzerCustomMutator != nullptr ? LLVMFuzzerCustomMutator(input.data(), size, max, seed)
                                                              : LLVMFuzzerMutate(input.data(), size, max);
    input.resize(changed);
  }
  return input;
}

}  // namespace

// Called by custom mutators: one change of a few bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  static constexpr uint8_t kTelling[] = {0, 1, 2, 0x7f, 0x80, 0xff, '\n', ',', ':', '-', '0', '9'};
  const size_t at = Below(size + 1);
  const size_t count = 1 + Below(8);
  switch (Below(5)) {
    case 0:  // removes some
      if (at + count > size) break;
      memmove(data + at, data + at + count, size - at - count);
      return size - count;
    case 1:  // inserts some
      if (size + count > max_size) break;
      memmove(data + at + count, data + at, size - at);
      for (size_t i = 0; i < count; ++i) data[at + i] = static_cast<uint8_t>(random_bits());
      return size + count;
    case 2:  // repeats some from elsewhere
      if (size < count || size + count > max_size) break;
      memmove(data + at + count, data + at, size - at);
      memmove(data + at, data + Below(size - count + 1), count);
      return size + count;
    case 3:
      if (at < size) data[at] = kTelling[Below(sizeof kTelling)];
      return size;
    default:
      break;
  }
  if (at < size) data[at] ^= static_cast<uint8_t>(1u << Below(8));
  return size;
}

int main(int argc, char** argv) {
  size_t inputs = 0;
  std::vector<std::string> places;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--inputs") == 0 && i + 1 < argc) {
      inputs = strtoul(argv[++i], nullptr, 10);
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      random_bits.seed(strtoul(argv[++i], nullptr, 10));
    } else {
      places.emplace_back(argv[i]);
    }
  }
  crash_file = "crash-" + std::filesystem::path(argv[0]).filename().string();
  __sanitizer_set_death_callback(KeepCurrent);
  signal(SIGABRT, OnAbort);
  const std::vector<Bytes> seeds = ReadSeeds(places);
  for (const Bytes& seed : seeds) Run(seed);
  for (size_t i = 0; i < inputs; ++i) Run(Mutated(seeds.empty() ? Bytes() : seeds[Below(seeds.size())]));
  printf("%zu seeds and %zu mutations\n", seeds.size(), inputs);
  return 0;
}
