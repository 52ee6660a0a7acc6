#include "inspect/cubin.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "inspect/cubin_notes.h"
#include "inspect/elf_view.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kSymbolBytes = 24;
constexpr uint8_t kSymbolFunction = 2;
// STO_CUDA_ENTRY (LLVM, BinaryFormat/ELF.h).
constexpr uint8_t kEntryBit = 0x10;
// Static shared memory of SM 9.0 and later includes this much that the system
// reserves.
constexpr uint64_t kReservedShared = 1024;
constexpr uint32_t kFirstSmWithReservedShared = 90;
constexpr uint64_t kMaxInfoBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxNoteBytes = uint64_t{1} << 20;
constexpr size_t kMaxKernelNameBytes = 64 << 10;

// Walks the records of .nv.info and .nv.compat.
template <typename F>
void ForEachAttribute(absl::string_view bytes, F on_record) {
  while (bytes.size() >= 4) {
    const uint8_t format = static_cast<uint8_t>(bytes[0]);
    const uint8_t attribute = static_cast<uint8_t>(bytes[1]);
    absl::string_view value = bytes.substr(2, 2);
    bytes.remove_prefix(4);
    if (format == 4) {
      const size_t size = LoadU16(value.data());
      if (size > bytes.size()) return;
      value = bytes.substr(0, size);
      bytes.remove_prefix(size);
    } else if (format < 1 || format > 4) {
      return;
    }
    on_record(format, attribute, value);
  }
}

class Reader {
 public:
  Reader(const ByteSource& source, const ElfView& elf)
      : source_(source), elf_(elf) {}

  absl::StatusOr<Cubin> Run(CubinDetail detail) {
    const bool kernels = detail != CubinDetail::kHeader;
    details_ = detail == CubinDetail::kAll;
    Header();
    Index(kernels);
    TWINPATH_RETURN_IF_ERROR(ReadWanted());
    Notes();
    Suffix();
    if (kernels) Kernels();
    return std::move(cubin_);
  }

 private:
  // What the wanted sections are, by their place in `wanted_`.
  struct Wanted {
    const ElfSection* section;
    std::string bytes;
  };
  // Sections that belong to one function, by its name.
  struct FunctionSections {
    const ElfSection* text = nullptr;
    const ElfSection* shared = nullptr;
    // Index in wanted_, -1: none.
    int info = -1;
    // A kernel has been made of it; compilers make one symbol a function.
    bool used = false;
  };

  void Complain(absl::string_view what) {
    if (cubin_.problem.empty()) cubin_.problem = std::string(what);
  }

  void Header() {
    ApplyCubinHeader(elf_.type(), elf_.abi_version(), elf_.version(),
                     elf_.flags(), cubin_);
    if (!elf_.section_problem().empty()) Complain(elf_.section_problem());
  }

  // Returns the place in wanted_, or -1 if the section cannot be read.
  int Want(const ElfSection& section, uint64_t max) {
    if (section.type == kSectionNoBits) return -1;
    if (section.size > max ||
        !Fits(section.offset, section.size, source_.size())) {
      Complain(absl::StrCat("section ", section.name, " (", section.size,
                            " bytes at ", section.offset,
                            ") lies outside the cubin or is above its cap"));
      return -1;
    }
    total_ += section.size;
    if (total_ > kMaxCubinTableBytes) {
      Complain("its tables are above the cap");
      return -1;
    }
    wanted_.push_back({&section, {}});
    return static_cast<int>(wanted_.size()) - 1;
  }

  void Index(bool kernels) {
    cubin_.extent = kElfHeaderBytes;
    for (const ElfSection& section : elf_.sections()) {
      absl::string_view name = section.name;
      if (section.type != kSectionNoBits &&
          Fits(section.offset, section.size, source_.size())) {
        cubin_.extent = std::max(cubin_.extent, section.offset + section.size);
      }
      if (name == ".note.nv.cuinfo" || name == ".note.nv.cuver") {
        cuinfo_ = Want(section, kMaxNoteBytes);
        cuinfo_is_cuver_ = name == ".note.nv.cuver";
      } else if (name == ".note.nv.tkinfo") {
        toolkit_ = Want(section, kMaxNoteBytes);
      } else if (name == ".nv.compat") {
        compat_ = Want(section, kMaxInfoBytes);
      } else if (!kernels) {
        continue;
      } else if (section.type == kSectionSymbols && symbols_ < 0) {
        symbols_ = Want(section, kMaxCubinTableBytes);
        if (section.link < elf_.sections().size()) {
          strings_ = Want(elf_.sections()[section.link], kMaxCubinTableBytes);
        }
      } else if (!details_) {
        continue;
      } else if (name == ".nv.info") {
        info_ = Want(section, kMaxCubinTableBytes);
      } else if (absl::ConsumePrefix(&name, ".nv.info.")) {
        functions_[name].info = Want(section, kMaxInfoBytes);
      } else if (absl::ConsumePrefix(&name, ".nv.shared.")) {
        functions_[name].shared = &section;
      } else if (absl::ConsumePrefix(&name, ".text.")) {
        functions_[name].text = &section;
      }
    }
  }

