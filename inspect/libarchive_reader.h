// LibarchiveReader: what reads the formats of archive.h, libarchive over a
// source or over what it unpacks to. For archive.cc, which adds to it what each
// format needs so that nothing is left out. Not thread-safe.

#ifndef TWINPATH_INSPECT_LIBARCHIVE_READER_H_
#define TWINPATH_INSPECT_LIBARCHIVE_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/archive.h"
#include "inspect/byte_source.h"
#include "inspect/unpacking.h"

struct archive;
struct archive_entry;

namespace twinpath::inspect {

// What reads a format: libarchive, over the source or what it unpacks to.
class LibarchiveReader : public ArchiveReader {
 public:
  // `unpacking`: null for what lies in the source as it is; then `source` may
  // be a part of what is packed.
  LibarchiveReader(const ByteSource& source,
                   std::unique_ptr<Unpacking> unpacking, std::string format);
  ~LibarchiveReader() override;
  LibarchiveReader(const LibarchiveReader&) = delete;
  LibarchiveReader& operator=(const LibarchiveReader&) = delete;

  const std::string& format() const override { return format_; }
  const std::vector<std::string>& filters() const override { return filters_; }
  uint64_t stored_bytes_read() const override;

  absl::StatusOr<bool> Next(ArchiveMember* member) override;

  absl::StatusOr<std::string> Head(size_t max) override;

  absl::Status Read(
      const std::function<absl::Status(absl::string_view)>& sink) override;

  std::unique_ptr<ByteSource> InPlace() override;

  std::vector<ArchiveRemark> TakeRemarks() override;

 protected:
  using Enable = int (*)(struct archive*);

  void Remark(std::string code, std::string detail);

  // Starts libarchive at `at`, where the first member is; it is read.
  absl::Status Open(Enable enable, uint64_t at);
  // Reads the first header. False: libarchive does not know the format.
  bool KeepFirst();

  // What one call for the next header says.
  enum class Header { kMember, kEnd, kDamaged, kBroken };
  Header ReadHeader();

  // Reads the next header.
  virtual absl::StatusOr<bool> Advance();

  // Where libarchive is, in the source or what it unpacks to.
  uint64_t Position() const;
  // Where it began to look for the header that it read last.
  uint64_t HeaderPosition() const;

  // Returns what is at `at` and behind it, a window's worth at most; empty at
  // the end. What was unpacked can be had again as far back as the window goes.
  absl::StatusOr<absl::string_view> BytesAt(uint64_t at);

  // Takes from the bytes of what is packed that may be passed. False: there are
  // none left, which is said.
  bool Pass(uint64_t bytes);
  bool packed() const { return unpacking_ != nullptr; }
  const ByteSource& source() const { return source_; }

  // Where nothing can be read any more.
  absl::Status broken_;

 private:
  static ssize_t OnRead(struct archive* handle, void* self, const void** out);
  static int64_t OnSkip(struct archive*, void* self, int64_t request);
  static int64_t OnSeek(struct archive*, void* self, int64_t offset,
                        int whence);

  ssize_t Fetch(struct archive* handle, const void** out);

  absl::Status Damage() const;

  // What libarchive says beside a result, where that is damage. Most of it is
  // about names in other character sets.
  std::string Complaint() const;

  // Gets the next piece of the member and the hole before it. Returns false at
  // the end and on damage (then done_ says so).
  bool Block(absl::string_view* piece, uint64_t* gap);

  // Adds the next piece to head_.
  void Take();

  static absl::Status Zeros(
      uint64_t count, const std::function<absl::Status(absl::string_view)>& to);

  const ByteSource& source_;
  const std::unique_ptr<Unpacking> unpacking_;
  const std::string format_;
  std::vector<std::string> filters_;
  archive* handle_ = nullptr;
  archive_entry* entry_ = nullptr;
  // Bytes of the source, or of what it unpacks to, and where they are there.
  std::string window_;
  uint64_t window_at_ = 0;
  size_t filled_ = 0;
  // Where libarchive began, and what it gets next.
  uint64_t base_ = 0;
  uint64_t at_ = 0;
  uint64_t taken_ = 0;
  uint64_t passed_ = 0;
  // Where a cap of the unpacking ended it.
  absl::Status cap_;
  std::optional<absl::StatusOr<bool>> first_;
  std::vector<ArchiveRemark> remarks_;
  std::string complaint_;
  // Of the member.
  std::string path_;
  std::string head_;
  uint64_t size_ = 0;
  uint64_t data_at_ = 0;
  bool plain_ = false;
  std::string pending_;
  uint64_t pending_gap_ = 0;
  bool ended_ = false;
  uint64_t position_ = 0;
  absl::Status done_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_LIBARCHIVE_READER_H_
