#include "inspect/fatbin.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr uint64_t kMaxNameBytes = 4096;
constexpr uint64_t kMaxOptionBytes = 16 << 10;
// Enough for nearly every header with its extension in one read.
constexpr size_t kReadAhead = 256;

// Bytes [at, at + size) of the header, from what was read ahead or from the
// source. Empty if they do not lie inside the header.
absl::StatusOr<std::string> Extension(const ByteSource& source,
                                      const FatbinEntry& entry,
                                      absl::string_view ahead, uint64_t at,
                                      uint64_t size, uint64_t max) {
  if (at < kFatbinEntryBytes || !Fits(at, size, entry.header_bytes)) {
    return std::string();
  }
  size = std::min(size, max);
  if (Fits(at, size, ahead.size())) return std::string(ahead.substr(at, size));
  return ReadBytes(source, entry.offset + at, size, max);
}

absl::Status ReadExtensions(const ByteSource& source, absl::string_view ahead,
                            FatbinEntry& entry) {
  const uint32_t name_at = LoadU32(ahead.data() + 0x20);
  const uint32_t name_size = LoadU32(ahead.data() + 0x24);
  if (name_at != 0 && name_size != 0) {
    TWINPATH_ASSIGN_OR_RETURN(
        entry.name,
        Extension(source, entry, ahead, name_at, name_size, kMaxNameBytes));
  }
  const uint32_t pair_at = LoadU32(ahead.data() + 0x14);
  // For machine code the block is a copy of .nv.compat, not text.
  if (pair_at == 0 || entry.kind == kEntryElf) return absl::OkStatus();
  TWINPATH_ASSIGN_OR_RETURN(const std::string pair,
                            Extension(source, entry, ahead, pair_at, 8, 8));
  if (pair.size() != 8) return absl::OkStatus();
  const uint32_t options_size = LoadU32(pair.data() + 4);
  if (options_size == 0) return absl::OkStatus();
  TWINPATH_ASSIGN_OR_RETURN(
      entry.options, Extension(source, entry, ahead, LoadU32(pair.data()),
                               options_size, kMaxOptionBytes));
  while (!entry.options.empty() && entry.options.back() == '\0') {
    entry.options.pop_back();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FatbinWalk> WalkFatbin(const ByteSource& source, uint64_t offset,
                                      uint64_t limit, uint64_t max_entries) {
  FatbinWalk walk;
  walk.offset = offset;
  limit = std::min(limit, source.size());
  if (!Fits(offset, kFatbinHeaderBytes, limit)) return walk;
  // The first entry's header comes with the fatbin's.
  std::array<char, kFatbinHeaderBytes + kReadAhead> header;
  TWINPATH_RETURN_IF_ERROR(
      source.ReadAt(offset, std::min<uint64_t>(header.size(), limit - offset),
                    header.data()));
  if (std::memcmp(header.data(), kFatbinMagic, 4) != 0 ||
      LoadU16(header.data() + 4) != 1 ||
      LoadU16(header.data() + 6) != kFatbinHeaderBytes) {
    return walk;
  }
  walk.state = FatbinState::kSound;
  const auto damage = [&walk](std::string problem) {
    walk.state = FatbinState::kDamaged;
    if (walk.problem.empty()) walk.problem = std::move(problem);
  };

  const uint64_t claimed = LoadU64(header.data() + 8);
  const uint64_t start = offset + kFatbinHeaderBytes;
  uint64_t end = start;
  if (Fits(start, claimed, limit)) {
    end = start + claimed;
    walk.size = kFatbinHeaderBytes + claimed;
  } else {
    damage(absl::StrCat("its header says ", claimed, " bytes of entries, only ",
                        limit - start, " are there"));
    end = limit;
    walk.size = limit - offset;
  }

  uint64_t at = start;
  std::array<char, kReadAhead> ahead;
  while (at < end) {
    if (end - at < kFatbinEntryBytes) {
      damage(absl::StrCat("entry ", walk.entries.size(), " at offset ", at,
                          ": only ", end - at, " bytes are left for it"));
      break;
    }
    if (walk.entries.size() >= max_entries) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", max_entries, " entries"));
    }
    const size_t n = std::min<uint64_t>(ahead.size(), end - at);
    const char* p = header.data() + kFatbinHeaderBytes;
    if (at != start) {
      TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, n, ahead.data()));
      p = ahead.data();
    }
    FatbinEntry entry;
    entry.offset = at;
    entry.kind = LoadU16(p);
    entry.header_bytes = LoadU32(p + 0x04);
    entry.payload_bytes = LoadU64(p + 0x08);
    entry.compressed_bytes = LoadU32(p + 0x10);
    entry.version_minor = LoadU16(p + 0x18);
    entry.version_major = LoadU16(p + 0x1a);
    entry.arch = LoadU32(p + 0x1c);
    entry.flags = LoadU64(p + 0x28);
    entry.decompressed_bytes = LoadU64(p + 0x38);
    if (entry.header_bytes < kFatbinEntryBytes || entry.header_bytes % 8 != 0) {
      damage(absl::StrCat("entry ", walk.entries.size(), " at offset ", at,
                          ": a header of ", entry.header_bytes, " bytes"));
      break;
    }
    if (!Fits(at, entry.header_bytes, end) ||
        !Fits(at + entry.header_bytes, entry.payload_bytes, end)) {
      damage(absl::StrCat("entry ", walk.entries.size(), " at offset ", at,
                          ": a header of ", entry.header_bytes,
                          " bytes and a payload of ", entry.payload_bytes,
                          " end behind the fatbin's end at ", end));
      break;
    }
    TWINPATH_RETURN_IF_ERROR(
        ReadExtensions(source, absl::string_view(p, n), entry));
    at += entry.header_bytes + entry.payload_bytes;
    walk.entries.push_back(std::move(entry));
  }
  return walk;
}

v1::Compression CompressionOfFlags(uint64_t flags) {
  if ((flags & kFlagObfuscated) != 0) return v1::COMPRESSION_OPAQUE;
  switch (flags & (kFlagZlib | kFlagLz4Block | kFlagLz4Frame | kFlagZstd)) {
    case 0:
      return v1::COMPRESSION_NONE;
    case kFlagZlib:
      return v1::COMPRESSION_ZLIB;
    case kFlagLz4Block:
      return v1::COMPRESSION_LZ4_BLOCK;
    case kFlagLz4Frame:
      return v1::COMPRESSION_LZ4_FRAME;
    case kFlagZstd:
      return v1::COMPRESSION_ZSTD;
    default:
      return v1::COMPRESSION_OPAQUE;
  }
}

v1::TargetSuffix SuffixOfFlags(uint64_t flags) {
  if ((flags & kFlagArchSpecific) != 0) return v1::TARGET_SUFFIX_ARCH;
  if ((flags & kFlagFamilySpecific) != 0) return v1::TARGET_SUFFIX_FAMILY;
  return v1::TARGET_SUFFIX_NONE;
}

}  // namespace twinpath::inspect
