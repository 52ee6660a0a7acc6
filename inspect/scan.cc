#include "inspect/scan.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/buffer.h"
#include "inspect/find_beginning.h"
#include "inspect/little_endian.h"
#include "inspect/runtime.h"

namespace twinpath::inspect {
namespace {

// After a fatbin the next one is near, so the first look is small; where
// nothing is found the window doubles up to the size at which reading is
// fastest.
constexpr size_t kFirstWindow = 4 << 10;
constexpr size_t kLargestWindow = 256 << 10;
// What two windows share: the longest text searched for, less one byte.
constexpr size_t kOverlap = 64;
// Pieces that threads search apart, and the least that is worth a thread.
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
constexpr uint64_t kLeastParallel = uint64_t{64} << 20;
constexpr unsigned kMaxScanThreads = 8;
// What findings of pieces may take before they are handed on.
constexpr int64_t kMaxFindingBytes = int64_t{64} << 20;

// Sorts and merges; then every range is after the one before it.
std::vector<ScanRange> Union(std::vector<ScanRange> ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ScanRange& a, const ScanRange& b) { return a.begin < b.begin; });
  std::vector<ScanRange> merged;
  for (const ScanRange& range : ranges) {
    if (range.begin >= range.end) continue;
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace

std::vector<ScanRange> ScanRanges(const ElfView& elf, uint64_t file_size) {
  std::vector<ScanRange> code;
  const bool by_section = !elf.sections().empty();
  if (by_section) {
    for (const ElfSection& section : elf.sections()) {
      if (section.type == kSectionNoBits || section.type == 0 ||
          (section.flags & kSectionExecutable) == 0 ||
          section.offset >= file_size) {
        continue;
      }
      code.push_back(
          {section.offset,
           section.offset + std::min(section.size, file_size - section.offset),
           true});
    }
  } else {
    for (const ElfSegment& segment : elf.segments()) {
      if (segment.type != kSegmentLoad ||
          (segment.flags & kSegmentExecutable) == 0 ||
          segment.offset >= file_size) {
        continue;
      }
      code.push_back({segment.offset,
                      segment.offset + std::min(segment.file_size,
                                                file_size - segment.offset),
                      true});
    }
  }
  code = Union(std::move(code));

  std::vector<ScanRange> ranges;
  uint64_t at = 0;
  for (const ScanRange& range : code) {
    if (at < range.begin) ranges.push_back({at, range.begin, false});
    if (!by_section) ranges.push_back(range);
    at = range.end;
  }
  if (at < file_size) ranges.push_back({at, file_size, false});
  return ranges;
}

namespace {

// What all threads of one search share.
struct Shared {
  const ByteSource& source;
  const CudartSink& on_cudart;
  const PrefixOptions& wanted;
  ProbeBudget budget = ProbeBudget();
  std::atomic<uint64_t> walked{0};
};

// Where a search stands.
struct Position {
  uint64_t at = 0;
  // Comments before a PTX text reach back to here at most.
  uint64_t floor = 0;
  uint64_t bare_from = 0;
};

// Searches parts of ranges, one after the other. Not thread-safe.
class Searcher {
 public:
  explicit Searcher(Shared& shared)
      : shared_(shared), frames_(shared.source, shared.wanted) {}

  // Finds what begins in `range` between `position` and `until`. Leaves in
  // `position` where a search would go on; `on_finding` returning false ends
  // it early.
  absl::Status Run(const ScanRange& range, uint64_t until, Position& position,
                   const std::function<bool(Finding)>& on_finding) {
    until = std::min(until, range.end);
    const uint64_t end =
        range.end - until > kOverlap ? until + kOverlap : range.end;
    size_t window = kFirstWindow;
    while (position.at < until) {
      const uint64_t at = position.at;
      const size_t n = std::min<uint64_t>(window, end - at);
      char* const bytes = buffer_.Prepare(n);
      TWINPATH_RETURN_IF_ERROR(shared_.source.ReadAt(at, n, bytes));
      const absl::string_view view(bytes, n);
      // Several things may begin in one window; those that end in it too are
      // passed without reading again.
      uint64_t next = at + n;
      size_t from = 0;
      bool found = false;
      while (from < n) {
        const size_t hit = FindBeginning(view.substr(from));
        if (hit == absl::string_view::npos) break;
        const uint64_t place = at + from + hit;
        if (place >= until) break;
        TWINPATH_ASSIGN_OR_RETURN(
            std::optional<Finding> finding,
            Look(view.substr(from + hit), place, range, position));
        uint64_t resume = place + 1;
        if (finding) {
          found = true;
          resume = finding->resume;
          position.floor = resume;
          position.bare_from = finding->bare_from;
          if (!on_finding(*std::move(finding))) {
            position.at = resume;
            return absl::OkStatus();
          }
        }
        if (resume >= at + n) {
          next = resume;
          from = n;
          break;
        }
        from = resume - at;
      }
      // Nothing begins with a zero: a hole need not be read.
      if (!found && IsAllZero(view)) {
        position.at = std::max(next, shared_.source.NextData(next));
        window = std::min(window * 2, kLargestWindow);
        continue;
      }
      window = found ? kFirstWindow : std::min(window * 2, kLargestWindow);
      // What is searched for may lie across the window's end; but what was
      // found is not found again.
      if (next == at + n && next < end && n > kOverlap) {
        next = std::max(next - kOverlap, at + from);
      }
      position.at = next;
    }
    return absl::OkStatus();
  }

 private:
  using Found = absl::StatusOr<std::optional<Finding>>;

  Found Look(absl::string_view bytes, uint64_t place, const ScanRange& range,
             const Position& position) {
    const uint32_t word = LoadU32(bytes.data());
    if (word == LoadU32(kFatbinMagic)) return Fatbin(place, range);
    if (word == LoadU32(kCudartBegin)) {
      TWINPATH_RETURN_IF_ERROR(LookForCudart(bytes, place));
      return std::nullopt;
    }
    if (place < position.bare_from) return std::nullopt;
    if (word == LoadU32(kOffloadMagic)) return Bundle(place, range);
    absl::StatusOr<std::optional<BareImage>> bare = std::nullopt;
    if (word == LoadU32(kElfBegin)) {
      // Most ELF headers are not of cubins; often the window tells.
      if (bytes.size() >= 20 && LoadU16(bytes.data() + 18) != kElfMachineCuda) {
        return std::nullopt;
      }
      bare = ProbeCubin(shared_.source, place, range.end, shared_.budget);
    } else if (word == LoadU32(kZstdBegin)) {
      bare =
          ProbeZstd(shared_.source, place, range.end, frames_, shared_.budget);
    } else if ((word & 0xffffff) == kGzipBegin) {
      bare =
          ProbeGzip(shared_.source, place, range.end, frames_, shared_.budget);
    } else if ((word & 0xffff) == kZlibBegin) {
      bare = ProbeZlib(shared_.source, place,
                       std::max(range.begin, position.floor), range.end,
                       frames_, shared_.budget);
    } else {
      const absl::string_view text = bytes.substr(0, 8);
      if (text != absl::string_view(".version").substr(0, text.size())) {
        return std::nullopt;
      }
      bare =
          ProbePtx(shared_.source, place, std::max(range.begin, position.floor),
                   range.end, shared_.budget);
    }
    TWINPATH_RETURN_IF_ERROR_CTX(bare.status(),
                                 absl::StrCat("at offset ", place));
    if (!*bare || (range.code && !(*bare)->problem.empty())) {
      return std::nullopt;
    }
    Finding finding;
    finding.offset = (*bare)->offset;
    finding.resume = std::max(place + 4, finding.offset + (*bare)->stored);
    finding.bare_from = finding.resume;
    finding.bare = *std::move(bare);
    return finding;
  }

  // `bytes` are those at `place` that the window holds.
  absl::Status LookForCudart(absl::string_view bytes, uint64_t place) {
    constexpr absl::string_view kText(kCudartText, sizeof(kCudartText) - 1);
    if (!shared_.on_cudart ||
        bytes.substr(0, kText.size()) != kText.substr(0, bytes.size())) {
      return absl::OkStatus();
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                              ReadUpTo(shared_.source, place, kText.size()));
    if (text == kText) shared_.on_cudart();
    return absl::OkStatus();
  }

  Found Fatbin(uint64_t place, const ScanRange& range) {
    const uint64_t walked = shared_.walked.load(std::memory_order_relaxed);
    absl::StatusOr<FatbinWalk> walk =
        WalkFatbin(shared_.source, place, range.end,
                   kMaxEntriesWalked - std::min(walked, kMaxEntriesWalked));
    TWINPATH_RETURN_IF_ERROR_CTX(walk.status(),
                                 absl::StrCat("fatbin at offset ", place));
    shared_.walked.fetch_add(walk->entries.size(), std::memory_order_relaxed);
    if (walk->state == FatbinState::kNone ||
        (walk->state == FatbinState::kDamaged && range.code)) {
      return std::nullopt;
    }
    Finding finding;
    finding.offset = place;
    if (walk->state == FatbinState::kSound) {
      finding.resume = place + walk->size;
      finding.bare_from = finding.resume;
    } else {
      // Fatbins behind the break are looked for; what stands alone in there
      // belongs to the damaged one.
      finding.resume = place + kFatbinHeaderBytes;
      finding.bare_from = std::max(finding.resume, place + walk->size);
    }
    finding.fatbin = *std::move(walk);
    return finding;
  }

  Found Bundle(uint64_t place, const ScanRange& range) {
    absl::StatusOr<std::optional<OffloadBundle>> bundle =
        ReadOffloadBundle(shared_.source, place, range.end, shared_.budget);
    TWINPATH_RETURN_IF_ERROR_CTX(bundle.status(),
                                 absl::StrCat("at offset ", place));
    if (!*bundle || (range.code && !(*bundle)->problem.empty())) {
      return std::nullopt;
    }
    Finding finding;
    finding.offset = place;
    // What a broken one does not list is found by itself.
    finding.resume = place + ((*bundle)->problem.empty() ? (*bundle)->size : 4);
    finding.bare_from = finding.resume;
    if (!(*bundle)->problem.empty()) (*bundle)->entries.clear();
    finding.bundle = *std::move(bundle);
    return finding;
  }

  Shared& shared_;
  Buffer buffer_;
  FrameProbe frames_;
};

// A part of a range that one thread searches.
struct Piece {
  const ScanRange* range = nullptr;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<Finding> findings = {};
  // Where its search ended, and how.
  Position reached = {};
  absl::Status status = {};
};

int64_t CostOf(const Finding& finding) {
  size_t cost = sizeof(Finding);
  if (finding.fatbin) {
    for (const FatbinEntry& entry : finding.fatbin->entries) {
      cost += sizeof(entry) + entry.name.size() + entry.options.size();
    }
  }
  if (finding.bundle) {
    cost += finding.bundle->entries.size() * (sizeof(OffloadEntry) + 512);
  }
  if (finding.bare && finding.bare->cubin) {
    const Cubin& cubin = *finding.bare->cubin;
    cost += cubin.options.size() + cubin.tool_version.size();
    for (const CubinKernel& kernel : cubin.kernels) {
      cost += sizeof(kernel) + kernel.name.size();
    }
  }
  return static_cast<int64_t>(cost);
}

// Searches all pieces, each from its own beginning, on `threads` threads.
void SearchPieces(Shared& shared, std::vector<Piece>& pieces,
                  unsigned threads) {
  std::atomic<size_t> next{0};
  std::atomic<int64_t> room{kMaxFindingBytes};
  const auto work = [&] {
    Searcher searcher(shared);
    for (size_t i = next++; i < pieces.size(); i = next++) {
      Piece& piece = pieces[i];
      piece.reached = {piece.begin, piece.range->begin, piece.range->begin};
      // What does not fit is left for the caller to find.
      if (room.load() <= 0) continue;
      piece.status = searcher.Run(
          *piece.range, piece.end, piece.reached, [&](Finding finding) {
            room -= CostOf(finding);
            piece.findings.push_back(std::move(finding));
            return room.load() > 0;
          });
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

// Whether a search that stands at `position` finds from there on what the
// piece, searched from its own beginning, holds. Drops what lies before.
bool Continues(const Position& position, Piece& piece) {
  size_t before = 0;
  for (const Finding& finding : piece.findings) {
    if (finding.offset < position.floor) {
      if (finding.resume > position.floor ||
          finding.bare_from > position.floor) {
        return false;
      }
      ++before;
    } else if (!finding.fatbin && finding.offset < position.bare_from) {
      return false;
    }
  }
  piece.findings.erase(
      piece.findings.begin(),
      piece.findings.begin() + static_cast<std::ptrdiff_t>(before));
  return true;
}

}  // namespace

absl::Status ScanForCode(const ByteSource& source,
                         const std::vector<ScanRange>& ranges,
                         const FindingSink& on_finding,
                         const CudartSink& on_cudart,
                         const PrefixOptions& wanted) {
  Shared shared{source, on_cudart, wanted};
  bool stopped = false;
  const auto hand_on = [&](Finding finding) {
    stopped = !on_finding(std::move(finding));
    return !stopped;
  };
  Searcher searcher(shared);
  uint64_t bytes = 0;
  for (const ScanRange& range : ranges) bytes += range.end - range.begin;
  const unsigned threads = bytes < kLeastParallel
                               ? 1
                               : std::clamp(std::thread::hardware_concurrency(),
                                            1u, kMaxScanThreads);
  if (threads == 1) {
    for (const ScanRange& range : ranges) {
      Position position{range.begin, range.begin, range.begin};
      TWINPATH_RETURN_IF_ERROR(
          searcher.Run(range, range.end, position, hand_on));
      if (stopped) break;
    }
    return absl::OkStatus();
  }

  std::vector<Piece> pieces;
  for (const ScanRange& range : ranges) {
    for (uint64_t at = range.begin; at < range.end;) {
      const uint64_t end = range.end - at > kPieceBytes + kPieceBytes / 2
                               ? at + kPieceBytes
                               : range.end;
      pieces.push_back({.range = &range, .begin = at, .end = end});
      at = end;
    }
  }
  SearchPieces(shared, pieces, threads);
  const ScanRange* range = nullptr;
  Position position;
  for (Piece& piece : pieces) {
    if (piece.range != range) {
      range = piece.range;
      position = {range->begin, range->begin, range->begin};
    }
    if (position.floor >= piece.end) continue;
    position.at = std::max(position.floor, piece.begin);
    if (Continues(position, piece)) {
      for (Finding& finding : piece.findings) {
        position.floor = finding.resume;
        position.bare_from = finding.bare_from;
        if (!hand_on(std::move(finding))) return absl::OkStatus();
      }
      TWINPATH_RETURN_IF_ERROR(piece.status);
      position.at = std::max(position.at, piece.reached.at);
    }
    piece.findings = {};
    TWINPATH_RETURN_IF_ERROR(
        searcher.Run(*range, piece.end, position, hand_on));
    if (stopped) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status ScanForFatbins(const ByteSource& source,
                            const std::vector<ScanRange>& ranges,
                            const std::function<bool(FatbinWalk)>& on_fatbin) {
  return ScanForCode(
      source, ranges,
      [&](Finding finding) {
        return !finding.fatbin || on_fatbin(*std::move(finding.fatbin));
      },
      nullptr);
}

}  // namespace twinpath::inspect
