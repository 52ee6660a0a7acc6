#include "inspect/packed_cubin.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace twinpath::inspect {
namespace {

// Bytes of a cubin in which its names are looked for, from the first attempt to
// the last.
constexpr uint64_t kFirstPrefix = 4 << 10;
constexpr uint64_t kLastPrefix = 8 << 20;
// Stored bytes of it that are read first, enough for most, and then at least.
constexpr size_t kFirstStored = 16 << 10;
constexpr size_t kMoreStored = 32 << 10;

}  // namespace

bool PackedCubinReader::Read(const PackedPayload& payload,
                             const PrefixOptions& options, Cubin& cubin) {
  if (!ReadStored(payload).ok()) return false;
  // Others that are the same have been read often.
  const bool whole = stored_.view().size() == payload.stored && !options.target;
  if (whole) {
    if (const Cubin* const known = small_.Find(
            payload.compression, payload.expanded, stored_.view())) {
      cubin = *known;
      return true;
    }
  }
  if (!StartDecoding().ok() || !Extend(kFirstPrefix).ok() ||
      !ReadStarted(options, cubin)) {
    return false;
  }
  if (whole) {
    small_.Put(payload.compression, payload.expanded, stored_.view(), cubin);
  }
  return true;
}

absl::StatusOr<absl::string_view> PackedCubinReader::Start(
    const PackedPayload& payload, size_t size) {
  TWINPATH_RETURN_IF_ERROR(ReadStored(payload));
  TWINPATH_RETURN_IF_ERROR(StartDecoding());
  TWINPATH_RETURN_IF_ERROR(Extend(size));
  return decoded_.view();
}

bool PackedCubinReader::ReadStarted(const PrefixOptions& options,
                                    Cubin& cubin) {
  PrefixProgress progress;
  while (true) {
    Cubin read;
    switch (ReadCubinPrefix(decoded_.view(), options, progress, read)) {
      case PrefixState::kRead:
        cubin = std::move(read);
        return true;
      case PrefixState::kUnknown:
        return false;
      case PrefixState::kMore:
        break;
    }
    const size_t there = decoded_.view().size();
    // A zstd block more, or several of a long prefix; what else there is starts
    // anew each time, or has no blocks.
    const size_t more = payload_.compression == v1::COMPRESSION_ZSTD
                            ? std::max<size_t>(1, there / 8)
                            : there;
    if (more == 0 || !Extend(there + more).ok() ||
        decoded_.view().size() <= there) {
      return false;
    }
  }
}

absl::Status PackedCubinReader::ReadStored(const PackedPayload& payload) {
  payload_ = payload;
  most_ = std::min(payload.expanded, kLastPrefix);
  // Packing makes nothing much longer; one block more for zstd.
  most_stored_ = std::min<uint64_t>(payload.stored, most_ + kPrefixStoredBytes);
  const size_t first = std::min(most_stored_, kFirstStored);
  char* const to = stored_.Prepare(most_stored_);
  stored_.Resize(first);
  return source_.ReadAt(payload.offset, first, to);
}

absl::Status PackedCubinReader::StartDecoding() {
  return decoder_.StartPrefix(payload_.compression, stored_.view(), most_,
                              decoded_);
}

absl::Status PackedCubinReader::Extend(size_t size) {
  size = std::min(size, most_);
  while (true) {
    TWINPATH_RETURN_IF_ERROR(decoder_.ExtendPrefix(size, decoded_));
    const size_t there = stored_.view().size();
    if (decoded_.view().size() >= size || there == most_stored_) {
      return absl::OkStatus();
    }
    const size_t more =
        std::min(most_stored_ - there, std::max(kMoreStored, there / 2));
    TWINPATH_RETURN_IF_ERROR(
        source_.ReadAt(payload_.offset + there, more, stored_.data() + there));
    stored_.Resize(there + more);
    decoder_.ContinuePrefix(stored_.view());
  }
}

}  // namespace twinpath::inspect
