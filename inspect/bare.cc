#include "inspect/bare.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "inspect/codec_stream.h"
#include "inspect/cubin.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/little_endian.h"
#include "inspect/zstd_frame.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kSectionHeaderBytes = 64;
constexpr size_t kSegmentHeaderBytes = 56;
// Section types from here on are the processor's. Two of CUDA's, shared memory
// for debuggers and what the system reserves, take no room in the file.
constexpr uint32_t kProcessorTypes = 0x70000000;
constexpr uint32_t kCudaShared = 0x7000000a;
constexpr uint32_t kCudaReserved = 0x70000015;
// Most bytes a frame header has (RFC 8878, 3.1.1.1), magic included.
constexpr size_t kFrameHeaderBytes = 18;
// Most bytes a frame's decoder may have to keep.
constexpr uint64_t kLargestWindow = uint64_t{128} << 20;
// Decoded bytes that tell what a frame holds; a PTX text may start with
// comments, a cubin's names and notes are often among them.
constexpr size_t kFrameHeadBytes = 32 << 10;
// How far comments may reach back from `.version`, and how far `.target` may
// be.
constexpr uint64_t kLookBack = 4096;
constexpr uint64_t kLookAhead = 1024;
constexpr size_t kTextWindow = 64 << 10;
constexpr size_t kGzipHeaderBytes = 10;
// Most bytes a stream is decoded to in order to find its end.
constexpr uint64_t kLargestStream = uint64_t{144} << 20;
constexpr size_t kFirstDeflated = 512;
// The sizes that FFmpeg's bin2c puts before what it packs.
constexpr size_t kSizesBytes = 8;
// Header, one block, check sum; and how much deflate makes of a byte at most.
constexpr uint64_t kLeastZlibBytes = 8;
constexpr uint64_t kMostDeflated = 1032;
// What may stand between a string's real start and `.version` and is not text:
// a length, a quotation mark.
constexpr size_t kStrayBytes = 4;

absl::Status Spent() {
  return absl::ResourceExhaustedError(
      "too many beginnings of device code that are none");
}

// Reads up to `size` bytes at `offset` that end at or before `limit`.
absl::StatusOr<std::string> Read(const ByteSource& source, uint64_t offset,
                                 uint64_t size, uint64_t limit,
                                 ProbeBudget& budget) {
  if (offset >= limit) return std::string();
  size = std::min(size, limit - offset);
  if (!budget.Take(size + 64)) return Spent();
  return ReadUpTo(source, offset, size);
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Drops white space and comments from the front; returns whether there were
// any.
bool SkipBlank(absl::string_view& text) {
  const size_t before = text.size();
  while (!text.empty()) {
    if (IsSpace(text[0])) {
      text.remove_prefix(1);
    } else if (absl::StartsWith(text, "//")) {
      text.remove_prefix(std::min(text.size(), text.find('\n')));
    } else if (absl::StartsWith(text, "/*")) {
      const size_t end = text.find("*/", 2);
      text.remove_prefix(end == absl::string_view::npos ? text.size()
                                                        : end + 2);
    } else {
      break;
    }
  }
  return text.size() < before;
}

bool SkipNumber(absl::string_view& text) {
  size_t digits = 0;
  while (digits < text.size() && digits < 4 && IsDigit(text[digits])) ++digits;
  text.remove_prefix(digits);
  return digits > 0 && digits < 4;
}

struct FrameHeader {
  size_t bytes = 0;
  uint64_t content = 0;
  bool has_content = false;
  bool has_checksum = false;
};

// Nothing if it is no frame that anything but a dictionary's owner can decode.
std::optional<FrameHeader> ParseFrameHeader(absl::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes ||
      !absl::StartsWith(bytes, "\x28\xB5\x2F\xFD")) {
    return std::nullopt;
  }
  const unsigned descriptor = static_cast<unsigned char>(bytes[4]);
  const bool single = (descriptor & 0x20) != 0;
  // A reserved bit; a dictionary.
  if ((descriptor & 0x08) != 0 || (descriptor & 0x03) != 0) return std::nullopt;
  FrameHeader header;
  header.bytes = 5;
  header.has_checksum = (descriptor & 0x04) != 0;
  if (!single) {
    const unsigned window = static_cast<unsigned char>(bytes[5]);
    const uint64_t base = uint64_t{1} << (10 + (window >> 3));
    if (base + base / 8 * (window & 7) > kLargestWindow) return std::nullopt;
    ++header.bytes;
  }
  const char* const at = bytes.data() + header.bytes;
  switch (descriptor >> 6) {
    case 0:
      header.has_content = single;
      header.content = single ? static_cast<unsigned char>(*at) : 0;
      header.bytes += single ? 1 : 0;
      break;
    case 1:
      header.has_content = true;
      header.content = uint64_t{LoadU16(at)} + 256;
      header.bytes += 2;
      break;
    case 2:
      header.has_content = true;
      header.content = LoadU32(at);
      header.bytes += 4;
      break;
    default:
      header.has_content = true;
      header.content = LoadU64(at);
      header.bytes += 8;
      break;
  }
  return header;
}

