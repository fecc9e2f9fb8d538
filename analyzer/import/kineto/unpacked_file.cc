// With zlib and libzstd.
#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/import/kineto/trace_json.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline kineto {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr int kGzipWindowBits = 15 + 16;  // the largest window; 16: with gzip's header and trailer
constexpr absl::string_view kGzip = "\x1f\x8b";
constexpr absl::string_view kZstd = "\x28\xb5\x2f\xfd";

}  // namespace

struct UnpackedFile::Packer {
  explicit Packer(ByteSource file) : file(std::move(file)), chunk(&this->file, this->file.size()) {}
  ~Packer() {
    if (kind == Kind::kGzip) inflateEnd(&gzip);
    ZSTD_freeDStream(zstd);
  }

  enum class Kind { kPlain, kGzip, kZstd };

  absl::Status Begin(const std::string& name) {
    path = name;
    const absl::StatusOr<absl::string_view> begin = chunk.At(0, kZstd.size());
    if (!begin.ok()) return begin.status();
    if (absl::StartsWith(*begin, kGzip) && inflateInit2(&gzip, kGzipWindowBits) == Z_OK) kind = Kind::kGzip;
    if (absl::StartsWith(*begin, kZstd)) {
      zstd = ZSTD_createDStream();
      kind = Kind::kZstd;
    }
    if (kind != Kind::kPlain) unpacked.resize(kPieceBytes);
    return absl::OkStatus();
  }

  absl::Status Damaged(absl::string_view why) const {
    return absl::DataLossError(absl::StrCat(path, ": byte ", offset, " of ", file.size(), ": ", why));
  }

  // Unpacks from `packed`, which gets shorter, as much as there is room for.
  absl::StatusOr<size_t> Gunzip(absl::string_view* packed) {
    if (at_end) {  // further members: files packed one after another
      inflateReset(&gzip);
      at_end = false;
    }
    gzip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed->data()));
    gzip.avail_in = static_cast<uInt>(packed->size());
    gzip.next_out = reinterpret_cast<Bytef*>(unpacked.data());
    gzip.avail_out = static_cast<uInt>(unpacked.size());
    const int result = inflate(&gzip, Z_NO_FLUSH);
    packed->remove_prefix(packed->size() - gzip.avail_in);
    at_end = result == Z_STREAM_END;
    if (result != Z_OK && !at_end && result != Z_BUF_ERROR) return Damaged("expected gzip's format");
    return unpacked.size() - gzip.avail_out;
  }

  absl::StatusOr<size_t> Unzstd(absl::string_view* packed) {
    ZSTD_inBuffer in = {packed->data(), packed->size(), 0};
    ZSTD_outBuffer out = {unpacked.data(), unpacked.size(), 0};
    const size_t result = ZSTD_decompressStream(zstd, &out, &in);
    if (ZSTD_isError(result)) return Damaged(absl::StrCat("expected zstd's format: ", ZSTD_getErrorName(result)));
    packed->remove_prefix(in.pos);
    at_end = result == 0;
    return out.pos;
  }

  absl::StatusOr<absl::string_view> Next() {
    while (true) {
      const absl::StatusOr<absl::string_view> window = chunk.At(offset, 1);
      if (!window.ok()) return window.status();
      absl::string_view packed = window->substr(0, kPieceBytes);
      if (kind == Kind::kPlain) {
        offset += packed.size();
        return packed;
      }
      // An unpacker may hold more than it had room to return.
      if (packed.empty() && (at_end || !may_hold_more)) {
        if (at_end) return absl::string_view();
        return Damaged("the packed file is cut off here");
      }
      const size_t before = packed.size();
      const absl::StatusOr<size_t> bytes = kind == Kind::kGzip ? Gunzip(&packed) : Unzstd(&packed);
      if (!bytes.ok()) return bytes.status();
      offset += before - packed.size();
      may_hold_more = *bytes == unpacked.size();
      if (*bytes > 0) return absl::string_view(unpacked.data(), *bytes);
    }
  }

  std::string path;
  ByteSource file;
  ByteChunk chunk;
  uint64_t offset = 0;  // in the file
  Kind kind = Kind::kPlain;
  z_stream gzip = {};
  ZSTD_DStream* zstd = nullptr;
  bool at_end = false;  // of a member or frame
  bool may_hold_more = false;
  std::vector<char> unpacked;
};

UnpackedFile::UnpackedFile() = default;
UnpackedFile::UnpackedFile(UnpackedFile&&) noexcept = default;
UnpackedFile::~UnpackedFile() = default;

absl::StatusOr<UnpackedFile> UnpackedFile::Open(const std::string& path) {
  absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return file.status();
  UnpackedFile opened;
  opened.packer_ = std::make_unique<Packer>(*std::move(file));
  if (absl::Status status = opened.packer_->Begin(path); !status.ok()) return status;
  return opened;
}

absl::string_view UnpackedFile::Next() {
  if (!status_.ok()) return {};
  const absl::StatusOr<absl::string_view> piece = packer_->Next();
  status_ = piece.status();
  return piece.ok() ? *piece : absl::string_view();
}

uint64_t UnpackedFile::bytes_read() const { return packer_->offset; }
uint64_t UnpackedFile::size() const { return packer_->file.size(); }

}  // namespace dlhook::analyzer::kineto
