#include "runner/load_job.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "inspect/codec.h"
#include "inspect/fatbin.h"

namespace twinpath::runner {
namespace {

// Larger than any image of the libraries known, smaller than a host's memory.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

absl::StatusOr<std::string> ReadAt(int fd, uint64_t offset, uint64_t size) {
  if (size > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(size, " bytes at ", offset, " are above the bound"));
  }
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd, bytes.data() + done, size - done,
                              static_cast<off_t>(offset + done));
    if (got <= 0) {
      return absl::DataLossError(
          absl::StrCat("cannot read ", size, " bytes at ", offset));
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

uint32_t Word(absl::string_view bytes, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

absl::StatusOr<std::string> Decoded(v1::Compression compression,
                                    std::string stored, uint64_t expanded) {
  if (compression == v1::COMPRESSION_NONE) return stored;
  if (expanded > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(expanded, " bytes after decoding are above the bound"));
  }
  inspect::Decoder decoder;
  inspect::Buffer out;
  TWINPATH_RETURN_IF_ERROR(
      decoder.DecodeAll(compression, stored, expanded, out));
  return std::string(out.view());
}

}  // namespace

std::string LoadJob::Line() const {
  return absl::StrCat(id, " ", static_cast<int>(form), " ", offset, " ", bytes,
                      " ", expanded, " ", static_cast<int>(compression), " ",
                      ptx ? 1 : 0, " ", number, "\n");
}

absl::StatusOr<LoadJob> LoadJob::Parse(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, ' ', absl::SkipEmpty());
  LoadJob job;
  int form = 0;
  int compression = 0;
  int ptx = 0;
  if (words.size() != 8 || !absl::SimpleAtoi(words[0], &job.id) ||
      !absl::SimpleAtoi(words[1], &form) || form < 0 || form > 3 ||
      !absl::SimpleAtoi(words[2], &job.offset) ||
      !absl::SimpleAtoi(words[3], &job.bytes) ||
      !absl::SimpleAtoi(words[4], &job.expanded) ||
      !absl::SimpleAtoi(words[5], &compression) ||
      !v1::Compression_IsValid(compression) ||
      !absl::SimpleAtoi(words[6], &ptx) || ptx < 0 || ptx > 1 ||
      !absl::SimpleAtoi(words[7], &job.number)) {
    return absl::InvalidArgumentError(absl::StrCat("no job: ", line));
  }
  job.form = static_cast<Form>(form);
  job.compression = static_cast<v1::Compression>(compression);
  job.ptx = ptx == 1;
  return job;
}

LoadJob JobOf(const v1::Fatbin& fatbin, const v1::Image& image) {
  LoadJob job;
  job.form = fatbin.bare() ? LoadJob::Form::kBare : LoadJob::Form::kEntry;
  job.offset = image.offset();
  job.bytes = image.stored_bytes();
  job.expanded = image.expanded_bytes();
  job.compression = image.compression();
  job.ptx = image.kind() == v1::IMAGE_KIND_PTX ||
            image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
  job.number = image.target().number();
  return job;
}

absl::StatusOr<std::string> BytesOf(int fd, const LoadJob& job) {
  std::string bytes;
  if (job.form == LoadJob::Form::kFatbin) {
    TWINPATH_ASSIGN_OR_RETURN(bytes, ReadAt(fd, job.offset, job.bytes));
  } else if (job.form == LoadJob::Form::kBare) {
    TWINPATH_ASSIGN_OR_RETURN(std::string stored,
                              ReadAt(fd, job.offset, job.bytes));
    TWINPATH_ASSIGN_OR_RETURN(
        bytes, Decoded(job.compression, std::move(stored), job.expanded));
  } else {
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string header,
        ReadAt(fd, job.offset, inspect::kFatbinEntryBytes));
    const uint64_t header_bytes = Word(header, 4);
    if (job.form == LoadJob::Form::kEntry) {
      if (job.bytes > kMostBytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat(job.bytes, " bytes are above the bound"));
      }
      const uint64_t size = header_bytes + job.bytes;
      TWINPATH_ASSIGN_OR_RETURN(const std::string entry,
                                ReadAt(fd, job.offset, size));
      // Magic, version 1, header of 16 bytes, size of the rest.
      std::array<char, inspect::kFatbinHeaderBytes> head = {};
      std::memcpy(head.data(), inspect::kFatbinMagic, 4);
      head[4] = 1;
      head[6] = static_cast<char>(inspect::kFatbinHeaderBytes);
      std::memcpy(head.data() + 8, &size, sizeof(size));
      bytes.assign(head.data(), head.size());
      bytes += entry;
    } else {
      const uint64_t exact = Word(header, 16);
      TWINPATH_ASSIGN_OR_RETURN(std::string stored,
                                ReadAt(fd, job.offset + header_bytes,
                                       exact != 0 ? exact : job.bytes));
      TWINPATH_ASSIGN_OR_RETURN(
          bytes, Decoded(job.compression, std::move(stored), job.expanded));
    }
  }
  bytes.push_back('\0');
  return bytes;
}

}  // namespace twinpath::runner
