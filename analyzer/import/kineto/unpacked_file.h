// The text of a file that may be packed by gzip or zstd, in pieces: never as a whole in memory.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline kineto {

class UnpackedFile {
 public:
  static absl::StatusOr<std::unique_ptr<UnpackedFile>> Open(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  // The next piece, valid until the next call; empty at the end, or where the file is damaged: see status().
  absl::string_view Next();

  const absl::Status& status() const { return status_; }
  uint64_t bytes_read() const { return offset_; }  // of the file as it is

 private:
  enum class Kind { kPlain, kGzip, kZstd };

  UnpackedFile(const std::string& path, ByteSource file);
  absl::string_view Damaged(absl::string_view why);
  // These unpack from `packed`, which gets shorter, as much as there is room for; return the bytes.
  size_t Gunzip(absl::string_view* packed);
  size_t Unzstd(absl::string_view* packed);

  const std::string path_;
  ByteSource file_;
  ByteChunk chunk_;
  uint64_t offset_ = 0;  // in the file
  Kind kind_ = Kind::kPlain;
  z_stream gzip_ = {};
  ZSTD_DStream* zstd_ = nullptr;
  bool at_end_ = false;  // of a member or frame
  bool may_hold_more_ = false;
  std::vector<char> unpacked_;
  absl::Status status_;
};

}  // namespace dlhook::analyzer::kineto
