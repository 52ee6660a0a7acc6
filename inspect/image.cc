#include "inspect/image.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/status.h"
#include "inspect/cubin_prefix.h"
#include "inspect/elf_view.h"
#include "inspect/little_endian.h"
#include "inspect/ptx.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kPeekBytes = 64;
// Stored bytes that are read for them at once: most first blocks are shorter.
constexpr size_t kPeekStored = 16 << 10;
constexpr size_t kDigestWindow = 1 << 20;
// Bytes of a cubin in which its names are looked for, from the first attempt to
// the last.
constexpr uint64_t kFirstPrefix = 4 << 10;
constexpr uint64_t kLastPrefix = 8 << 20;
// Stored bytes of it that are read first, enough for most, and then at least.
constexpr size_t kFirstStored = 16 << 10;
constexpr size_t kMoreStored = 32 << 10;

v1::ImageKind KindOfEntry(uint16_t kind, bool relocatable_section) {
  switch (kind) {
    case kEntryPtx:
      return relocatable_section ? v1::IMAGE_KIND_RELOCATABLE_PTX
                                 : v1::IMAGE_KIND_PTX;
    case kEntryElf:
      return relocatable_section ? v1::IMAGE_KIND_RELOCATABLE_SASS
                                 : v1::IMAGE_KIND_SASS;
    case kEntryLtoIr:
      return v1::IMAGE_KIND_LTO_IR;
    case kEntryRelocatablePtx:
      return v1::IMAGE_KIND_RELOCATABLE_PTX;
    default:
      return v1::IMAGE_KIND_OTHER;
  }
}

