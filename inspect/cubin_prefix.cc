#include "inspect/cubin_prefix.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "inspect/cubin_notes.h"
#include "inspect/elf_view.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kSymbolBytes = 24;
constexpr uint8_t kSymbolObject = 1;
constexpr uint8_t kSymbolFunction = 2;
constexpr uint8_t kSymbolSection = 3;
// STO_CUDA_ENTRY (LLVM, BinaryFormat/ELF.h).
constexpr uint8_t kEntryBit = 0x10;
// Special section indices of symbols start here.
constexpr uint16_t kFirstSpecialIndex = 0xff00;
// No place or size in a cubin reaches this.
constexpr uint64_t kLargestValue = uint64_t{1} << 40;
// Both tables of names begin like this, one behind the other.
constexpr absl::string_view kNamesBegin("\0.shstrtab\0.strtab\0.symtab\0", 27);
constexpr absl::string_view kConstants = ".nv.constant0.";
constexpr absl::string_view kInfos = ".nv.info.";
constexpr absl::string_view kShared = ".nv.shared.";
constexpr absl::string_view kSharedReserved = ".nv.shared.reserved.";
// Unit lengths of .debug_frame: 64-bit DWARF begins like this.
constexpr uint32_t kLongLength = 0xffffffff;
constexpr size_t kLongLengthBytes = 12;
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
               PrefixProgress& progress, Cubin& cubin)
      : prefix_(prefix),
        options_(options),
        progress_(progress),
        cubin_(cubin) {}

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
    // Shared memory of what is not linked yet is not known.
    if (details() && type != kElfTypeExec) return PrefixState::kUnknown;
    for (const auto step :
         {&PrefixReader::FindTables, &PrefixReader::ReadSymbols,
          &PrefixReader::ReadNotes, &PrefixReader::CheckKernels}) {
      const PrefixState state = (this->*step)();
      if (state != PrefixState::kRead) return state;
    }
    if (options_.kernels) {
      cubin_.kernels.reserve(kernels_.size());
      for (const Symbol& kernel : kernels_) {
        cubin_.kernels.emplace_back().name = std::string(kernel.name);
      }
    }
    return details() ? ReadDetails() : PrefixState::kRead;
  }

 private:
  struct Symbol {
    absl::string_view name;
    uint32_t index = 0;
  };
  // What the records between two kAttrApiVersion say: one section's.
  struct Info {
    absl::string_view kernel;
    std::optional<uint32_t> max_threads;
    bool threads = false;
  };

  bool details() const { return options_.kernels && options_.details; }

  // Section names from the header on, then symbol names, then, behind a few
  // zeros, the symbols: the first of them is all zeros.
  PrefixState FindTables() {
    const absl::string_view rest = prefix_.substr(kElfHeaderBytes);
    if (rest.size() < kNamesBegin.size()) return PrefixState::kMore;
    if (!absl::StartsWith(rest, kNamesBegin)) return PrefixState::kUnknown;
    const size_t second =
        FindFrom(rest, kNamesBegin, kNamesBegin.size(), progress_.second_names);
    if (second == absl::string_view::npos) return PrefixState::kMore;
    section_names_ = rest.substr(0, second);
    strings_at_ = kElfHeaderBytes + second;
    static constexpr char kZeros[kSymbolBytes + 1] = {};
    // The last name's NUL and the first symbol.
    const size_t end =
        FindFrom(prefix_, absl::string_view(kZeros, sizeof(kZeros)),
                 strings_at_, progress_.symbols);
    if (end == absl::string_view::npos) return PrefixState::kMore;
    strings_ = prefix_.substr(strings_at_, end + 1 - strings_at_);
    // More zeros may lie between; the second symbol is not all zeros.
    const size_t second_symbol =
        prefix_.find_first_not_of('\0', end + kSymbolBytes);
    if (second_symbol == absl::string_view::npos) return PrefixState::kMore;
    symbols_at_ = second_symbol / 8 * 8 - kSymbolBytes;
    if (symbols_at_ <= end) return PrefixState::kUnknown;
    return PrefixState::kRead;
  }

  // Find from `from` on, but not again where a shorter prefix was searched.
  // Leaves in `at` where that is.
  static size_t FindFrom(absl::string_view bytes, absl::string_view what,
                         size_t from, size_t& at) {
    const size_t found = Find(bytes, what, std::max(from, at));
    at = found != absl::string_view::npos
             ? found
             : std::max(from,
                        bytes.size() - std::min(bytes.size(), what.size() - 1));
    return found;
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
    // Where they are only passed over, not again.
    if (!options_.kernels) at = std::max(at, progress_.symbols_passed);
    for (;; at += kSymbolBytes) {
      if (at + kSymbolBytes > prefix_.size()) {
        progress_.symbols_passed = at;
        return PrefixState::kMore;
      }
      const char* const symbol = prefix_.data() + at;
      if (!IsSymbol(symbol)) break;
      if (!options_.kernels) continue;
      const uint8_t type = static_cast<uint8_t>(symbol[4]) & 0xf;
      const uint16_t section = LoadU16(symbol + 6);
      if (details() && !NoSharedVariables(type, section, LoadU32(symbol))) {
        return PrefixState::kUnknown;
      }
      if (type != kSymbolFunction ||
          (static_cast<uint8_t>(symbol[5]) & kEntryBit) == 0 || section == 0) {
        continue;
      }
      kernels_.push_back(
          {CStringAt(strings_, LoadU32(symbol)),
           static_cast<uint32_t>((at - symbols_at_) / kSymbolBytes)});
    }
    progress_.symbols_passed = at;
    symbols_end_ = at;
    return PrefixState::kRead;
  }

  // Whether a symbol leaves no doubt that it is not of a kernel's variables in
  // shared memory. Symbols of sections come first, and have their names.
  bool NoSharedVariables(uint8_t type, uint16_t section, uint32_t name_at) {
    if (section == 0 || section >= kFirstSpecialIndex) return true;
    if (type == kSymbolSection) {
      const absl::string_view name = CStringAt(strings_, name_at);
      if (name.empty() || (absl::StartsWith(name, kShared) &&
                           !absl::StartsWith(name, kSharedReserved))) {
        return false;
      }
      named_.insert(section);
      return true;
    }
    return type != kSymbolObject || named_.contains(section);
  }

  // Whether a section of this name may be there.
  bool HasSection(absl::string_view name) const {
    return Find(section_names_, absl::StrCat(name, absl::string_view("\0", 1)),
                0) != absl::string_view::npos;
  }

  PrefixState ReadNotes() {
    size_t begin = 0;
    if (SkipFrames(begin) == PrefixState::kUnknown) begin = symbols_end_;
    const size_t end = std::min(prefix_.size(), begin + kNotesWithin);
    const absl::string_view within = prefix_.substr(0, end);
    bool toolkit = false;
    bool information = false;
    for (size_t at = begin; !toolkit || !information;) {
      const size_t owner = Find(within, kNoteOwner, at);
      if (owner == absl::string_view::npos) break;
      at = owner + kNoteOwner.size();
      if (owner < begin + kOwnerInNote) continue;
      const absl::string_view note = within.substr(owner - kOwnerInNote);
      const uint32_t size = LoadU32(note.data() + 4);
      if (note.size() - kNoteHeaderBytes < size) break;
      const absl::string_view cuinfo = NoteBody(note, kNoteCuinfo);
      // .note.nv.cuver has the same type and is longer.
      if (!cuinfo.empty()) {
        ApplyCuinfo(cuinfo, size > 8, cubin_);
        information = true;
      }
      const absl::string_view body = NoteBody(note, kNoteToolkit);
      if (!body.empty()) {
        ApplyToolkitNote(body, cubin_);
        toolkit = true;
      }
    }
    if (options_.kernels &&
        ((!toolkit && HasSection(".note.nv.tkinfo")) ||
         (!information &&
          (HasSection(".note.nv.cuinfo") || HasSection(".note.nv.cuver"))))) {
      return end < begin + kNotesWithin ? PrefixState::kMore
                                        : PrefixState::kUnknown;
    }
    char suffix = 0;
    const bool named = SuffixOfOptions(cubin_, suffix);
    if (cubin_.suffix == 0) cubin_.suffix = suffix;
    // The older ABI's header states the target; of the newer one the notes do.
    if (options_.target && prefix_[8] >= 8 && !named) {
      return toolkit || end == begin + kNotesWithin ? PrefixState::kUnknown
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
      if (absl::StartsWith(name, kInfos)) ++infos_named_;
    }
    if (constants.size() != kernels_.size()) return PrefixState::kUnknown;
    // Nearly always they come in the same order.
    if (std::equal(constants.begin(), constants.end(), kernels_.begin(),
                   [](absl::string_view constant, const Symbol& kernel) {
                     return constant == kernel.name;
                   })) {
      return PrefixState::kRead;
    }
    std::vector<absl::string_view> sorted;
    sorted.reserve(kernels_.size());
    for (const Symbol& kernel : kernels_) sorted.push_back(kernel.name);
    std::sort(constants.begin(), constants.end());
    std::sort(sorted.begin(), sorted.end());
    return constants == sorted ? PrefixState::kRead : PrefixState::kUnknown;
  }

  // Leaves in `at` the place behind .debug_frame.
  PrefixState SkipFrames(size_t& at) const {
    at = symbols_end_;
    while (Fits(at, kLongLengthBytes, prefix_.size()) &&
           LoadU32(prefix_.data() + at) == kLongLength) {
      const uint64_t size = LoadU64(prefix_.data() + at + 4);
      if (size >= kLargestValue) return PrefixState::kUnknown;
      at += kLongLengthBytes + size;
    }
    return Fits(at, kLongLengthBytes, prefix_.size()) ? PrefixState::kRead
                                                      : PrefixState::kMore;
  }

  // Place of the first record of .nv.info: behind .debug_frame and the notes.
  PrefixState FindInfo(size_t& at) const {
    if (const PrefixState state = SkipFrames(at); state != PrefixState::kRead) {
      return state;
    }
    at = (at + 3) / 4 * 4;
    while (Fits(at, kNoteHeaderBytes, prefix_.size()) &&
           prefix_.substr(at + kOwnerInNote, kNoteOwner.size()) == kNoteOwner) {
      at += kNoteHeaderBytes +
            (uint64_t{LoadU32(prefix_.data() + at + 4)} + 3) / 4 * 4;
    }
    return Fits(at, kNoteHeaderBytes, prefix_.size()) ? PrefixState::kRead
                                                      : PrefixState::kMore;
  }

  // Reads the records of .nv.info, .nv.compat and all .nv.info.NAME, which
  // follow each other: all have the same form.
  PrefixState ReadRecords() {
    size_t at = 0;
    if (const PrefixState state = FindInfo(at); state != PrefixState::kRead) {
      return state;
    }
    uint8_t format_before = 0;
    while (true) {
      if (!Fits(at, 4, prefix_.size())) return PrefixState::kMore;
      const char* const record = prefix_.data() + at;
      const uint8_t format = static_cast<uint8_t>(record[0]);
      const uint8_t attribute = static_cast<uint8_t>(record[1]);
      if (format < 1 || format > kFormatSized) return PrefixState::kRead;
      at += 4;
      if (format == kFormatSized) {
        const size_t size = LoadU16(record + 2);
        if (!Fits(at, size, prefix_.size())) return PrefixState::kMore;
        if (!TakeRecord(attribute, prefix_.substr(at, size))) {
          return PrefixState::kUnknown;
        }
        at += size;
      } else if (format == 2 && format_before == 2 &&
                 attribute == kCompatAcceleratorTarget && record[2] == 1) {
        cubin_.suffix = 'a';
      }
      format_before = format;
    }
  }

  // Returns false where it is not clear what the record is about.
  bool TakeRecord(uint8_t attribute, absl::string_view value) {
    switch (attribute) {
      case kAttrRegisterCount:
        if (value.size() >= 8 && infos_.empty()) {
          registers_.emplace(LoadU32(value.data()), LoadU32(value.data() + 4));
        }
        return true;
      case kAttrApiVersion:
        if (infos_.size() == infos_named_) return false;
        infos_.emplace_back();
        return true;
      case kAttrParameterBank: {
        if (infos_.empty() || !infos_.back().kernel.empty() ||
            value.size() < 4) {
          return false;
        }
        const size_t symbol =
            symbols_at_ + size_t{LoadU32(value.data())} * kSymbolBytes;
        if (symbol >= symbols_end_) return false;
        absl::string_view name =
            CStringAt(strings_, LoadU32(prefix_.data() + symbol));
        if (!absl::ConsumePrefix(&name, kConstants)) return false;
        infos_.back().kernel = name;
        return true;
      }
      case kAttrMaxThreads:
      case kAttrRequiredThreads: {
        if (infos_.empty()) return false;
        Info& info = infos_.back();
        info.threads = true;
        if (attribute == kAttrMaxThreads || !info.max_threads) {
          info.max_threads = ThreadsOfDimensions(value);
        }
        return true;
      }
      default:
        return true;
    }
  }

  PrefixState ReadDetails() {
    if (kernels_.empty()) return PrefixState::kRead;
    if (const PrefixState state = ReadRecords(); state != PrefixState::kRead) {
      return state;
    }
    if (infos_.size() != infos_named_) return PrefixState::kUnknown;
    absl::flat_hash_map<absl::string_view, CubinKernel*> by_name;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      CubinKernel& kernel = cubin_.kernels[i];
      const auto registers = registers_.find(kernels_[i].index);
      if (registers == registers_.end()) return PrefixState::kUnknown;
      kernel.registers = registers->second;
      kernel.shared_bytes = 0;
      if (!by_name.emplace(kernels_[i].name, &kernel).second) {
        return PrefixState::kUnknown;
      }
    }
    for (const Info& info : infos_) {
      if (!info.threads) continue;
      // Of a kernel without parameters it is not said whose it is.
      const auto found = by_name.find(info.kernel);
      if (found == by_name.end() || found->second->max_threads) {
        return PrefixState::kUnknown;
      }
      found->second->max_threads = info.max_threads;
    }
    return PrefixState::kRead;
  }

  const absl::string_view prefix_;
  const PrefixOptions& options_;
  PrefixProgress& progress_;
  Cubin& cubin_;
  uint16_t sections_ = 0;
  absl::string_view section_names_;
  absl::string_view strings_;
  size_t strings_at_ = 0;
  size_t symbols_at_ = 0;
  size_t symbols_end_ = 0;
  std::vector<Symbol> kernels_;
  // Sections whose symbol has shown that they are not shared memory.
  absl::flat_hash_set<uint16_t> named_;
  size_t infos_named_ = 0;
  std::vector<Info> infos_;
  absl::flat_hash_map<uint32_t, uint32_t> registers_;
};

}  // namespace

PrefixState ReadCubinPrefix(absl::string_view prefix,
                            const PrefixOptions& options,
                            PrefixProgress& progress, Cubin& cubin) {
  cubin = Cubin();
  return PrefixReader(prefix, options, progress, cubin).Run();
}

}  // namespace twinpath::inspect