  absl::Status ReadWanted() {
    std::vector<size_t> order(wanted_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return wanted_[a].section->offset < wanted_[b].section->offset;
    });
    for (const size_t i : order) {
      const ElfSection& section = *wanted_[i].section;
      TWINPATH_ASSIGN_OR_RETURN(wanted_[i].bytes,
                                ReadBytes(source_, section.offset, section.size,
                                          kMaxCubinTableBytes));
    }
    return absl::OkStatus();
  }

  absl::string_view BytesOf(int wanted) const {
    return wanted < 0
               ? absl::string_view()
               : absl::string_view(wanted_[static_cast<size_t>(wanted)].bytes);
  }

  void Notes() {
    ApplyCuinfo(NoteBody(BytesOf(cuinfo_), kNoteCuinfo), cuinfo_is_cuver_,
                cubin_);
    ApplyToolkitNote(NoteBody(BytesOf(toolkit_), kNoteToolkit), cubin_);
  }

  void Suffix() {
    ForEachAttribute(BytesOf(compat_), [this](uint8_t, uint8_t attribute,
                                              absl::string_view value) {
      if (attribute == kCompatAcceleratorTarget && !value.empty() &&
          value[0] == 1) {
        cubin_.suffix = 'a';
      }
    });
    char suffix = 0;
    if (cubin_.suffix == 0 && SuffixOfOptions(cubin_, suffix)) {
      cubin_.suffix = suffix;
    }
  }

  void Kernels() {
    const absl::string_view symbols = BytesOf(symbols_);
    const absl::string_view strings = BytesOf(strings_);
    absl::flat_hash_map<uint32_t, uint32_t> registers;
    ForEachAttribute(BytesOf(info_), [&](uint8_t, uint8_t attribute,
                                         absl::string_view value) {
      if (attribute == kAttrRegisterCount && value.size() >= 8) {
        registers[LoadU32(value.data())] = LoadU32(value.data() + 4);
      }
    });
    const size_t count = symbols.size() / kSymbolBytes;
    for (size_t i = 0; i < count; ++i) {
      const char* const at = symbols.data() + i * kSymbolBytes;
      const uint8_t info = static_cast<uint8_t>(at[4]);
      const uint8_t other = static_cast<uint8_t>(at[5]);
      if ((info & 0xf) != kSymbolFunction || (other & kEntryBit) == 0 ||
          LoadU16(at + 6) == 0) {
        continue;
      }
      const absl::string_view name = CStringAt(strings, LoadU32(at));
      if (name.empty() || name.size() > kMaxKernelNameBytes) {
        Complain("a kernel's name lies outside the string table");
        continue;
      }
      // Symbols may share a name, so the tables' cap does not bound this.
      kernel_bytes_ += sizeof(CubinKernel) + name.size();
      if (kernel_bytes_ > kMaxCubinTableBytes) {
        Complain("its kernels are above the cap; the rest is left out");
        return;
      }
      AddKernel(name, registers, static_cast<uint32_t>(i));
    }
  }

  void AddKernel(absl::string_view name,
                 const absl::flat_hash_map<uint32_t, uint32_t>& registers,
                 uint32_t symbol) {
    CubinKernel& kernel = cubin_.kernels.emplace_back();
    kernel.name = std::string(name);
    if (auto found = registers.find(symbol); found != registers.end()) {
      kernel.registers = found->second;
    }
    if (!details_) return;
    const auto found = functions_.find(name);
    if (found == functions_.end() || found->second.used) return;
    found->second.used = true;
    const FunctionSections& sections = found->second;
    const bool reserved = cubin_.target >= kFirstSmWithReservedShared;
    if (!kernel.registers && !reserved && sections.text != nullptr &&
        sections.text->info >> 24 != 0) {
      kernel.registers = sections.text->info >> 24;
    }
    uint64_t shared = sections.shared != nullptr ? sections.shared->size : 0;
    if (reserved) shared -= std::min(shared, kReservedShared);
    if (shared <= std::numeric_limits<uint32_t>::max()) {
      kernel.shared_bytes = static_cast<uint32_t>(shared);
    }
    ForEachAttribute(BytesOf(sections.info), [&](uint8_t, uint8_t attribute,
                                                 absl::string_view value) {
      if (attribute == kAttrMaxThreads ||
          (attribute == kAttrRequiredThreads && !kernel.max_threads)) {
        kernel.max_threads = ThreadsOfDimensions(value);
      }
    });
  }

  const ByteSource& source_;
  const ElfView& elf_;
  Cubin cubin_;
  bool details_ = true;
  std::vector<Wanted> wanted_;
  absl::flat_hash_map<absl::string_view, FunctionSections> functions_;
  uint64_t total_ = 0;
  // What the kernels found so far take.
  uint64_t kernel_bytes_ = 0;
  int cuinfo_ = -1;
  bool cuinfo_is_cuver_ = false;
  int toolkit_ = -1;
  int compat_ = -1;
  int symbols_ = -1;
  int strings_ = -1;
  int info_ = -1;
};

}  // namespace

bool LooksLikeCubin(absl::string_view head) {
  return head.size() >= 20 && head.substr(0, 6) == "\177ELF\2\1" &&
         LoadU16(head.data() + 18) == kElfMachineCuda;
}

absl::StatusOr<Cubin> ReadCubin(const ByteSource& source, CubinDetail detail) {
  TWINPATH_ASSIGN_OR_RETURN(const ElfView elf, ElfView::Open(source));
  if (elf.machine() != kElfMachineCuda) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an ELF file for machine ", elf.machine(), ", not device code"));
  }
  return Reader(source, elf).Run(detail);
}

absl::StatusOr<Cubin> ReadCubin(const ByteSource& source, bool kernels) {
  return ReadCubin(source, kernels ? CubinDetail::kAll : CubinDetail::kHeader);
}

}  // namespace twinpath::inspect