bool IsSass(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_SASS ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
}
bool IsPtx(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_PTX ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

void SetProblem(v1::Image& image, absl::string_view problem) {
  if (image.problem().empty()) image.set_problem(std::string(problem));
}

// "(entry flags 0x...: bits 0x... are unknown)" where an undecodable payload
// may be due to a flag this version does not know.
std::string FlagHint(const v1::Image& image) {
  const uint64_t unknown = image.flags() & ~kKnownFlags;
  if (unknown == 0) return "";
  return absl::StrFormat(" (flags 0x%x: this version does not know 0x%x)",
                         image.flags(), unknown);
}

void SetStatusProblem(v1::Image& image, const absl::Status& status) {
  SetProblem(image, absl::StrCat(status.message(), FlagHint(image)));
}

v1::TargetSuffix SuffixOfLetter(char letter) {
  switch (letter) {
    case 'a':
      return v1::TARGET_SUFFIX_ARCH;
    case 'f':
      return v1::TARGET_SUFFIX_FAMILY;
    default:
      return v1::TARGET_SUFFIX_NONE;
  }
}

// Sets the target where the entry does not state it. A bare image's target is
// unset before.
void ApplyTarget(uint32_t number, char suffix, v1::Image& image) {
  v1::Target& target = *image.mutable_target();
  if (target.number() == 0) target.set_number(number);
  if (target.suffix() == v1::TARGET_SUFFIX_UNSPECIFIED ||
      (target.suffix() == v1::TARGET_SUFFIX_NONE && suffix != 0)) {
    target.set_suffix(SuffixOfLetter(suffix));
  }
  if (number != 0 && target.number() != number) {
    image.set_payload_target(number);
    SetProblem(image, absl::StrCat("the entry says target ", target.number(),
                                   ", its payload says ", number));
  }
}

// The payloads in order, but texts that take long first: a thread that met one
// at the end would be the only one left.
std::vector<size_t> LongestFirst(const std::vector<Payload>& payloads) {
  constexpr uint64_t kLong = uint64_t{2} << 20;
  std::vector<size_t> order(payloads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rest =
      std::stable_partition(order.begin(), order.end(), [&payloads](size_t i) {
        return IsPtx(*payloads[i].image) && payloads[i].expanded >= kLong;
      });
  std::sort(order.begin(), rest, [&payloads](size_t a, size_t b) {
    return payloads[a].expanded > payloads[b].expanded;
  });
  return order;
}

constexpr char kNoRoomForKernels[] =
    "kernels left out: the report has reached its cap";

}  // namespace

void DescribeEntry(const FatbinEntry& entry, bool relocatable_section,
                   v1::Image& image) {
  image.set_kind(KindOfEntry(entry.kind, relocatable_section));
  image.set_kind_number(entry.kind);
  image.mutable_target()->set_number(entry.arch);
  image.mutable_target()->set_suffix(SuffixOfFlags(entry.flags));
  if (IsPtx(image)) {
    image.mutable_ptx_isa()->set_major(entry.version_major);
    image.mutable_ptx_isa()->set_minor(entry.version_minor);
  }
  image.set_offset(entry.offset);
  image.set_stored_bytes(entry.payload_bytes);
  image.set_compression(CompressionOfFlags(entry.flags));
  image.set_expanded_bytes(image.compression() == v1::COMPRESSION_NONE
                               ? entry.payload_bytes
                               : entry.decompressed_bytes);
  image.set_flags(entry.flags);
  if (!entry.name.empty()) image.set_name(entry.name);
  if (!entry.options.empty()) {
    image.mutable_producer()->set_options(entry.options);
  }
  if (image.kind() == v1::IMAGE_KIND_OTHER) {
    SetProblem(image,
               absl::StrFormat("entry kind 0x%x: this version does not know it",
                               entry.kind));
  }
  if (image.compression() == v1::COMPRESSION_OPAQUE &&
      image.kind() != v1::IMAGE_KIND_LTO_IR) {
    SetProblem(image, absl::StrFormat("opaque payload (flags 0x%x): only the "
                                      "producer's tools read it",
                                      entry.flags));
  }
  if (image.compression() != v1::COMPRESSION_NONE &&
      image.compression() != v1::COMPRESSION_OPAQUE &&
      (entry.compressed_bytes == 0 ||
       entry.compressed_bytes > entry.payload_bytes)) {
    SetProblem(image, absl::StrCat("its header says ", entry.compressed_bytes,
                                   " compressed bytes in a payload of ",
                                   entry.payload_bytes));
  }
}

Payload PayloadOf(const FatbinEntry& entry, v1::Image& image) {
  return {.image = &image,
          .offset = entry.payload_offset(),
          .stored = image.compression() == v1::COMPRESSION_NONE
                        ? entry.payload_bytes
                        : entry.compressed_bytes,
          .expanded = image.expanded_bytes()};
}

PayloadReader::PayloadReader(const ByteSource& source,
                             const InspectOptions& options,
                             ReportBudget& budget)
    : source_(source),
      options_(options),
      budget_(budget),
      max_image_bytes_(options.max_image_bytes != 0 ? options.max_image_bytes
                                                    : kDefaultMaxImageBytes) {}

void PayloadReader::ReadAll(
    const std::vector<Payload>& payloads,
    const std::function<void(const Payload&)>& on_read) {
  const std::vector<size_t> order = LongestFirst(payloads);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    Bench bench;
    for (size_t i = next++; i < order.size(); i = next++) {
      const Payload& payload = payloads[order[i]];
      Read(payload, bench);
      on_read(payload);
    }
  };
  // A second thread pays only where there is more than a few payloads' work.
  uint64_t bytes = 0;
  for (const Payload& payload : payloads) {
    // What is peeked at costs a block of its codec.
    bytes +=
        std::min(payload.expanded, payload.peek ? uint64_t{kPrefixStoredBytes}
                                                : kLargeImageBytes);
  }
  const unsigned threads =
      bytes < (uint64_t{4} << 20)
          ? 1
          : std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
  // At most half of it for one thread: the largest images have buffers of
  // their own.
  const uint64_t share = kBenchBytes / std::max(threads, 2u);
  small_stored_bytes_ = share / 4;
  small_image_bytes_ = share - small_stored_bytes_;
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

void PayloadReader::Read(const Payload& payload, Bench& bench) {
  v1::Image& image = *payload.image;
  if (!image.problem().empty() ||
      image.compression() == v1::COMPRESSION_OPAQUE ||
      (!IsSass(image) && !IsPtx(image))) {
    return;
  }
  if (payload.peek) {
    Peek(payload, bench);
    return;
  }
  if (payload.expanded > max_image_bytes_) {
    SetProblem(image, absl::StrCat(payload.expanded,
                                   " bytes after inflation, above the cap of ",
                                   max_image_bytes_));
    return;
  }
  if (IsSass(image) && image.compression() == v1::COMPRESSION_NONE) {
    const PartSource part(source_, payload.offset, payload.stored);
    ReadElf(part, image);
    if (options_.image_digests) TakeDigest(part, image);
    return;
  }
  if (IsSass(image) && !options_.image_digests && ReadPrefix(payload, bench)) {
    return;
  }
  if (payload.stored <= small_stored_bytes_ &&
      payload.expanded <= small_image_bytes_) {
    ReadInMemory(payload, bench);
  } else {
    MutexLock lock(large_mutex_);
    if (payload.stored <= kLargeStoredBytes &&
        payload.expanded <= kLargeImageBytes) {
      ReadInMemory(payload, large_);
    } else {
      ReadStreaming(payload);
    }
    large_.stored.Free();
    large_.expanded.Free();
  }
}

void PayloadReader::Peek(const Payload& payload, Bench& bench) {
  v1::Image& image = *payload.image;
  if (!IsSass(image)) return;
  const bool zstd = image.compression() == v1::COMPRESSION_ZSTD;
  const size_t all = std::min<uint64_t>(
      payload.stored, image.compression() == v1::COMPRESSION_NONE
                          ? kPeekBytes
                          : kPrefixStoredBytes);
  const size_t first = zstd ? std::min(all, kPeekStored) : all;
  char* const stored = bench.stored.Prepare(all);
  absl::Status status = source_.ReadAt(payload.offset, first, stored);
  bench.stored.Resize(first);
  if (status.ok() && first < all) {
    const size_t block = ZstdFirstBlockEnd(bench.stored.view());
    const size_t more =
        std::max(first, block == 0 ? all : std::min(all, block));
    status =
        source_.ReadAt(payload.offset + first, more - first, stored + first);
    bench.stored.Resize(more);
  }
  absl::StatusOr<absl::string_view> head;
  if (status.ok()) {
    head = bench.decoder.DecodePrefix(image.compression(), bench.stored.view(),
                                      kPeekBytes);
    status = head.status();
  }
  if (!status.ok()) {
    SetStatusProblem(image, status);
  } else if (!LooksLikeCubin(*head)) {
    SetProblem(image, absl::StrCat("the payload is no cubin", FlagHint(image)));
  } else {
    image.set_kind(LoadU16(head->data() + 16) == kElfTypeRel
                       ? v1::IMAGE_KIND_RELOCATABLE_SASS
                       : v1::IMAGE_KIND_SASS);
  }
}

bool PayloadReader::ReadPrefix(const Payload& payload, Bench& bench) {
  const uint64_t most = std::min(payload.expanded, kLastPrefix);
  // Packing makes nothing much longer; one block more for zstd.
  const size_t all =
      std::min<uint64_t>(payload.stored, most + kPrefixStoredBytes);
  size_t there = std::min(all, kFirstStored);
  char* const stored = bench.stored.Prepare(all);
  bench.stored.Resize(there);
  if (!source_.ReadAt(payload.offset, there, stored).ok()) return false;
  // Others that are the same have been read often.
  const v1::Compression compression = payload.image->compression();
  const bool whole = there == payload.stored && !payload.target_unknown;
  if (whole) {
    if (const Cubin* const known = bench.small.Find(
            compression, payload.expanded, bench.stored.view())) {
      ApplyCubin(*known, options_.kernels, budget_, *payload.image);
      return true;
    }
  }
  if (!bench.decoder
           .StartPrefix(compression, bench.stored.view(), most, bench.expanded)
           .ok()) {
    return false;
  }
  PrefixProgress progress;
  for (uint64_t size = std::min(kFirstPrefix, most);;) {
    if (!bench.decoder.ExtendPrefix(size, bench.expanded).ok()) return false;
    if (bench.expanded.view().size() < size && there < all) {
      const size_t more =
          std::min(all - there, std::max(kMoreStored, there / 2));
      if (!source_.ReadAt(payload.offset + there, more, stored + there).ok()) {
        return false;
      }
      there += more;
      bench.stored.Resize(there);
      bench.decoder.ContinuePrefix(bench.stored.view());
      continue;
    }
    Cubin cubin;
    const PrefixState state =
        ReadCubinPrefix(bench.expanded.view(),
                        {.kernels = options_.kernels,
                         .target = payload.target_unknown,
                         .details = options_.kernels && options_.details},
                        progress, cubin);
    if (state == PrefixState::kRead) {
      if (whole) {
        bench.small.Put(compression, payload.expanded, bench.stored.view(),
                        cubin);
      }
      ApplyCubin(std::move(cubin), options_.kernels, budget_, *payload.image);
      return true;
    }
    if (state == PrefixState::kUnknown || size == most) return false;
    size = std::max<uint64_t>(size, bench.expanded.view().size());
    // A zstd block more, or several of a long prefix; what else there is starts
    // anew each time, or has no blocks.
    size += compression == v1::COMPRESSION_ZSTD
                ? std::max<uint64_t>(1, size / 8)
                : size;
    size = std::min(size, most);
  }
}

void PayloadReader::ReadInMemory(const Payload& payload, Bench& bench) {
  v1::Image& image = *payload.image;
  const bool plain = image.compression() == v1::COMPRESSION_NONE;
  Buffer& stored = plain ? bench.expanded : bench.stored;
  absl::Status status = source_.ReadAt(payload.offset, payload.stored,
                                       stored.Prepare(payload.stored));
  if (status.ok() && !plain) {
    status = bench.decoder.DecodeAll(image.compression(), stored.view(),
                                     payload.expanded, bench.expanded);
  }
  if (!status.ok()) {
    SetStatusProblem(image, status);
    return;
  }
  const MemorySource bytes(bench.expanded.view());
  if (IsSass(image)) {
    ReadElf(bytes, image);
  } else {
    ReadText(bench.expanded.view(), image);
  }
  if (options_.image_digests) TakeDigest(bytes, image);
}

void PayloadReader::ReadStreaming(const Payload& payload) {
  v1::Image& image = *payload.image;
  if (IsPtx(image)) {
    SetProblem(
        image,
        payload.expanded > kLargeImageBytes
            ? absl::StrCat("PTX text of ", payload.expanded,
                           " bytes, above the cap of ", kLargeImageBytes)
            : absl::StrCat("PTX text stored in ", payload.stored,
                           " bytes, above the cap of ", kLargeStoredBytes));
    return;
  }
  const PartSource stored(source_, payload.offset, payload.stored);
  absl::StatusOr<std::unique_ptr<DecodingSource>> bytes =
      DecodingSource::Open(image.compression(), stored, payload.expanded);
  if (!bytes.ok()) {
    SetStatusProblem(image, bytes.status());
    return;
  }
  ReadElf(**bytes, image);
  // A claim that is too large shows only at the end.
  char last;
  if (const absl::Status status =
          (*bytes)->ReadAt(payload.expanded - 1, 1, &last);
      !status.ok()) {
    image.clear_kernels();
    image.set_kernels_read(false);
    SetStatusProblem(image, status);
    return;
  }
  if (options_.image_digests) TakeDigest(**bytes, image);
}

void PayloadReader::ReadElf(const ByteSource& bytes, v1::Image& image) {
  absl::StatusOr<Cubin> cubin =
      ReadCubin(bytes, !options_.kernels  ? CubinDetail::kHeader
                       : options_.details ? CubinDetail::kAll
                                          : CubinDetail::kNames);
  if (!cubin.ok()) {
    SetStatusProblem(image,
                     absl::Status(cubin.status().code(),
                                  absl::StrCat("the payload is no "
                                               "readable cubin: ",
                                               cubin.status().message())));
    return;
  }
  ApplyCubin(*std::move(cubin), options_.kernels, budget_, image);
}

void PayloadReader::ReadText(absl::string_view text, v1::Image& image) {
  const PtxModule module = ParsePtx(text, !options_.kernels);
  if (module.isa_major == 0 && module.target == 0) {
    SetProblem(image,
               absl::StrCat("the payload is no PTX text", FlagHint(image)));
    return;
  }
  if (module.isa_major != 0) {
    image.mutable_ptx_isa()->set_major(module.isa_major);
    image.mutable_ptx_isa()->set_minor(module.isa_minor);
  }
  ApplyTarget(module.target, module.suffix, image);
  if (!module.problem.empty()) SetProblem(image, module.problem);
  if (!options_.kernels) return;
  uint64_t cost = 0;
  for (const PtxKernel& kernel : module.kernels) {
    cost += ReportBudget::kKernelCost + kernel.name.size();
  }
  if (!budget_.Take(cost)) {
    SetProblem(image, kNoRoomForKernels);
    return;
  }
  for (const PtxKernel& kernel : module.kernels) {
    v1::Kernel& out = *image.add_kernels();
    out.set_name(std::string(kernel.name));
    if (kernel.max_threads) out.set_max_threads(*kernel.max_threads);
  }
  image.set_kernels_read(true);
}

void PayloadReader::TakeDigest(const ByteSource& bytes, v1::Image& image) {
  Sha256Stream digest;
  std::string window(std::min<uint64_t>(kDigestWindow, bytes.size()), '\0');
  for (uint64_t at = 0; at < bytes.size(); at += window.size()) {
    const size_t n = std::min<uint64_t>(window.size(), bytes.size() - at);
    const absl::Status status = bytes.ReadAt(at, n, window.data());
    if (!status.ok()) {
      SetStatusProblem(image, status);
      return;
    }
    digest.Update(absl::string_view(window.data(), n));
  }
  image.mutable_digest()->set_sha256(digest.Finish().Raw());
}

void ApplyCubin(Cubin cubin, bool kernels, ReportBudget& budget,
                v1::Image& image) {
  image.set_kind(cubin.capsule_only  ? v1::IMAGE_KIND_OTHER
                 : cubin.relocatable ? v1::IMAGE_KIND_RELOCATABLE_SASS
                                     : v1::IMAGE_KIND_SASS);
  if (cubin.capsule_only) {
    SetProblem(image, "capsule code that still has to be finalised");
  }
  ApplyTarget(cubin.target, cubin.suffix, image);
  if (cubin.virtual_architecture && *cubin.virtual_architecture != 0) {
    image.set_virtual_architecture(*cubin.virtual_architecture);
  }
  // Foreign bytes in proto strings have to be ASCII; tools write nothing else.
  const auto clean = [](std::string text) {
    for (char& c : text) {
      if (c < ' ' || c > '~') c = '?';
    }
    text.resize(std::min<size_t>(text.size(), 256));
    return text;
  };
  if (!cubin.tool.empty()) {
    image.mutable_producer()->set_tool(clean(cubin.tool));
    image.mutable_producer()->set_tool_version(clean(cubin.tool_version));
  }
  if (!cubin.options.empty() && cubin.options.size() <= (16 << 10) &&
      budget.Take(cubin.options.size())) {
    image.mutable_producer()->set_options(cubin.options);
  }
  if (cubin.toolkit_major != 0) {
    v1::Version& toolkit = *image.mutable_producer()->mutable_toolkit();
    toolkit.set_major(cubin.toolkit_major);
    toolkit.set_minor(cubin.toolkit_minor);
  }
  if (!cubin.problem.empty()) SetProblem(image, cubin.problem);
  if (!kernels) return;
  uint64_t cost = 0;
  for (const CubinKernel& kernel : cubin.kernels) {
    cost += ReportBudget::kKernelCost + kernel.name.size();
  }
  if (!budget.Take(cost)) {
    SetProblem(image, kNoRoomForKernels);
    return;
  }
  image.mutable_kernels()->Reserve(static_cast<int>(cubin.kernels.size()));
  for (CubinKernel& kernel : cubin.kernels) {
    v1::Kernel& out = *image.add_kernels();
    out.set_name(std::move(kernel.name));
    if (kernel.registers) out.set_registers(*kernel.registers);
    if (kernel.shared_bytes) out.set_shared_bytes(*kernel.shared_bytes);
    if (kernel.max_threads) out.set_max_threads(*kernel.max_threads);
  }
  image.set_kernels_read(true);
}

}  // namespace twinpath::inspect
