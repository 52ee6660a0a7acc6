// Makes fatbins in memory, entry by entry, right or wrong on purpose.
//
//   std::string fatbin = BuildFatbin({
//       SassEntry({.sm = 70}),
//       PtxEntry({.target = "sm_90"}, v1::COMPRESSION_ZSTD)});
//
// Layout as nvcc 13.0's fatbinary writes it (docs/formats/device-code.md).

#ifndef TWINPATH_TESTS_INSPECT_FATBIN_BUILDER_H_
#define TWINPATH_TESTS_INSPECT_FATBIN_BUILDER_H_

#include <lz4.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "tests/inspect/byte_writer.h"
#include "tests/inspect/device_builder.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

struct EntrySpec {
  uint16_t kind = 2;
  uint32_t arch = 90;
  char suffix = 0;
  uint16_t major = 1;
  uint16_t minor = 8;
  // Before packing.
  std::string payload = {};
  v1::Compression compression = v1::COMPRESSION_NONE;
  uint64_t extra_flags = 0;
  std::string name = {};
  std::string options = {};
  // Lies for tests of hostile input; applied last.
  std::optional<uint32_t> claimed_header_bytes = {};
  std::optional<uint64_t> claimed_payload_bytes = {};
  std::optional<uint32_t> claimed_compressed_bytes = {};
  std::optional<uint64_t> claimed_expanded_bytes = {};
};

// Packs as an entry of that codec would be.
inline std::string Pack(absl::string_view plain, v1::Compression compression) {
  std::string out;
  switch (compression) {
    case v1::COMPRESSION_ZSTD:
      out.resize(ZSTD_compressBound(plain.size()));
      out.resize(
          ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 3));
      return out;
    case v1::COMPRESSION_LZ4_BLOCK:
      out.resize(static_cast<size_t>(
          LZ4_compressBound(static_cast<int>(plain.size()))));
      out.resize(static_cast<size_t>(LZ4_compress_default(
          plain.data(), out.data(), static_cast<int>(plain.size()),
          static_cast<int>(out.size()))));
      return out;
    case v1::COMPRESSION_LZ4_FRAME:
      out.resize(LZ4F_compressFrameBound(plain.size(), nullptr));
      out.resize(LZ4F_compressFrame(out.data(), out.size(), plain.data(),
                                    plain.size(), nullptr));
      return out;
    case v1::COMPRESSION_GZIP: {
      z_stream stream = {};
      deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8,
                   Z_DEFAULT_STRATEGY);
      out.resize(deflateBound(&stream, plain.size()));
      stream.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
      stream.avail_in = static_cast<uInt>(plain.size());
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      deflate(&stream, Z_FINISH);
      out.resize(stream.total_out);
      deflateEnd(&stream);
      return out;
    }
    case v1::COMPRESSION_ZLIB: {
      uLongf size = compressBound(plain.size());
      out.resize(size);
      compress(reinterpret_cast<Bytef*>(out.data()), &size,
               reinterpret_cast<const Bytef*>(plain.data()), plain.size());
      out.resize(size);
      return out;
    }
    default:
      return std::string(plain);
  }
}

inline uint64_t FlagsOf(const EntrySpec& spec) {
  uint64_t flags = 0x11 | spec.extra_flags;
  switch (spec.compression) {
    case v1::COMPRESSION_ZLIB:
      flags |= 0x1000;
      break;
    case v1::COMPRESSION_LZ4_BLOCK:
      flags |= 0x2000;
      break;
    case v1::COMPRESSION_LZ4_FRAME:
      flags |= 0x4000;
      break;
    case v1::COMPRESSION_ZSTD:
      flags |= 0x8000;
      break;
    case v1::COMPRESSION_OPAQUE:
      flags |= 0x18000;
      break;
    default:
      break;
  }
  if (spec.suffix == 'a') flags |= 0x100000;
  if (spec.suffix == 'f') flags |= 0x200000;
  return flags;
}

// One entry: header, extension, payload, padding.
inline std::string BuildEntry(const EntrySpec& spec) {
  const bool packed = spec.compression != v1::COMPRESSION_NONE;
  std::string payload = Pack(spec.payload, spec.compression);
  const uint32_t compressed =
      packed ? static_cast<uint32_t>(payload.size()) : 0;
  Align(payload, 8);

  std::string extension = spec.name;
  if (!spec.name.empty()) Align(extension, 8);
  uint32_t pair_at = 0;
  // PTX and LTO-IR entries always have the pair of option words.
  if (spec.kind != 2) {
    pair_at = static_cast<uint32_t>(64 + extension.size());
    Append<uint32_t>(extension, pair_at + 8);
    Append<uint32_t>(extension, static_cast<uint32_t>(spec.options.size()));
    extension += spec.options;
    Align(extension, 8);
  }
  std::string out;
  Append(out, spec.kind);
  Append<uint16_t>(out, 0x0101);
  Append(out, spec.claimed_header_bytes.value_or(
                  static_cast<uint32_t>(64 + extension.size())));
  Append(out, spec.claimed_payload_bytes.value_or(payload.size()));
  Append(out, spec.claimed_compressed_bytes.value_or(compressed));
  Append(out, pair_at);
  Append(out, spec.minor);
  Append(out, spec.major);
  Append(out, spec.arch);
  Append<uint32_t>(out, spec.name.empty() ? 0 : 64);
  Append(out, static_cast<uint32_t>(spec.name.size()));
  Append(out, FlagsOf(spec));
  Append<uint64_t>(out, 0);
  Append(out, spec.claimed_expanded_bytes.value_or(packed ? spec.payload.size()
                                                          : 0));
  return out + extension + payload;
}

// A whole fatbin. `claimed_size`, if given, goes into its header.
inline std::string BuildFatbin(const std::vector<EntrySpec>& entries,
                               std::optional<uint64_t> claimed_size = {}) {
  std::string chain;
  for (const EntrySpec& entry : entries) chain += BuildEntry(entry);
  std::string out("\x50\xED\x55\xBA\1\0\x10\0", 8);
  Append(out, claimed_size.value_or(chain.size()));
  return out + chain;
}

// Machine code for spec.sm.
inline EntrySpec SassEntry(const CubinSpec& spec,
                           v1::Compression compression = v1::COMPRESSION_NONE) {
  return {.kind = 2,
          .arch = spec.sm,
          .suffix = spec.suffix,
          .major = 1,
          .minor = static_cast<uint16_t>(spec.abi),
          .payload = BuildCubin(spec),
          .compression = compression};
}

// PTX; arch and suffix from the target's name.
inline EntrySpec PtxEntry(const PtxSpec& spec,
                          v1::Compression compression = v1::COMPRESSION_NONE) {
  EntrySpec entry;
  entry.kind = 1;
  absl::string_view number = absl::string_view(spec.target).substr(3);
  if (!number.empty() && (number.back() == 'a' || number.back() == 'f')) {
    entry.suffix = number.back();
    number.remove_suffix(1);
  }
  (void)absl::SimpleAtoi(number, &entry.arch);
  entry.major = static_cast<uint16_t>(spec.isa_major);
  entry.minor = static_cast<uint16_t>(spec.isa_minor);
  entry.payload = BuildPtx(spec) + std::string(1, '\0');
  entry.compression = compression;
  entry.options = " ";
  return entry;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_FATBIN_BUILDER_H_
