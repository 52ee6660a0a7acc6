#include "inspect/file_kind.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "inspect/fatbin.h"
#include "inspect/ptx.h"

namespace twinpath::inspect {
namespace {

struct Magic {
  size_t at;
  absl::string_view bytes;
  absl::string_view name;
  bool plain_members;
  CarrierReader reader;
};

// Archives and compressed files by the marks their formats define.
constexpr size_t kTarMarkAt = 257;
constexpr absl::string_view kTarMark = "ustar";
const Magic kArchives[] = {
    {0, "!<arch>\n", "ar archive", true, CarrierReader::kAr},
    {0, "!<thin>\n", "thin ar archive", false, CarrierReader::kAr},
    {0, "PK\x03\x04", "zip archive", false, CarrierReader::kArchive},
    {0, "PK\x05\x06", "empty zip archive", false, CarrierReader::kArchive},
    {0, "\x1f\x8b", "gzip file", false, CarrierReader::kArchive},
    {0,
     absl::string_view("\xfd"
                       "7zXZ\0",
                       6),
     "xz file", false, CarrierReader::kArchive},
    {0, "\x28\xb5\x2f\xfd", "zstd file", false, CarrierReader::kArchive},
    {0, "\x04\x22\x4d\x18", "LZ4 file", false, CarrierReader::kArchive},
    {0, "BZh", "bzip2 file", false, CarrierReader::kArchive},
    {0, absl::string_view("7z\xbc\xaf\x27\x1c", 6), "7z archive", false,
     CarrierReader::kNone},
    {0, "\xed\xab\xee\xdb", "rpm package", false, CarrierReader::kNone},
    {0, "hsqs", "squashfs image", false, CarrierReader::kNone},
    {kTarMarkAt, kTarMark, "tar archive", true, CarrierReader::kArchive},
};

}  // namespace

bool IsTarHeader(absl::string_view block) {
  // Counted with spaces in the sum's own place, by some writers with signed
  // bytes.
  constexpr size_t kSumAt = 148;
  constexpr size_t kSumBytes = 8;
  if (block.size() < kTarBlockBytes) return false;
  block = block.substr(0, kTarBlockBytes);
  uint32_t stated = 0;
  size_t digits = 0;
  for (const char c : block.substr(kSumAt, kSumBytes)) {
    if (c == ' ' && digits == 0) continue;
    if (c < '0' || c > '7') break;
    stated = stated * 8 + static_cast<uint32_t>(c - '0');
    ++digits;
  }
  if (digits < 4) return false;
  uint32_t sum = 0;
  int32_t signed_sum = 0;
  for (size_t i = 0; i < kTarBlockBytes; ++i) {
    const bool in_sum = i >= kSumAt && i < kSumAt + kSumBytes;
    const char c = in_sum ? ' ' : block[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  return sum == stated || signed_sum == static_cast<int32_t>(stated);
}

bool StartsTar(absl::string_view head) {
  return IsTarHeader(head) ||
         (head.size() >= kTarBlockBytes && head[0] != '\0' &&
          head.substr(kTarMarkAt, kTarMark.size()) == kTarMark);
}

bool LooksLikeText(absl::string_view bytes) {
  if (bytes.empty()) return false;
  size_t control = 0;
  for (const char c : bytes) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (u == 0) return false;
    if (u < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' &&
        c != '\v' && u != 0x1b) {
      ++control;
    }
  }
  return control * 32 <= bytes.size();
}

ContentKind KindOfContent(absl::string_view head) {
  ContentKind content;
  if (absl::StartsWith(head, "\177ELF")) {
    content.elf = true;
    content.kind = v1::FILE_KIND_UNSPECIFIED;
    return content;
  }
  if (absl::StartsWith(head,
                       absl::string_view("\x50\xED\x55\xBA\1\0\x10\0", 8))) {
    content.kind = v1::FILE_KIND_FATBIN;
    return content;
  }
  // NVIDIA's container of LTO-IR.
  if (absl::StartsWith(head, "\xED\x43\x4E\x7F")) {
    content.kind = v1::FILE_KIND_LTO_IR;
    return content;
  }
  // clang's offload bundle: magic and a version from 1 to 3.
  if (head.size() >= 8 && absl::StartsWith(head, "\x10\xFF\x10\xAD") &&
      head[4] >= 1 && head[4] <= 3 && head[5] == 0) {
    content.kind = v1::FILE_KIND_OFFLOAD_BUNDLE;
    return content;
  }
  for (const Magic& magic : kArchives) {
    if (head.size() >= magic.at + magic.bytes.size() &&
        head.substr(magic.at, magic.bytes.size()) == magic.bytes) {
      content.kind = v1::FILE_KIND_ARCHIVE;
      content.archive = std::string(magic.name);
      content.plain_members = magic.plain_members;
      content.reader = magic.reader;
      return content;
    }
  }
  // From before there was a mark.
  if (IsTarHeader(head)) {
    content.kind = v1::FILE_KIND_ARCHIVE;
    content.archive = "tar archive";
    content.plain_members = true;
    content.reader = CarrierReader::kArchive;
    return content;
  }
  // A stored .ptx may end in NUL, as it does inside a fatbin.
  // Editors on Windows put a byte-order mark before it.
  if (LooksLikePtx(absl::StripPrefix(head, "\xef\xbb\xbf"))) {
    content.kind = v1::FILE_KIND_PTX;
  } else if (LooksLikeText(head) || absl::StartsWith(head, "#!")) {
    content.kind = v1::FILE_KIND_TEXT;
  }
  return content;
}

}  // namespace twinpath::inspect
