#include "runner/oci_users.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/file.h"

namespace twinpath::runner {
namespace {

// User numbers that systemd leaves to containers (systemd's UIDS-GIDS.md), in
// blocks.
constexpr uint32_t kFirstUser = 524'288;
constexpr uint32_t kUserBlocks = 28'000;

// Whether a block of user numbers is given to somebody on this host.
bool IsTaken(uint32_t first) {
  for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
    const auto text = ReadFile(file, 1 << 20);
    if (!text.ok()) continue;
    for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, ':');
      uint64_t from = 0;
      uint64_t count = 0;
      if (parts.size() == 3 && absl::SimpleAtoi(parts[1], &from) &&
          absl::SimpleAtoi(parts[2], &count) && from < first + kUserBlockSize &&
          first < from + count) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool RootMayBeReal(const absl::StatusOr<std::string>& map) {
  if (!map.ok()) return true;
  bool said = false;
  for (const absl::string_view line :
       absl::StrSplit(*map, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint32_t inside = 0;
    uint32_t outside = 0;
    uint32_t count = 0;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &inside) ||
        !absl::SimpleAtoi(fields[1], &outside) ||
        !absl::SimpleAtoi(fields[2], &count)) {
      return true;
    }
    if (inside != 0 || count == 0) continue;
    if (outside == 0) return true;
    said = true;
  }
  return !said;
}

bool RootHereMayBeReal() {
  constexpr uint64_t kMost = 64 << 10;
  return RootMayBeReal(ReadFile("/proc/self/uid_map", kMost)) ||
         RootMayBeReal(ReadFile("/proc/self/gid_map", kMost));
}

uint32_t UserBlock() {
  uint32_t first = kFirstUser;
  for (int tries = 0; tries < 100; ++tries) {
    uint32_t number = 0;
    for (const char digit : RandomHex(4)) {
      number = number * 16 + static_cast<uint32_t>(
                                 digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    first = kFirstUser + number % kUserBlocks * kUserBlockSize;
    if (!IsTaken(first)) break;
  }
  return first;
}

}  // namespace twinpath::runner