// End of the frame whose blocks start at `at`; nothing if the chain of blocks
// breaks or leaves `limit`.
absl::StatusOr<std::optional<uint64_t>> EndOfFrame(const ByteSource& source,
                                                   uint64_t at, uint64_t limit,
                                                   bool has_checksum,
                                                   ProbeBudget& budget) {
  bool whole = false;
  while (Fits(at, kZstdBlockHeader, limit)) {
    if (!budget.Take(64)) return Spent();
    std::array<char, kZstdBlockHeader> header;
    TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, header.size(), header.data()));
    const ZstdBlock block = ReadZstdBlock(header.data());
    if (block.type == ZstdBlockType::kReserved ||
        block.size > kZstdLargestBlock ||
        !Fits(at, block.stored_bytes(), limit)) {
      break;
    }
    at += block.stored_bytes();
    if (block.last) {
      whole = true;
      break;
    }
  }
  if (!whole) return std::nullopt;
  if (has_checksum) {
    if (!Fits(at, 4, limit)) return std::nullopt;
    at += 4;
  }
  return at;
}

// Place in `before`, the bytes in front of `.version`, where the text starts
// that it belongs to; nothing if it stands in the middle of other text.
std::optional<size_t> StartOfText(absl::string_view before,
                                  bool starts_at_floor) {
  size_t start = before.size();
  while (start > 0 && IsTextByte(before[start - 1])) --start;
  // Text from the window's edge on: where it starts is not known.
  if (start == 0 && !starts_at_floor) return std::nullopt;
  absl::string_view rest = before.substr(start);
  if (rest.size() > kStrayBytes) {
    SkipBlank(rest);
    return rest.empty() ? std::optional<size_t>(start) : std::nullopt;
  }
  SkipBlank(rest);
  return rest.empty() ? start : before.size();
}

// Says what the decoded beginning `head` is; returns false if it is no device
// code. `container`: what it is packed in, for words.
bool IdentifyContent(absl::string_view head, absl::string_view container,
                     BareImage& image) {
  if (LooksLikeCubin(head)) {
    image.kind = kEntryElf;
  } else if (StartsPtxModule(head)) {
    image.kind = kEntryPtx;
  } else if (absl::StartsWith(
                 head, absl::string_view("\x50\xED\x55\xBA\1\0\x10\0", 8))) {
    image.kind = 0;
    image.problem = absl::StrCat("a fatbin inside a ", container,
                                 ": its images are not looked at");
  } else {
    return false;
  }
  return true;
}

// Reads the cubin that was started, if it is one and its beginning does.
void ReadStartedCubin(FrameProbe& probe, BareImage& image) {
  if (Cubin cubin; image.kind == kEntryElf && image.problem.empty() &&
                   probe.prefix.ReadStarted(probe.wanted, cubin)) {
    image.cubin = std::move(cubin);
  }
}

struct StreamLength {
  uint64_t stored = 0;
  uint64_t expanded = 0;
  // Why it has no end ("" if it has).
  std::string problem = {};
};

