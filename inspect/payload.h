// Reads payloads of images: decode, list kernels, take notes. Payloads of
// different images are read in parallel, with bounded memory: small ones in
// each thread's own buffers, large ones one at a time, very large ones while
// they are decoded. Where only names are asked for, no more of a cubin is
// decoded than holds them.

#ifndef TWINPATH_INSPECT_PAYLOAD_H_
#define TWINPATH_INSPECT_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "inspect/buffer.h"
#include "inspect/byte_source.h"
#include "inspect/codec.h"
#include "inspect/fatbin.h"
#include "inspect/inspect.h"
#include "inspect/packed_cubin.h"
#include "inspect/report_budget.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// What the buffers of all threads together may take; an image's stored bytes
// take up to a quarter of a thread's share, its expanded bytes the rest.
inline constexpr uint64_t kBenchBytes = uint64_t{128} << 20;
// Most bytes an image held in memory at all has, stored and expanded; above
// this it is decoded while it is read, where its codec can.
inline constexpr uint64_t kLargeStoredBytes = uint64_t{48} << 20;
inline constexpr uint64_t kLargeImageBytes = uint64_t{144} << 20;
inline constexpr unsigned kMaxThreads = 8;

// Where an image's payload lies.
struct Payload {
  v1::Image* image = nullptr;
  // Which of the report's fatbins it is in.
  size_t fatbin = 0;
  uint64_t offset = 0;
  // Stored bytes without padding, and bytes after decoding.
  uint64_t stored = 0;
  uint64_t expanded = 0;
  // Only see whether it is an ELF file that still has to be linked.
  bool peek = false;
  // Read producer and target even where kernels are not asked for.
  bool notes = false;
  // Nothing but the payload states the target.
  bool target_unknown = false;
};

// The payload of an entry that DescribeEntry described.
Payload PayloadOf(const FatbinEntry& entry, v1::Image& image);

// What is read of a cubin's beginning with these options.
PrefixOptions PrefixOptionsOf(const InspectOptions& options,
                              bool target_unknown);

// Reads payloads. The source and the options must outlive it.
class PayloadReader {
 public:
  PayloadReader(const ByteSource& source, const InspectOptions& options,
                ReportBudget& budget);

  // Reads all payloads into their images, on up to kMaxThreads threads, about
  // in order. Every image is written by one thread only, which says so with
  // `on_read`. What goes wrong with an image stands in its `problem`.
  void ReadAll(const std::vector<Payload>& payloads,
               const std::function<void(const Payload&)>& on_read);

 private:
  // One thread's decoder and buffers.
  struct Bench {
    explicit Bench(const ByteSource& source) : prefix(source) {}

    PackedCubinReader prefix;
    Decoder decoder;
    Buffer stored;
    Buffer expanded;
  };

  void Read(const Payload& payload, Bench& bench);
  void Peek(const Payload& payload, Bench& bench);
  // Reads a cubin from its first bytes; returns false if that does not do.
  bool ReadPrefix(const Payload& payload, Bench& bench);
  void ReadInMemory(const Payload& payload, Bench& bench);
  void ReadStreaming(const Payload& payload);
  void ReadElf(const ByteSource& bytes, v1::Image& image);
  void ReadText(absl::string_view text, v1::Image& image);
  void TakeDigest(const ByteSource& bytes, v1::Image& image);

  const ByteSource& source_;
  const InspectOptions& options_;
  ReportBudget& budget_;
  const uint64_t max_image_bytes_;
  // What a thread's own buffers take, by the number of threads.
  uint64_t small_stored_bytes_ = 0;
  uint64_t small_image_bytes_ = 0;
  Mutex large_mutex_;
  Bench large_ ABSL_GUARDED_BY(large_mutex_);
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PAYLOAD_H_
