// The text of a file that may be packed by gzip or zstd, in pieces: never as a whole in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline kineto {

class UnpackedFile {
 public:
  static absl::StatusOr<UnpackedFile> Open(const std::string& path);
  UnpackedFile(UnpackedFile&&) noexcept;
  ~UnpackedFile();

  // The next piece, valid until the next call; empty at the end, or where the file is damaged: see status().
  absl::string_view Next();

  const absl::Status& status() const { return status_; }
  uint64_t bytes_read() const;  // of the file as it is, of size()
  uint64_t size() const;

 private:
  struct Packer;
  UnpackedFile();

  absl::Status status_;
  std::unique_ptr<Packer> packer_;
};

}  // namespace dlhook::analyzer::kineto
