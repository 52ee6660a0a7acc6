#include "inspect/offload.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kHeaderBytes = 32;
constexpr size_t kEntryBytes = 40;
constexpr size_t kStringPairBytes = 16;
// Far above what compilers write: one entry a source file and target, a few
// strings each.
constexpr uint64_t kMaxEntries = 4096;
constexpr uint64_t kMaxStrings = 64;
constexpr size_t kMaxStringBytes = 256;

absl::Status Spent() {
  return absl::ResourceExhaustedError(
      "too many beginnings of device code that are none");
}

absl::string_view NameOf(OffloadImage image) {
  switch (image) {
    case OffloadImage::kObject:
      return "object";
    case OffloadImage::kBitcode:
      return "LLVM bitcode";
    case OffloadImage::kCubin:
      return "cubin";
    case OffloadImage::kFatbinary:
      return "fatbin";
    case OffloadImage::kPtx:
      return "PTX";
    case OffloadImage::kSpirV:
      return "SPIR-V";
    default:
      return "image of unknown kind";
  }
}

absl::string_view NameOf(OffloadUser user) {
  switch (user) {
    case OffloadUser::kOpenMp:
      return "OpenMP";
    case OffloadUser::kCuda:
      return "CUDA";
    case OffloadUser::kHip:
      return "HIP";
    case OffloadUser::kSycl:
      return "SYCL";
    default:
      return "unnamed";
  }
}

// The NUL-terminated string at `at` of the bundle, cut at kMaxStringBytes.
absl::StatusOr<std::string> StringAt(const ByteSource& bundle, uint64_t at,
                                     ProbeBudget& budget) {
  if (!budget.Take(kMaxStringBytes)) return Spent();
  TWINPATH_ASSIGN_OR_RETURN(std::string text,
                            ReadUpTo(bundle, at, kMaxStringBytes));
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

// Reads one entry of the table; says in `problem` what is broken.
absl::Status ReadEntry(const ByteSource& bundle, uint64_t base, uint64_t at,
                       ProbeBudget& budget, OffloadEntry& entry,
                       std::string& problem) {
  std::array<char, kEntryBytes> bytes;
  if (!budget.Take(bytes.size())) return Spent();
  TWINPATH_RETURN_IF_ERROR(bundle.ReadAt(at, bytes.size(), bytes.data()));
  entry.image = static_cast<OffloadImage>(LoadU16(bytes.data()));
  entry.user = static_cast<OffloadUser>(LoadU16(bytes.data() + 2));
  const uint64_t strings_at = LoadU64(bytes.data() + 8);
  const uint64_t strings = LoadU64(bytes.data() + 16);
  const uint64_t image_at = LoadU64(bytes.data() + 24);
  entry.size = LoadU64(bytes.data() + 32);
  if (!Fits(image_at, entry.size, bundle.size())) {
    problem =
        absl::StrCat("its image (", entry.size, " bytes at ", image_at,
                     ") ends outside the bundle of ", bundle.size(), " bytes");
    return absl::OkStatus();
  }
  entry.offset = base + image_at;
  if (strings > kMaxStrings ||
      !Fits(strings_at, strings * kStringPairBytes, bundle.size())) {
    problem = "its strings lie outside the bundle";
    return absl::OkStatus();
  }
  for (uint64_t i = 0; i < strings; ++i) {
    std::array<char, kStringPairBytes> pair;
    TWINPATH_RETURN_IF_ERROR(bundle.ReadAt(strings_at + i * kStringPairBytes,
                                           pair.size(), pair.data()));
    TWINPATH_ASSIGN_OR_RETURN(const std::string key,
                              StringAt(bundle, LoadU64(pair.data()), budget));
    if (key != "triple" && key != "arch") continue;
    TWINPATH_ASSIGN_OR_RETURN(
        std::string value, StringAt(bundle, LoadU64(pair.data() + 8), budget));
    (key == "arch" ? entry.arch : entry.triple) = std::move(value);
  }
  return absl::OkStatus();
}

}  // namespace

bool OffloadEntry::for_nvidia() const {
  if (user == OffloadUser::kHip) return false;
  if (image == OffloadImage::kCubin || image == OffloadImage::kFatbinary ||
      image == OffloadImage::kPtx) {
    return true;
  }
  return absl::StartsWith(triple, "nvptx") ||
         (triple.empty() && absl::StartsWith(arch, "sm_"));
}

std::string OffloadEntry::Describe() const {
  std::string text = absl::StrCat(NameOf(user), " ", NameOf(image));
  if (!triple.empty() || !arch.empty()) absl::StrAppend(&text, " for");
  if (!triple.empty()) absl::StrAppend(&text, " ", triple);
  if (!arch.empty()) absl::StrAppend(&text, " ", arch);
  return Printable(text);
}

absl::StatusOr<std::optional<OffloadBundle>> ReadOffloadBundle(
    const ByteSource& source, uint64_t offset, uint64_t limit,
    ProbeBudget& budget) {
  limit = std::min(limit, source.size());
  if (offset > limit || !Fits(offset, kHeaderBytes, limit)) {
    return std::nullopt;
  }
  if (!budget.Take(kHeaderBytes)) return Spent();
  std::array<char, kHeaderBytes> header;
  TWINPATH_RETURN_IF_ERROR(source.ReadAt(offset, header.size(), header.data()));
  const uint32_t version = LoadU32(header.data() + 4);
  if (absl::string_view(header.data(), 4) != kOffloadMagic || version < 1 ||
      version > 3) {
    return std::nullopt;
  }
  OffloadBundle found;
  found.offset = offset;
  found.size = LoadU64(header.data() + 8);
  const uint64_t table = LoadU64(header.data() + 16);
  // Version 1 has one entry and states its size here.
  const uint64_t count = version == 1 ? 1 : LoadU64(header.data() + 24);
  if (found.size < kHeaderBytes + kEntryBytes || table < kHeaderBytes ||
      count == 0 || count > kMaxEntries || table >= found.size) {
    return std::nullopt;
  }
  if (!Fits(offset, found.size, limit)) {
    found.problem = absl::StrCat("its header says ", found.size,
                                 " bytes, only ", limit - offset, " are there");
    found.size = limit - offset;
  }
  const PartSource bundle(source, offset, found.size);
  if (!Fits(table, count * kEntryBytes, found.size)) {
    if (found.problem.empty()) return std::nullopt;
    return found;
  }
  for (uint64_t i = 0; i < count; ++i) {
    OffloadEntry entry;
    std::string problem;
    TWINPATH_RETURN_IF_ERROR(ReadEntry(bundle, offset, table + i * kEntryBytes,
                                       budget, entry, problem));
    if (!problem.empty()) {
      if (found.problem.empty()) {
        found.problem = absl::StrCat("entry ", i, ": ", problem);
      }
      if (entry.offset == 0) continue;
    }
    found.entries.push_back(std::move(entry));
  }
  return found;
}

}  // namespace twinpath::inspect
