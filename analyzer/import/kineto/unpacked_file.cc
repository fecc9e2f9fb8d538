// With zlib and libzstd.
#include "analyzer/import/kineto/unpacked_file.h"

namespace dlhook::analyzer::inline kineto {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr int kGzipWindowBits = 15 + 16;  // the largest window; 16: with gzip's header and trailer
constexpr absl::string_view kGzip = "\x1f\x8b";
constexpr absl::string_view kZstd = "\x28\xb5\x2f\xfd";

}  // namespace

UnpackedFile::UnpackedFile(const std::string& path, ByteSource file)
    : path_(path), file_(std::move(file)), chunk_(&file_, file_.size()) {
  const absl::StatusOr<absl::string_view> begin = chunk_.At(0, kZstd.size());
  status_ = begin.status();
  if (!begin.ok()) return;
  if (absl::StartsWith(*begin, kGzip) && inflateInit2(&gzip_, kGzipWindowBits) == Z_OK) kind_ = Kind::kGzip;
  if (absl::StartsWith(*begin, kZstd)) {
    zstd_ = ZSTD_createDStream();
    kind_ = Kind::kZstd;
  }
  if (kind_ != Kind::kPlain) unpacked_.resize(kPieceBytes);
}

absl::StatusOr<std::unique_ptr<UnpackedFile>> UnpackedFile::Open(const std::string& path) {
  absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return file.status();
  auto opened = std::unique_ptr<UnpackedFile>(new UnpackedFile(path, *std::move(file)));
  if (!opened->status().ok()) return opened->status();
  return opened;
}

UnpackedFile::~UnpackedFile() {
  if (kind_ == Kind::kGzip) inflateEnd(&gzip_);
  ZSTD_freeDStream(zstd_);
}

absl::string_view UnpackedFile::Damaged(absl::string_view why) {
  status_ = absl::DataLossError(absl::StrCat(path_, ": byte ", offset_, " of ", file_.size(), ": ", why));
  return {};
}

size_t UnpackedFile::Gunzip(absl::string_view* packed) {
  if (at_end_) inflateReset(&gzip_);  // further members: files packed one after another
  gzip_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed->data()));
  gzip_.avail_in = static_cast<uInt>(packed->size());
  gzip_.next_out = reinterpret_cast<Bytef*>(unpacked_.data());
  gzip_.avail_out = static_cast<uInt>(unpacked_.size());
  const int result = inflate(&gzip_, Z_NO_FLUSH);
  packed->remove_prefix(packed->size() - gzip_.avail_in);
  at_end_ = result == Z_STREAM_END;
  if (result != Z_OK && !at_end_ && result != Z_BUF_ERROR) Damaged("expected gzip's format");
  return unpacked_.size() - gzip_.avail_out;
}

size_t UnpackedFile::Unzstd(absl::string_view* packed) {
  ZSTD_inBuffer in = {packed->data(), packed->size(), 0};
  ZSTD_outBuffer out = {unpacked_.data(), unpacked_.size(), 0};
  const size_t result = ZSTD_decompressStream(zstd_, &out, &in);
  if (ZSTD_isError(result)) Damaged(absl::StrCat("expected zstd's format: ", ZSTD_getErrorName(result)));
  packed->remove_prefix(in.pos);
  at_end_ = result == 0;
  return out.pos;
}

absl::string_view UnpackedFile::Next() {
  while (status_.ok()) {
    const absl::StatusOr<absl::string_view> window = chunk_.At(offset_, 1);
    status_ = window.status();
    if (!window.ok()) break;
    absl::string_view packed = window->substr(0, kPieceBytes);
    const size_t before = packed.size();
    if (kind_ == Kind::kPlain) {
      offset_ += before;
      return packed;
    }
    // An unpacker may hold more than it had room to return.
    if (packed.empty() && at_end_) break;
    if (packed.empty() && !may_hold_more_) return Damaged("the packed file is cut off here");
    const size_t bytes = kind_ == Kind::kGzip ? Gunzip(&packed) : Unzstd(&packed);
    if (!status_.ok()) break;
    offset_ += before - packed.size();
    may_hold_more_ = bytes == unpacked_.size();
    if (bytes > 0) return {unpacked_.data(), bytes};
  }
  return {};
}

}  // namespace dlhook::analyzer::kineto
