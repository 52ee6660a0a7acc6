#include "inspect/file_kind.h"

#include "absl/strings/match.h"
#include "inspect/fatbin.h"
#include "inspect/ptx.h"

namespace twinpath::inspect {
namespace {

struct Magic {
  size_t at;
  absl::string_view bytes;
  absl::string_view name;
  bool plain_members;
};

// Archives and compressed files by the marks their formats define.
constexpr size_t kTarMark = 257;
const Magic kArchives[] = {
    {0, "!<arch>\n", "ar archive", true},
    {0, "!<thin>\n", "thin ar archive", false},
    {0, "PK\x03\x04", "zip archive", false},
    {0, "PK\x05\x06", "empty zip archive", false},
    {0, "\x1f\x8b", "gzip file", false},
    {0,
     absl::string_view("\xfd"
                       "7zXZ\0",
                       6),
     "xz file", false},
    {0, "\x28\xb5\x2f\xfd", "zstd file", false},
    {0, "\x04\x22\x4d\x18", "LZ4 file", false},
    {0, "BZh", "bzip2 file", false},
    {0, absl::string_view("7z\xbc\xaf\x27\x1c", 6), "7z archive", false},
    {0, "\xed\xab\xee\xdb", "rpm package", false},
    {0, "hsqs", "squashfs image", false},
    {kTarMark, "ustar", "tar archive", true},
};

}  // namespace

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
  for (const Magic& magic : kArchives) {
    if (head.size() >= magic.at + magic.bytes.size() &&
        head.substr(magic.at, magic.bytes.size()) == magic.bytes) {
      content.kind = v1::FILE_KIND_ARCHIVE;
      content.archive = std::string(magic.name);
      content.plain_members = magic.plain_members;
      return content;
    }
  }
  // A stored .ptx may end in NUL, as it does inside a fatbin.
  if (LooksLikePtx(head)) {
    content.kind = v1::FILE_KIND_PTX;
  } else if (LooksLikeText(head) || absl::StartsWith(head, "#!")) {
    content.kind = v1::FILE_KIND_TEXT;
  }
  return content;
}

}  // namespace twinpath::inspect
