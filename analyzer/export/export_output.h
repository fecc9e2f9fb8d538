// Takes the bytes of an export piece by piece, so that a long run's export is never in memory as a whole.
#ifndef DLHOOK_ANALYZER_EXPORT_EXPORT_OUTPUT_H_
#define DLHOOK_ANALYZER_EXPORT_EXPORT_OUTPUT_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline exports {

class ExportOutput {
 public:
  // `write` takes pieces in order; after its first error it is not called again.
  explicit ExportOutput(std::function<absl::Status(absl::string_view)> write) : write_(std::move(write)) {}
  ExportOutput(const ExportOutput&) = delete;
  ExportOutput& operator=(const ExportOutput&) = delete;

  // To append to. Call Flush at places where a text may be divided: at the ends of lines.
  std::string& bytes() { return bytes_; }
  void Flush() {
    if (bytes_.size() >= kPieceBytes) Write();
  }
  // Writes the rest.
  absl::Status Finish() {
    Write();
    return status_;
  }
  // False after an error: the rest need not be made.
  bool ok() const { return status_.ok(); }

 private:
  static constexpr size_t kPieceBytes = 1 << 20;

  void Write() {
    if (status_.ok() && !bytes_.empty()) status_ = write_(bytes_);
    bytes_.clear();
  }

  const std::function<absl::Status(absl::string_view)> write_;
  std::string bytes_;
  absl::Status status_;
};

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_EXPORT_OUTPUT_H_