// Decodes a payload that is a stream to its end.
absl::StatusOr<StreamLength> LengthOfStream(const ByteSource& source,
                                            const PackedPayload& payload,
                                            ProbeBudget& budget) {
  const std::unique_ptr<Codec> codec = MakeCodec(payload.compression);
  TWINPATH_RETURN_IF_ERROR(codec->Restart());
  StreamLength length;
  std::string decoded(kTextWindow, '\0');
  bool finished = false;
  while (!finished) {
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string stored,
        Read(source, payload.offset + length.stored, kTextWindow,
             payload.offset + payload.stored, budget));
    absl::string_view in = stored;
    const uint64_t before = length.expanded;
    while (!finished) {
      if (!budget.Take(decoded.size())) return Spent();
      const absl::StatusOr<size_t> got =
          Pump(*codec, in, decoded.data(), decoded.size(), finished);
      if (!got.ok()) {
        length.problem = std::string(got.status().message());
        return length;
      }
      length.expanded += *got;
      if (length.expanded > kLargestStream) {
        length.problem = absl::StrCat("above the cap of ", kLargestStream,
                                      " bytes after unpacking");
        return length;
      }
      if (*got < decoded.size()) break;
    }
    length.stored += stored.size() - in.size();
    if (!finished && in.size() == stored.size() && length.expanded == before) {
      length.problem = "the payload's end is missing";
      return length;
    }
  }
  return length;
}

// Decodes a deflated payload, first its beginning, and if that is device code
// all of it; returns whether it is. What does not decode is none.
absl::StatusOr<bool> ReadDeflated(const ByteSource& source,
                                  const PackedPayload& payload,
                                  absl::string_view container,
                                  FrameProbe& probe, BareImage& image,
                                  ProbeBudget& budget) {
  // A little first: most is no code, and a short stream that is broken at its
  // end still has a beginning. More where long comments may come first.
  for (const size_t size : {kFirstDeflated, kFrameHeadBytes}) {
    if (!budget.Take(2 * size)) return Spent();
    const absl::StatusOr<absl::string_view> head =
        probe.prefix.Start(payload, size);
    if (!head.ok()) {
      // Is it the payload, or the file?
      char byte;
      TWINPATH_RETURN_IF_ERROR(source.ReadAt(payload.offset, 1, &byte));
      return false;
    }
    if (IdentifyContent(*head, container, image)) {
      TWINPATH_ASSIGN_OR_RETURN(const StreamLength length,
                                LengthOfStream(source, payload, budget));
      image.offset = payload.offset;
      image.compression = payload.compression;
      image.stored = length.stored;
      image.expanded = length.expanded;
      if (image.problem.empty()) image.problem = length.problem;
      return true;
    }
    if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(*head), "/")) break;
  }
  return false;
}

}  // namespace

bool ProbeBudget::Take(uint64_t bytes) {
  uint64_t left = left_.load(std::memory_order_relaxed);
  do {
    if (left < bytes) return false;
  } while (!left_.compare_exchange_weak(left, left - bytes,
                                        std::memory_order_relaxed));
  return true;
}

bool IsTextByte(char c) {
  const unsigned char u = static_cast<unsigned char>(c);
  return (u >= 0x20 && u != 0x7f) || IsSpace(c);
}

bool StartsPtxModule(absl::string_view text) {
  SkipBlank(text);
  if (!absl::ConsumePrefix(&text, ".version")) return false;
  SkipBlank(text);
  if (!SkipNumber(text) || !absl::ConsumePrefix(&text, ".") ||
      !SkipNumber(text)) {
    return false;
  }
  SkipBlank(text);
  if (!absl::ConsumePrefix(&text, ".target") || !SkipBlank(text) ||
      !absl::ConsumePrefix(&text, "sm_") || !SkipNumber(text)) {
    return false;
  }
  if (!text.empty() && (text[0] == 'a' || text[0] == 'f')) {
    text.remove_prefix(1);
  }
  return text.empty() || IsSpace(text[0]) || text[0] == ',' || text[0] == '.' ||
         text[0] == '/' || text[0] == '\0';
}

