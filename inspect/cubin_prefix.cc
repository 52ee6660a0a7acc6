#include "inspect/cubin_prefix.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "inspect/cubin_notes.h"
#include "inspect/elf_view.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kSymbolBytes = 24;
constexpr uint8_t kSymbolFunction = 2;
// STO_CUDA_ENTRY (LLVM, BinaryFormat/ELF.h).
constexpr uint8_t kEntryBit = 0x10;
// Special section indices of symbols start here.
constexpr uint16_t kFirstSpecialIndex = 0xff00;
// No place or size in a cubin reaches this.
constexpr uint64_t kLargestValue = uint64_t{1} << 40;
// Both tables of names begin like this, one behind the other.
constexpr absl::string_view kNamesBegin("\0.shstrtab\0.strtab\0.symtab\0", 27);
constexpr absl::string_view kConstants = ".nv.constant0.";
// The notes follow the symbols, at most with .debug_frame between.
constexpr size_t kNotesWithin = 64 << 10;
constexpr absl::string_view kNoteOwner("NVIDIA Corp\0", 12);
constexpr size_t kOwnerInNote = 12;

// Place of `what` in `bytes` from `from` on, npos if it is not there. The names
// searched for begin with the commonest bytes there are; memmem does not mind.
size_t Find(absl::string_view bytes, absl::string_view what, size_t from) {
  if (from > bytes.size()) return absl::string_view::npos;
  const void* const found = ::memmem(bytes.data() + from, bytes.size() - from,
                                     what.data(), what.size());
  if (found == nullptr) return absl::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

class PrefixReader {
 public:
  PrefixReader(absl::string_view prefix, const PrefixOptions& options,
               Cubin& cubin)
      : prefix_(prefix), options_(options), cubin_(cubin) {}

  PrefixState Run() {
    if (prefix_.size() < kElfHeaderBytes) return PrefixState::kMore;
    if (!LooksLikeCubin(prefix_)) return PrefixState::kUnknown;
    const char* const header = prefix_.data();
    const uint16_t type = LoadU16(header + 16);
    sections_ = LoadU16(header + 60);
    // The tables' order: names of sections first.
    if ((type != kElfTypeExec && type != kElfTypeRel) || sections_ < 4 ||
        sections_ >= kFirstSpecialIndex || LoadU16(header + 62) != 1) {
      return PrefixState::kUnknown;
    }
    ApplyCubinHeader(type, static_cast<uint8_t>(header[8]),
                     LoadU32(header + 20), LoadU32(header + 48), cubin_);
    for (const auto step :
         {&PrefixReader::FindTables, &PrefixReader::ReadSymbols,
          &PrefixReader::ReadNotes, &PrefixReader::CheckKernels}) {
      const PrefixState state = (this->*step)();
      if (state != PrefixState::kRead) return state;
    }
    if (options_.kernels) {
      cubin_.kernels.reserve(kernels_.size());
      for (const absl::string_view name : kernels_) {
        cubin_.kernels.emplace_back().name = std::string(name);
      }
    }
    return PrefixState::kRead;
  }

 private:
  // Section names from the header on, then symbol names, then, behind at most
  // seven zeros, the symbols: the first of them is all zeros.
  PrefixState FindTables() {
    const absl::string_view rest = prefix_.substr(kElfHeaderBytes);
    if (rest.size() < kNamesBegin.size()) return PrefixState::kMore;
    if (!absl::StartsWith(rest, kNamesBegin)) return PrefixState::kUnknown;
    const size_t second = Find(rest, kNamesBegin, kNamesBegin.size());
    if (second == absl::string_view::npos) return PrefixState::kMore;
    section_names_ = rest.substr(0, second);
    strings_at_ = kElfHeaderBytes + second;
    static constexpr char kZeros[kSymbolBytes + 1] = {};
    // The last name's NUL and the first symbol.
    size_t end =
        Find(prefix_, absl::string_view(kZeros, sizeof(kZeros)), strings_at_);
    if (end == absl::string_view::npos) return PrefixState::kMore;
    ++end;
    strings_ = prefix_.substr(strings_at_, end - strings_at_);
    symbols_at_ = (end + 7) / 8 * 8;
    if (symbols_at_ + kSymbolBytes > prefix_.size()) return PrefixState::kMore;
    if (prefix_.substr(symbols_at_, kSymbolBytes) !=
        absl::string_view(kZeros, kSymbolBytes)) {
      return PrefixState::kUnknown;
    }
    return PrefixState::kRead;
  }

  // Whether these bytes can be a symbol of this file.
  bool IsSymbol(const char* at) const {
    const uint32_t name = LoadU32(at);
    const uint8_t info = static_cast<uint8_t>(at[4]);
    const uint16_t section = LoadU16(at + 6);
    return name < strings_.size() &&
           (name == 0 || strings_[name - 1] == '\0') && (info >> 4) <= 2 &&
           ((info & 0xf) <= 4 || (info & 0xf) >= 10) &&
           (section < sections_ || section >= kFirstSpecialIndex) &&
           LoadU64(at + 8) < kLargestValue && LoadU64(at + 16) < kLargestValue;
  }

  PrefixState ReadSymbols() {
    size_t at = symbols_at_ + kSymbolBytes;
    for (;; at += kSymbolBytes) {
      if (at + kSymbolBytes > prefix_.size()) return PrefixState::kMore;
      const char* const symbol = prefix_.data() + at;
      if (!IsSymbol(symbol)) break;
      if ((static_cast<uint8_t>(symbol[4]) & 0xf) != kSymbolFunction ||
          (static_cast<uint8_t>(symbol[5]) & kEntryBit) == 0 ||
          LoadU16(symbol + 6) == 0) {
        continue;
      }
      kernels_.push_back(CStringAt(strings_, LoadU32(symbol)));
    }
    symbols_end_ = at;
    return PrefixState::kRead;
  }

  PrefixState ReadNotes() {
    const size_t end = std::min(prefix_.size(), symbols_end_ + kNotesWithin);
    const absl::string_view within = prefix_.substr(0, end);
    bool toolkit = false;
    for (size_t at = symbols_end_;;) {
      const size_t owner = Find(within, kNoteOwner, at);
      if (owner == absl::string_view::npos) break;
      at = owner + kNoteOwner.size();
      if (owner < symbols_end_ + kOwnerInNote) continue;
      const absl::string_view note = within.substr(owner - kOwnerInNote);
      const uint32_t size = LoadU32(note.data() + 4);
      if (note.size() - kNoteHeaderBytes < size) break;
      const absl::string_view cuinfo = NoteBody(note, kNoteCuinfo);
      // .note.nv.cuver has the same type and is longer.
      if (!cuinfo.empty()) ApplyCuinfo(cuinfo, size > 8, cubin_);
      const absl::string_view body = NoteBody(note, kNoteToolkit);
      if (!body.empty()) {
        ApplyToolkitNote(body, cubin_);
        toolkit = true;
      }
      if (!cuinfo.empty() && toolkit) break;
    }
    char suffix = 0;
    const bool named = SuffixOfOptions(cubin_, suffix);
    if (cubin_.suffix == 0) cubin_.suffix = suffix;
    // The older ABI's header states the target; of the newer one the notes do.
    if (options_.target && prefix_[8] >= 8 && !named) {
      return toolkit || end == symbols_end_ + kNotesWithin
                 ? PrefixState::kUnknown
                 : PrefixState::kMore;
    }
    return PrefixState::kRead;
  }

  PrefixState CheckKernels() {
    if (!options_.kernels) return PrefixState::kRead;
    std::vector<absl::string_view> constants;
    absl::string_view rest = section_names_;
    while (!rest.empty()) {
      absl::string_view name = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      if (absl::ConsumePrefix(&name, kConstants)) constants.push_back(name);
    }
    if (constants.size() != kernels_.size()) return PrefixState::kUnknown;
    std::vector<absl::string_view> sorted = kernels_;
    std::sort(constants.begin(), constants.end());
    std::sort(sorted.begin(), sorted.end());
    return constants == sorted ? PrefixState::kRead : PrefixState::kUnknown;
  }

  const absl::string_view prefix_;
  const PrefixOptions& options_;
  Cubin& cubin_;
  uint16_t sections_ = 0;
  absl::string_view section_names_;
  absl::string_view strings_;
  size_t strings_at_ = 0;
  size_t symbols_at_ = 0;
  size_t symbols_end_ = 0;
  std::vector<absl::string_view> kernels_;
};

}  // namespace

PrefixState ReadCubinPrefix(absl::string_view prefix,
                            const PrefixOptions& options, Cubin& cubin) {
  cubin = Cubin();
  return PrefixReader(prefix, options, cubin).Run();
}

}  // namespace twinpath::inspect
