#include "preload/decode/contents.h"

#include "preload/base/own_memory.h"

namespace dlhook::inline decode {
namespace {

constexpr uint64_t kPieces = 8;
constexpr uint64_t kPieceBytes = 128;
constexpr uint64_t kWords = kPieces * kPieceBytes / 8;

}  // namespace

uint64_t SampleContents(const void* buffer, uint64_t bytes) {
  iovec pieces[kPieces];
  for (uint64_t i = 0; i < kPieces; ++i) {
    uint64_t at = (bytes - kPieceBytes) / (kPieces - 1) * i;
    if (i == kPieces - 1) at = bytes - kPieceBytes;
    pieces[i] = {const_cast<char*>(static_cast<const char*>(buffer)) + at, kPieceBytes};
  }
  uint64_t words[kWords];
  if (CopyOwnPieces(pieces, kPieces, words, sizeof words) != sizeof words) return 0;
  uint64_t hash = 0, differences = 0;
  for (uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    differences |= word ^ words[0];
  }
  if (differences == 0) return 0;
  return hash == 0 ? 1 : hash;
}

}  // namespace dlhook::inline decode