absl::StatusOr<std::optional<BareImage>> ProbeCubin(const ByteSource& source,
                                                    uint64_t offset,
                                                    uint64_t limit,
                                                    ProbeBudget& budget) {
  limit = std::min(limit, source.size());
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string header,
      Read(source, offset, kElfHeaderBytes, limit, budget));
  if (header.size() < kElfHeaderBytes || !LooksLikeCubin(header) ||
      header[6] != 1 || LoadU16(header.data() + 52) != kElfHeaderBytes) {
    return std::nullopt;
  }
  const uint64_t sections_at = LoadU64(header.data() + 40);
  const uint64_t sections = LoadU16(header.data() + 60);
  const uint64_t segments_at = LoadU64(header.data() + 32);
  const uint64_t segments = LoadU16(header.data() + 56);
  if (sections_at < kElfHeaderBytes ||
      LoadU16(header.data() + 58) != kSectionHeaderBytes ||
      (segments != 0 && LoadU16(header.data() + 54) != kSegmentHeaderBytes)) {
    return std::nullopt;
  }
  BareImage image;
  image.offset = offset;
  image.kind = kEntryElf;
  const uint64_t room = limit - offset;
  uint64_t end = kElfHeaderBytes;
  const auto extend = [&](uint64_t at, uint64_t size) {
    if (!Fits(at, size, room)) return false;
    end = std::max(end, at + size);
    return true;
  };
  bool sound =
      extend(sections_at, sections * kSectionHeaderBytes) &&
      (segments == 0 || extend(segments_at, segments * kSegmentHeaderBytes));
  if (sound) {
    // The table is read by the view; its cost is that of its sections.
    if (!budget.Take((sections + 1) * kSectionHeaderBytes)) return Spent();
    const PartSource part(source, offset, room);
    TWINPATH_ASSIGN_OR_RETURN(const ElfView elf, ElfView::Open(part));
    if (!budget.Take(elf.sections().size() * kSectionHeaderBytes)) {
      return Spent();
    }
    sound = !elf.sections().empty() && elf.section_problem().empty();
    if (sound && sections == 0) {
      sound = extend(sections_at, elf.sections().size() * kSectionHeaderBytes);
    }
    for (const ElfSection& section : elf.sections()) {
      if (section.type == 0 || section.type == kSectionNoBits ||
          section.type == kCudaShared || section.type == kCudaReserved) {
        continue;
      }
      // Other processor specific ones may lie outside too.
      const bool fits = extend(section.offset, section.size);
      if (section.type < kProcessorTypes) sound = fits && sound;
    }
  }
  if (!sound) {
    image.problem = absl::StrCat(
        "a cubin whose tables or sections lie outside "
        "the ",
        room, " bytes from its start");
    end = kElfHeaderBytes;
  }
  image.stored = end;
  image.expanded = end;
  return image;
}

absl::StatusOr<std::optional<BareImage>> ProbeZstd(const ByteSource& source,
                                                   uint64_t offset,
                                                   uint64_t limit,
                                                   FrameProbe& probe,
                                                   ProbeBudget& budget) {
  limit = std::min(limit, source.size());
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string beginning,
      Read(source, offset, kFrameHeaderBytes + kZstdBlockHeader, limit,
           budget));
  const std::optional<FrameHeader> header = ParseFrameHeader(beginning);
  if (!header || !Fits(header->bytes, kZstdBlockHeader, beginning.size())) {
    return std::nullopt;
  }
  // Nothing starts with an empty, reserved or too large block.
  const ZstdBlock first = ReadZstdBlock(beginning.data() + header->bytes);
  if (first.type == ZstdBlockType::kReserved || first.size == 0 ||
      first.size > kZstdLargestBlock) {
    return std::nullopt;
  }
  // Decoding costs about as much as reading several times as much.
  if (!budget.Take(kZstdLargestBlock)) return Spent();
  TWINPATH_ASSIGN_OR_RETURN(const std::optional<uint64_t> end,
                            EndOfFrame(source, offset + header->bytes, limit,
                                       header->has_checksum, budget));
  const PackedPayload payload = {
      .offset = offset,
      .stored = (end ? *end : limit) - offset,
      .expanded = header->has_content ? header->content : kFrameHeadBytes,
      .compression = v1::COMPRESSION_ZSTD};
  const absl::StatusOr<absl::string_view> head =
      probe.prefix.Start(payload, kFrameHeadBytes);
  if (!head.ok()) {
    // Is it the frame, or the file?
    TWINPATH_RETURN_IF_ERROR(
        Read(source, offset, ZstdFirstBlockEnd(beginning), limit, budget)
            .status());
    return std::nullopt;
  }
  BareImage image;
  image.offset = offset;
  image.compression = v1::COMPRESSION_ZSTD;
  if (!IdentifyContent(*head, "zstd frame", image)) return std::nullopt;
  if (!end) {
    image.stored = header->bytes;
    image.problem = "a zstd frame of device code that is cut or broken";
    return image;
  }
  image.stored = *end - offset;
  image.expanded = header->content;
  if (!header->has_content && image.problem.empty()) {
    image.problem = "its zstd frame does not say how long its content is";
  }
  ReadStartedCubin(probe, image);
  return image;
}

