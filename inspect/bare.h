// Device code that stands alone in a file, outside any fatbin: cubins, PTX
// text, and either of them packed by zstd or gzip, or by zlib as FFmpeg does
// it. Libraries that choose their kernels themselves keep them like this. A
// magic alone proves nothing: what stands there is checked to its end before it
// counts, because its whole extent is then passed over by the search.
//
// Everything is read from the source by place, in small pieces and against a
// budget, so that a file full of beginnings costs no more than a large one.
// Layouts: docs/formats/device-code.md. Thread-safe as the source is.

#ifndef TWINPATH_INSPECT_BARE_H_
#define TWINPATH_INSPECT_BARE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/cubin.h"
#include "inspect/cubin_prefix.h"
#include "inspect/packed_cubin.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

struct BareImage {
  // Place in the source, and bytes it takes there.
  uint64_t offset = 0;
  uint64_t stored = 0;
  // Bytes after decoding; `stored` where it is not packed, 0 if a frame does
  // not say.
  uint64_t expanded = 0;
  v1::Compression compression = v1::COMPRESSION_NONE;
  // Kind word that a fatbin entry of this kind has (kEntryElf, kEntryPtx); 0
  // for what is none of them.
  uint16_t kind = 0;
  // What it is called where it was found.
  std::string name = {};
  // What was wanted of a packed cubin, where its beginning says all of that.
  std::optional<Cubin> cubin = {};
  // What is wrong with it ("" if nothing); then it is not read.
  std::string problem = {};
};

// Bytes that may still be read for looking at beginnings. Thread-safe.
class ProbeBudget {
 public:
  static constexpr uint64_t kDefaultBytes = uint64_t{4} << 30;

  explicit ProbeBudget(uint64_t bytes = kDefaultBytes) : left_(bytes) {}
  // Takes `bytes`, or returns false if they are not there.
  bool Take(uint64_t bytes);

 private:
  std::atomic<uint64_t> left_;
};

// What looking at packed code takes and what is wanted of cubins in it. For
// one source; not thread-safe.
struct FrameProbe {
  FrameProbe(const ByteSource& source, const PrefixOptions& options)
      : wanted(options), prefix(source) {}

  const PrefixOptions wanted;
  PackedCubinReader prefix;
};

// Each looks at what begins at `offset` and has to end at or before `limit`.
// Nothing if it is not that; RESOURCE_EXHAUSTED when the budget is used up;
// else only read errors of the source.

// A cubin: its section and program header tables and its sections lie inside.
// One with a right header whose tables lie outside has a `problem`.
absl::StatusOr<std::optional<BareImage>> ProbeCubin(const ByteSource& source,
                                                    uint64_t offset,
                                                    uint64_t limit,
                                                    ProbeBudget& budget);

// A zstd frame whose content begins as a cubin, PTX text or a fatbin.
absl::StatusOr<std::optional<BareImage>> ProbeZstd(const ByteSource& source,
                                                   uint64_t offset,
                                                   uint64_t limit,
                                                   FrameProbe& probe,
                                                   ProbeBudget& budget);

// A gzip member whose content begins as a cubin, PTX text or a fatbin. It is
// decoded to its end, which nothing else tells; of less than 512 decoded bytes
// one that is broken is passed over.
absl::StatusOr<std::optional<BareImage>> ProbeGzip(const ByteSource& source,
                                                   uint64_t offset,
                                                   uint64_t limit,
                                                   FrameProbe& probe,
                                                   ProbeBudget& budget);

// A zlib stream with such content, and in front of it, at or behind `floor`,
// two u32: bytes after and before unpacking. Without them its length is not
// known, and it is passed over.
absl::StatusOr<std::optional<BareImage>> ProbeZlib(
    const ByteSource& source, uint64_t offset, uint64_t floor, uint64_t limit,
    FrameProbe& probe, ProbeBudget& budget);

// PTX text whose `.version` stands at `offset`: followed by a number, `.target`
// and a target. Comments before it, back to `floor`, belong to it; other text
// does not, and makes it a quotation, which is not code. It ends in front of
// the first byte that is not text.
absl::StatusOr<std::optional<BareImage>> ProbePtx(const ByteSource& source,
                                                  uint64_t offset,
                                                  uint64_t floor,
                                                  uint64_t limit,
                                                  ProbeBudget& budget);

// Whether PTX may have this byte in it: printable, blank, or of another
// alphabet in a comment.
bool IsTextByte(char c);

// Whether `text` goes `.version M.m .target sm_NN`, with white space and
// comments, or nothing, between.
bool StartsPtxModule(absl::string_view text);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_BARE_H_
