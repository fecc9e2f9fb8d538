// With zlib: no file name and no time in the header.
#include "analyzer/export/gzip.h"

#include <zlib.h>

#include <cstdlib>

namespace dlhook::analyzer::inline exports {
namespace {

constexpr int kGzipWindowBits = 15 + 16;   // the largest window; 16: with gzip's header and trailer
constexpr int kMemoryLevel = 8;            // zlib's default
constexpr size_t kLargestPiece = 1 << 30;  // zlib counts in 32 bits

}  // namespace

std::string Gzip(absl::string_view bytes) {
  z_stream stream = {};
  // Fails only if out of memory.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    std::abort();
  }
  std::string packed;
  char buffer[1 << 16];
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    const size_t piece = std::min(bytes.size(), kLargestPiece);
    // zlib reads only; its type has no const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(piece);
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    status = deflate(&stream, piece == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    bytes.remove_prefix(piece - stream.avail_in);
    packed.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

}  // namespace dlhook::analyzer::exports
