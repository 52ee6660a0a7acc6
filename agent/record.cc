#include "agent/record.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"

namespace twinpath::agent {
namespace {

constexpr absl::string_view kMagic = "TPR1";

}  // namespace

std::string EncodeRecord(absl::string_view payload) {
  std::string record(kMagic);
  const uint32_t size = static_cast<uint32_t>(payload.size());
  for (int shift = 0; shift < 32; shift += 8) {
    record.push_back(static_cast<char>((size >> shift) & 0xff));
  }
  absl::StrAppend(&record, Sha256Of(payload).Raw(), payload);
  return record;
}

absl::StatusOr<absl::string_view> TakeRecord(absl::string_view* bytes) {
  const absl::string_view magic = bytes->substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size())) {
    return absl::DataLossError("no record starts here");
  }
  if (bytes->size() < kRecordHeaderBytes) {
    return absl::OutOfRangeError("the record's header is cut off");
  }
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i) {
    size |= static_cast<uint32_t>(static_cast<uint8_t>((*bytes)[4 + i]))
            << (8 * i);
  }
  if (size > kMaxRecordBytes) {
    return absl::DataLossError(
        absl::StrCat("a record claims ", size, " bytes"));
  }
  if (bytes->size() - kRecordHeaderBytes < size) {
    return absl::OutOfRangeError("the record's payload is cut off");
  }
  const absl::string_view payload = bytes->substr(kRecordHeaderBytes, size);
  if (absl::string_view(Sha256Of(payload).Raw()) != bytes->substr(8, 32)) {
    return absl::DataLossError("a record's digest does not match its payload");
  }
  bytes->remove_prefix(kRecordHeaderBytes + size);
  return payload;
}

}  // namespace twinpath::agent
