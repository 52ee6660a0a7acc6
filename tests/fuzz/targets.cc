#include "tests/fuzz/targets.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "inspect/bare.h"
#include "inspect/byte_source.h"
#include "inspect/carrier.h"
#include "inspect/codec.h"
#include "inspect/cubin.h"
#include "inspect/cubin_prefix.h"
#include "inspect/decoding_source.h"
#include "inspect/demangle.h"
#include "inspect/dynamic.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/file_kind.h"
#include "inspect/inspect.h"
#include "inspect/oci.h"
#include "inspect/offload.h"
#include "inspect/package_metadata.h"
#include "inspect/ptx.h"
#include "inspect/report_budget.h"
#include "inspect/runtime.h"
#include "inspect/scan.h"
#include "inspect/scratch.h"
#include "inspect/wrapper.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::fuzz {
namespace {

using inspect::ByteSource;
using inspect::MemorySource;

// Whether `part` lies in `whole`, or is empty.
bool Inside(absl::string_view part, absl::string_view whole) {
  const std::less_equal<const char*> le;
  return part.empty() ||
         (le(whole.data(), part.data()) &&
          le(part.data() + part.size(), whole.data() + whole.size()));
}

// A caller in another process gets the report only if it can be parsed again:
// names are UTF-8 where the schema says so, whatever the file holds.
void CheckReport(const v1::FileReport& report) {
  std::string wire;
  Require(report.SerializeToString(&wire), "the report can be written");
  v1::FileReport again;
  Require(again.ParseFromString(wire), "the report can be read");
  Require(wire.size() <= inspect::kMaxReportBytes, "the report has a cap");
}

// Any file, from its first bytes to the last image.
void File(absl::string_view bytes) {
  const inspect::InspectOptions options = {
      .digest = false, .image_digests = true, .max_image_bytes = 16 << 20};
  const MemorySource source(bytes);
  inspect::ReportBudget budget(inspect::kMaxReportBytes);
  v1::FileReport report;
  Require(inspect::InspectSource(source, options, budget, report).ok(),
          "odd content is no error");
  CheckReport(report);
}

// Of a wheel, so that what packages promise is looked at too.
constexpr char kCarrierName[] =
    "demo-1.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl";

// A file with its members, members of members included.
void Carrier(absl::string_view bytes) {
  const inspect::InspectOptions options = {.max_image_bytes = 4 << 20};
  const inspect::CarrierLimits limits = {.members = 1000,
                                         .member_bytes = 4 << 20,
                                         .total_bytes = 16 << 20,
                                         .ratio_slack = 8 << 20};
  const MemorySource source(bytes);
  inspect::Scratch scratch(-1, 0);
  size_t reports = 0;
  bool own = false;
  const absl::Status status = inspect::InspectFile(
      source, kCarrierName, options, scratch,
      [&](v1::FileReport report) {
        CheckReport(report);
        Require(!own, "the file's own report is the last");
        own = report.member_of().empty();
        Require(own == (report.name() == kCarrierName),
                "members name their carrier");
        ++reports;
        return absl::OkStatus();
      },
      limits);
  Require(status.ok(), "odd content is no error");
  Require(own, "the file has a report");
  Require(reports <= 2 * limits.members + 1, "members have a cap");
}

void Fatbin(absl::string_view bytes) {
  const MemorySource source(bytes);
  uint64_t end_of_last = 0;
  const absl::Status status = inspect::ScanForFatbins(
      source, {{0, bytes.size(), false}}, [&](const inspect::FatbinWalk& walk) {
        Require(walk.offset >= end_of_last || end_of_last == 0,
                "fatbins come in order");
        Require(walk.offset < bytes.size(), "a fatbin starts in the file");
        if (walk.state == inspect::FatbinState::kSound) {
          Require(walk.offset + walk.size <= bytes.size(),
                  "a sound fatbin ends in the file");
          for (const inspect::FatbinEntry& entry : walk.entries) {
            Require(entry.payload_offset() + entry.payload_bytes <=
                        walk.offset + walk.size,
                    "a sound entry ends in its fatbin");
          }
        }
        end_of_last = walk.offset + 1;
        return true;
      });
  Require(status.ok() || absl::IsResourceExhausted(status),
          "a scan of memory ends well");
}

void Cubin(absl::string_view bytes) {
  const MemorySource source(bytes);
  (void)inspect::LooksLikeCubin(bytes);
  for (const bool kernels : {false, true}) {
    const absl::StatusOr<inspect::Cubin> cubin =
        inspect::ReadCubin(source, kernels);
    if (cubin.ok()) Require(kernels || cubin->kernels.empty(), "asked only");
  }
}

// A cubin's first bytes. With more of them the answer may come, but what was
// read stays.
void CubinPrefix(absl::string_view bytes) {
  for (const bool details : {false, true}) {
    const inspect::PrefixOptions options = {.details = details};
    inspect::Cubin half;
    const inspect::PrefixState first = inspect::ReadCubinPrefix(
        bytes.substr(0, bytes.size() / 2), options, half);
    inspect::Cubin whole;
    const inspect::PrefixState second =
        inspect::ReadCubinPrefix(bytes, options, whole);
    if (first == inspect::PrefixState::kUnknown) {
      Require(second != inspect::PrefixState::kMore,
              "what is not laid out like this does not ask for more");
    }
    if (second != inspect::PrefixState::kRead) continue;
    for (const inspect::CubinKernel& kernel : whole.kernels) {
      Require(absl::StrContains(bytes, kernel.name), "names are in the cubin");
      Require(!details || (kernel.registers && kernel.shared_bytes),
              "details are all there or it is not read");
    }
  }
  inspect::Cubin header;
  (void)inspect::ReadCubinPrefix(bytes, {.kernels = false, .target = true},
                                 header);
}

void Ptx(absl::string_view bytes) {
  (void)inspect::LooksLikePtx(bytes);
  const inspect::PtxModule head = inspect::ParsePtx(bytes, true);
  const inspect::PtxModule whole = inspect::ParsePtx(bytes);
  Require(head.kernels.empty() || whole.kernels.size() >= head.kernels.size(),
          "the head holds no more than the whole");
  for (const inspect::PtxKernel& kernel : whole.kernels) {
    Require(Inside(kernel.name, bytes), "names point into the text");
  }
}

void Elf(absl::string_view bytes) {
  const MemorySource source(bytes);
  const absl::StatusOr<inspect::ElfView> elf = inspect::ElfView::Open(source);
  if (!elf.ok()) return;
  (void)elf->Damage(bytes.size());
  (void)elf->FindSection(".nv_fatbin");
  (void)elf->SectionAtOffset(bytes.size() / 2);
  (void)elf->OffsetOfAddress(0x400000);
  uint64_t at = 0;
  for (const inspect::ScanRange& range :
       inspect::ScanRanges(*elf, bytes.size())) {
    Require(range.begin >= at && range.begin < range.end &&
                range.end <= bytes.size(),
            "ranges to scan are sorted, apart and inside");
    at = range.end;
  }
  (void)inspect::ReadDynamic(source, *elf);
  (void)inspect::ReadInterpreter(source, *elf);
  (void)inspect::FindWrappers(source, *elf, {0x200, 0x1000});
}

// First byte: codec; next two: expanded size; rest: payload.
void Codec(absl::string_view bytes) {
  constexpr v1::Compression kCodecs[] = {
      v1::COMPRESSION_NONE,      v1::COMPRESSION_ZLIB,
      v1::COMPRESSION_LZ4_BLOCK, v1::COMPRESSION_LZ4_FRAME,
      v1::COMPRESSION_ZSTD,      v1::COMPRESSION_OPAQUE,
      v1::COMPRESSION_GZIP};
  if (bytes.size() < 3) return;
  const v1::Compression codec =
      kCodecs[static_cast<uint8_t>(bytes[0]) % std::size(kCodecs)];
  const uint64_t expanded = static_cast<uint64_t>(
      static_cast<uint8_t>(bytes[1]) | static_cast<uint8_t>(bytes[2]) << 8);
  const absl::string_view stored = bytes.substr(3);
  static inspect::Decoder& decoder = *new inspect::Decoder;
  inspect::Buffer out;
  const bool decodes = decoder.DecodeAll(codec, stored, expanded, out).ok();
  if (decodes) Require(out.view().size() == expanded, "decoded to its size");
  const absl::StatusOr<absl::string_view> prefix =
      decoder.DecodePrefix(codec, stored, 128);
  if (prefix.ok()) {
    Require(prefix->size() <= 128, "a prefix is no longer");
    if (decodes) {
      Require(*prefix == out.view().substr(0, prefix->size()),
              "a prefix is a prefix of the whole");
    }
  }

  const MemorySource source(stored);
  const absl::StatusOr<std::unique_ptr<inspect::DecodingSource>> stream =
      inspect::DecodingSource::Open(codec, source, expanded);
  if (!stream.ok()) return;
  const absl::StatusOr<std::string> streamed =
      inspect::ReadBytes(**stream, 0, expanded, expanded);
  // The stream may not have looked behind the last byte asked for.
  if (decodes) {
    Require(streamed.ok() && *streamed == out.view(),
            "streamed and whole are the same");
  }
}

// Cuts `text` behind the first `separator`; what stands before it is returned.
absl::string_view Cut(absl::string_view& text, absl::string_view separator) {
  const size_t at = text.find(separator);
  const absl::string_view part = text.substr(0, at);
  text = at == absl::string_view::npos ? absl::string_view()
                                       : text.substr(at + separator.size());
  return part;
}

// Index or manifest, configuration and layer of an image, each behind a line
// of "--". What `docker save` writes names no digests, so all are read.
void Oci(absl::string_view bytes) {
  const MemorySource manifest(Cut(bytes, "\n--\n"));
  const MemorySource config(Cut(bytes, "\n--\n"));
  const MemorySource layer(bytes);
  const inspect::OciFiles layout = {{"index.json", &manifest},
                                    {"oci-layout", &config}};
  const inspect::OciFiles saved = {{"manifest.json", &manifest},
                                   {"config.json", &config},
                                   {"layer.tar", &layer}};
  for (const inspect::OciFiles& files : {layout, saved}) {
    v1::FileReport report;
    size_t members = 0;
    inspect::OciHooks hooks;
    hooks.problem = [&](absl::string_view code, const std::string& detail) {
      v1::Reason& reason = *report.add_problems();
      reason.set_code(std::string(code));
      reason.set_detail(detail);
    };
    hooks.image = [](const std::string&, absl::string_view) {};
    hooks.member = [&](inspect::ArchiveReader&, const inspect::ArchiveMember&,
                       const std::string&, bool, uint64_t&) {
      return ++members < 1000 ? absl::OkStatus()
                              : absl::ResourceExhaustedError("enough");
    };
    const absl::Status status =
        inspect::WalkOci(files, hooks, *report.mutable_carrier());
    Require(status.ok() || absl::IsResourceExhausted(status),
            "odd content is no error");
    CheckReport(report);
  }
}

// First line: a package's file name; second: a path in it; then that file.
void Metadata(absl::string_view bytes) {
  const absl::string_view name = Cut(bytes, "\n");
  const absl::string_view path = Cut(bytes, "\n");
  for (const absl::string_view format :
       {"zip", "ar", "tar", "oci_image", "gzip"}) {
    inspect::PackageMetadata metadata(name, format);
    (void)metadata.Wants(path);
    metadata.Read(path, bytes);
    (void)metadata.kind_name();
    (void)metadata.PromisesDeviceCode();
    (void)metadata.IsDriverPackage();
  }
}

// What is found lies between the two.
void CheckBare(const absl::StatusOr<std::optional<inspect::BareImage>>& found,
               uint64_t from, uint64_t limit) {
  Require(found.ok() || absl::IsResourceExhausted(found.status()),
          "odd content is no error");
  if (!found.ok() || !*found) return;
  const inspect::BareImage& image = **found;
  Require(image.offset >= from && image.offset <= limit &&
              image.stored <= limit - image.offset,
          "what is found lies in the file");
}

// The beginnings of bare images, at every place near the start and spread over
// the rest, as the search meets them.
void Bare(absl::string_view bytes) {
  constexpr uint64_t kNear = 64;
  constexpr uint64_t kSpread = 31;
  const MemorySource source(bytes);
  inspect::FrameProbe probe(source, {.kernels = bytes.size() % 2 != 0,
                                     .target = true,
                                     .details = bytes.size() % 4 == 3});
  inspect::ProbeBudget budget(16 << 20);
  const uint64_t step = std::max<uint64_t>(1, bytes.size() / kSpread);
  for (uint64_t at = 0; at < bytes.size(); at += at < kNear ? 1 : step) {
    for (const uint64_t limit : {bytes.size(), at + (bytes.size() - at) / 2}) {
      CheckBare(inspect::ProbeCubin(source, at, limit, budget), at, limit);
      CheckBare(inspect::ProbeZstd(source, at, limit, probe, budget), at,
                limit);
      CheckBare(inspect::ProbeGzip(source, at, limit, probe, budget), at,
                limit);
      CheckBare(inspect::ProbeZlib(source, at, 0, limit, probe, budget), at,
                limit);
      CheckBare(inspect::ProbePtx(source, at, at / 2, limit, budget), at / 2,
                limit);
    }
    (void)inspect::StartsPtxModule(bytes.substr(at));
  }
}

void Offload(absl::string_view bytes) {
  const MemorySource source(bytes);
  for (const uint64_t limit : {bytes.size(), bytes.size() / 2}) {
    inspect::ProbeBudget budget(1 << 20);
    const absl::StatusOr<std::optional<inspect::OffloadBundle>> found =
        inspect::ReadOffloadBundle(source, 0, limit, budget);
    Require(found.ok() || absl::IsResourceExhausted(found.status()),
            "odd content is no error");
    if (!found.ok() || !*found) continue;
    const inspect::OffloadBundle& bundle = **found;
    Require(bundle.offset == 0 && bundle.size <= limit,
            "a bundle lies in the file");
    for (const inspect::OffloadEntry& entry : bundle.entries) {
      Require(entry.offset <= bundle.size &&
                  entry.size <= bundle.size - entry.offset,
              "an entry lies in its bundle");
      (void)entry.for_nvidia();
      (void)entry.Describe();
    }
  }
}

// What a file is by its first bytes, and by fewer of them.
void Kind(absl::string_view bytes) {
  for (const size_t size : {bytes.size(), bytes.size() / 2, size_t{8}}) {
    const absl::string_view head = bytes.substr(0, size);
    const inspect::ContentKind kind = inspect::KindOfContent(head);
    Require(kind.elf == (kind.kind == v1::FILE_KIND_UNSPECIFIED),
            "what is no ELF file has a kind");
    Require(kind.reader == inspect::CarrierReader::kNone ||
                kind.kind == v1::FILE_KIND_ARCHIVE,
            "only archives are opened");
    Require(kind.archive.empty() == (kind.kind != v1::FILE_KIND_ARCHIVE),
            "an archive has a format");
    (void)inspect::LooksLikeText(head);
  }
}

void Demangle(absl::string_view bytes) {
  Require(inspect::Demangle(bytes).size() <= inspect::kMaxDemangledBytes,
          "names have a cap");
}

}  // namespace

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

const std::vector<Target>& Targets() {
  static const auto* const targets = new std::vector<Target>{
      {"file", File},         {"carrier", Carrier},
      {"fatbin", Fatbin},     {"cubin", Cubin},
      {"ptx", Ptx},           {"oci", Oci},
      {"metadata", Metadata}, {"demangle", Demangle},
      {"elf", Elf},           {"codec", Codec},
      {"bare", Bare},         {"offload", Offload},
      {"kind", Kind},         {"cubin_prefix", CubinPrefix},
  };
  return *targets;
}

}  // namespace twinpath::fuzz
