#include "inspect/payload.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "inspect/cubin.h"
#include "inspect/decoding_source.h"
#include "inspect/elf_view.h"
#include "inspect/image.h"
#include "inspect/little_endian.h"
#include "inspect/ptx.h"
#include "inspect/zstd_frame.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kPeekBytes = 64;
// Stored bytes that are read for them at once: most first blocks are shorter.
constexpr size_t kPeekStored = 16 << 10;
constexpr size_t kDigestWindow = 1 << 20;
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

}  // namespace

Payload PayloadOf(const FatbinEntry& entry, v1::Image& image) {
  return {.image = &image,
          .offset = entry.payload_offset(),
          .stored = image.compression() == v1::COMPRESSION_NONE
                        ? entry.payload_bytes
                        : entry.compressed_bytes,
          .expanded = image.expanded_bytes()};
}

PrefixOptions PrefixOptionsOf(const InspectOptions& options,
                              bool target_unknown) {
  return {.kernels = options.kernels,
          .target = target_unknown,
          .details = options.kernels && options.details};
}

PayloadReader::PayloadReader(const ByteSource& source,
                             const InspectOptions& options,
                             ReportBudget& budget)
    : source_(source),
      options_(options),
      budget_(budget),
      max_image_bytes_(options.max_image_bytes != 0 ? options.max_image_bytes
                                                    : kDefaultMaxImageBytes),
      large_(source) {}

void PayloadReader::ReadAll(
    const std::vector<Payload>& payloads,
    const std::function<void(const Payload&)>& on_read) {
  const std::vector<size_t> order = LongestFirst(payloads);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    Bench bench(source_);
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
  Cubin cubin;
  if (!bench.prefix.Read({payload.offset, payload.stored, payload.expanded,
                          payload.image->compression()},
                         PrefixOptionsOf(options_, payload.target_unknown),
                         cubin)) {
    return false;
  }
  ApplyCubin(std::move(cubin), options_.kernels, budget_, *payload.image);
  return true;
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
  ApplyPtx(module, options_.kernels, budget_, image);
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

}  // namespace twinpath::inspect
