#include "inspect/cubin_notes.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "inspect/elf_view.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr uint16_t kTypeCapsule = 0xff00;

void SetToolkit(uint32_t times_ten, Cubin& cubin) {
  if (times_ten < 10 || times_ten > 9999) return;
  cubin.toolkit_major = times_ten / 10;
  cubin.toolkit_minor = times_ten % 10;
}

// "Cuda compilation tools, release 12.8, V12.8.93".
void ToolkitFromVersionLine(Cubin& cubin) {
  const absl::string_view line = cubin.tool_version;
  const size_t at = line.find("release ");
  if (at == absl::string_view::npos) return;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(line.substr(at + 8), absl::ByAnyChar(".,"));
  uint32_t major = 0;
  uint32_t minor = 0;
  if (parts.size() >= 2 && absl::SimpleAtoi(parts[0], &major) &&
      absl::SimpleAtoi(parts[1], &minor)) {
    cubin.toolkit_major = major;
    cubin.toolkit_minor = minor;
  }
}

}  // namespace

std::optional<uint32_t> ThreadsOfDimensions(absl::string_view xyz) {
  if (xyz.size() < 12) return std::nullopt;
  uint64_t product = 1;
  for (size_t i = 0; i < 3; ++i) {
    product *= LoadU32(xyz.data() + 4 * i);
    if (product > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  }
  if (product == 0) return std::nullopt;
  return static_cast<uint32_t>(product);
}

absl::string_view CStringAt(absl::string_view table, uint64_t at) {
  if (at >= table.size()) return {};
  const absl::string_view rest = table.substr(at);
  return rest.substr(0, rest.find('\0'));
}

void ApplyCubinHeader(uint16_t type, uint8_t abi_version, uint32_t version,
                      uint32_t flags, Cubin& cubin) {
  cubin.relocatable = type == kElfTypeRel;
  cubin.capsule_only = type == kTypeCapsule;
  if (abi_version >= 8) {
    cubin.target = (flags >> 8) & 0xff;
    if ((flags & 0x08) != 0) cubin.suffix = 'a';
  } else {
    cubin.target = flags & 0xff;
    // The bit is also found set on old SM 6.0 code, where it means something
    // else.
    if ((flags & 0x800) != 0 && cubin.target >= 90) cubin.suffix = 'a';
    SetToolkit(version, cubin);
  }
}

absl::string_view NoteBody(absl::string_view bytes, uint32_t type) {
  if (bytes.size() < kNoteHeaderBytes || LoadU32(bytes.data()) != 12 ||
      LoadU32(bytes.data() + 8) != type ||
      bytes.substr(12, 11) != "NVIDIA Corp") {
    return {};
  }
  return bytes.substr(kNoteHeaderBytes, LoadU32(bytes.data() + 4));
}

void ApplyCuinfo(absl::string_view body, bool is_cuver, Cubin& cubin) {
  if (body.size() < 8) return;
  cubin.virtual_architecture = LoadU16(body.data() + 2);
  if (!is_cuver) SetToolkit(LoadU16(body.data() + 4), cubin);
}

void ApplyToolkitNote(absl::string_view body, Cubin& cubin) {
  if (body.size() < 24) return;
  // Files of 12.x state the toolkit where later ones state the note's version.
  const uint32_t version = LoadU32(body.data());
  if (version >= 100 && cubin.toolkit_major == 0) SetToolkit(version, cubin);
  const absl::string_view strings = body.substr(24);
  cubin.tool = std::string(CStringAt(strings, LoadU32(body.data() + 8)));
  cubin.tool_version =
      std::string(CStringAt(strings, LoadU32(body.data() + 12)));
  cubin.options = std::string(CStringAt(strings, LoadU32(body.data() + 20)));
  if (cubin.toolkit_major == 0) ToolkitFromVersionLine(cubin);
}

bool SuffixOfOptions(const Cubin& cubin, char& suffix) {
  bool named = false;
  suffix = 0;
  for (absl::string_view word :
       absl::StrSplit(absl::string_view(cubin.options),
                      absl::ByAnyChar(" =,\t"), absl::SkipEmpty())) {
    if (!absl::ConsumePrefix(&word, "sm_") &&
        !absl::ConsumePrefix(&word, "compute_")) {
      continue;
    }
    if (word.empty()) continue;
    const char last = word.back();
    const bool lettered = last == 'a' || last == 'f';
    uint32_t number = 0;
    if (!absl::SimpleAtoi(word.substr(0, word.size() - (lettered ? 1 : 0)),
                          &number) ||
        number != cubin.target) {
      continue;
    }
    named = true;
    if (lettered) {
      suffix = last;
      break;
    }
  }
  return named;
}

}  // namespace twinpath::inspect