absl::StatusOr<std::optional<BareImage>> ProbeGzip(const ByteSource& source,
                                                   uint64_t offset,
                                                   uint64_t limit,
                                                   FrameProbe& probe,
                                                   ProbeBudget& budget) {
  limit = std::min(limit, source.size());
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string header,
      Read(source, offset, kGzipHeaderBytes, limit, budget));
  // Deflated, and no flags but the five there are (RFC 1952, 2.3.1).
  if (header.size() < kGzipHeaderBytes || header[0] != '\x1f' ||
      header[1] != '\x8b' || header[2] != 8 || (header[3] & 0xe0) != 0) {
    return std::nullopt;
  }
  const PackedPayload payload = {.offset = offset,
                                 .stored = limit - offset,
                                 .expanded = kFrameHeadBytes,
                                 .compression = v1::COMPRESSION_GZIP};
  BareImage image;
  TWINPATH_ASSIGN_OR_RETURN(
      const bool found,
      ReadDeflated(source, payload, "gzip member", probe, image, budget));
  if (!found) return std::nullopt;
  return image;
}

absl::StatusOr<std::optional<BareImage>> ProbeZlib(
    const ByteSource& source, uint64_t offset, uint64_t floor, uint64_t limit,
    FrameProbe& probe, ProbeBudget& budget) {
  limit = std::min(limit, source.size());
  if (offset < floor || offset - floor < kSizesBytes || offset >= limit) {
    return std::nullopt;
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string sizes,
      Read(source, offset - kSizesBytes, kSizesBytes, offset, budget));
  const uint64_t expanded = LoadU32(sizes.data());
  const uint64_t stored = LoadU32(sizes.data() + 4);
  // Text packs well, and never better than this (zlib's documentation).
  if (stored < kLeastZlibBytes || stored > limit - offset ||
      expanded < stored || expanded / kMostDeflated > stored) {
    return std::nullopt;
  }
  const PackedPayload payload = {.offset = offset,
                                 .stored = stored,
                                 .expanded = expanded,
                                 .compression = v1::COMPRESSION_ZLIB};
  BareImage image;
  TWINPATH_ASSIGN_OR_RETURN(
      const bool found,
      ReadDeflated(source, payload, "zlib stream", probe, image, budget));
  if (!found) return std::nullopt;
  // Two numbers may say anything: what they claim is passed over only where the
  // stream is that long.
  if (image.problem.empty() &&
      (image.stored != stored || image.expanded != expanded)) {
    image.problem = absl::StrCat("its sizes say ", stored,
                                 " bytes that become ", expanded, ", it has ",
                                 image.stored, " that become ", image.expanded);
  }
  return image;
}

absl::StatusOr<std::optional<BareImage>> ProbePtx(const ByteSource& source,
                                                  uint64_t offset,
                                                  uint64_t floor,
                                                  uint64_t limit,
                                                  ProbeBudget& budget) {
  limit = std::min(limit, source.size());
  TWINPATH_ASSIGN_OR_RETURN(const std::string head,
                            Read(source, offset, kLookAhead, limit, budget));
  if (!absl::StartsWith(head, ".version") || !StartsPtxModule(head)) {
    return std::nullopt;
  }
  const uint64_t back = std::min(offset - std::min(floor, offset), kLookBack);
  TWINPATH_ASSIGN_OR_RETURN(const std::string before,
                            Read(source, offset - back, back, offset, budget));
  const std::optional<size_t> start =
      StartOfText(before, offset - back <= floor);
  if (!start) return std::nullopt;
  BareImage image;
  image.kind = kEntryPtx;
  image.offset = offset - back + *start;
  uint64_t end = offset;
  while (end < limit) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string window,
                              Read(source, end, kTextWindow, limit, budget));
    const size_t text = static_cast<size_t>(
        std::find_if_not(window.begin(), window.end(), IsTextByte) -
        window.begin());
    end += text;
    if (text < window.size() || window.empty()) break;
  }
  image.stored = end - image.offset;
  image.expanded = image.stored;
  return image;
}

}  // namespace twinpath::inspect
