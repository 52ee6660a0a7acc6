// Makes small cubins and PTX texts in memory, also for targets that no current
// toolkit builds. They have the tables a reader looks at and no code: no driver
// will run them.
//
//   BuildCubin({.sm = 70, .kernels = {{.name = "_Z1kv"}}})
//   BuildPtx({.isa_major = 9, .isa_minor = 1, .target = "sm_121a",
//             .kernels = {"_Z1kv"}})

#ifndef TWINPATH_TESTS_INSPECT_DEVICE_BUILDER_H_
#define TWINPATH_TESTS_INSPECT_DEVICE_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/inspect/byte_writer.h"

namespace twinpath::inspect {

struct TestKernel {
  std::string name = {};
  uint32_t registers = 16;
  // Static shared memory as the user wrote it.
  uint32_t shared = 0;
  std::optional<uint32_t> max_threads = {};
};

struct CubinSpec {
  uint32_t sm = 90;
  // 0 or 'a'; an 'f' is only seen in `options`.
  char suffix = 0;
  // 8 as toolkit 13 writes it, or 7 as older ones do.
  int abi = 8;
  bool relocatable = false;
  // Times ten: 130 for 13.0.
  uint32_t toolkit = 130;
  // 0: as `sm`.
  uint32_t virtual_architecture = 0;
  std::string options = {};
  std::vector<TestKernel> kernels = {{.name = "_Z6kernelPi"}};
  // Bytes of zeros behind the tables, to make it large.
  size_t filler = 0;
};

struct PtxSpec {
  uint32_t isa_major = 9;
  uint32_t isa_minor = 0;
  std::string target = "sm_90";
  std::vector<std::string> kernels = {"_Z6kernelPi"};
};

inline std::string BuildPtx(const PtxSpec& spec) {
  std::string text = absl::StrCat(
      "//\n// Made by a test\n//\n\n.version ", spec.isa_major, ".",
      spec.isa_minor, "\n.target ", spec.target, "\n.address_size 64\n\n");
  for (const std::string& kernel : spec.kernels) {
    absl::StrAppend(&text, ".visible .entry ", kernel, "(\n\t.param .u64 ",
                    kernel, "_param_0\n)\n{\n\tret;\n}\n\n");
  }
  return text;
}

// Collects sections and lays them out behind an ELF64 header.
class SectionLayout {
 public:
  struct Section {
    std::string name;
    uint32_t type = 1;
    uint64_t flags = 0;
    std::string data = {};
    uint32_t link = 0;
    uint32_t info = 0;
    uint64_t entry_size = 0;
    uint64_t alignment = 8;
    // For sections without file bytes.
    uint64_t nobits_size = 0;
    // Filled by Layout.
    uint64_t offset = 0;
    uint64_t address = 0;
  };

  // Returns the section's index; 0 is the null section.
  uint32_t Add(Section section) {
    sections_.push_back(std::move(section));
    return static_cast<uint32_t>(sections_.size());
  }
  Section& at(uint32_t index) { return sections_[index - 1]; }
  std::vector<Section>& sections() { return sections_; }

  // Appends data, names and section table to `out`, which holds the ELF header
  // (64 bytes), and patches the header.
  void Finish(std::string& out) {
    std::string names(1, '\0');
    std::vector<uint32_t> name_at;
    for (const Section& section : sections_) {
      name_at.push_back(AppendName(names, section.name));
    }
    const uint32_t names_name = AppendName(names, ".shstrtab");
    for (Section& section : sections_) {
      if (section.type == 8 || section.offset != 0) continue;
      Align(out, section.alignment);
      section.offset = out.size();
      out += section.data;
    }
    const uint64_t names_at = out.size();
    out += names;
    Align(out, 8);
    const uint64_t table = out.size();
    out.append(64, '\0');
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Section& s = sections_[i];
      Header(out, name_at[i], s.type, s.flags, s.address, s.offset,
             s.type == 8 ? s.nobits_size : s.data.size(), s.link, s.info,
             s.alignment, s.entry_size);
    }
    Header(out, names_name, 3, 0, 0, names_at, names.size(), 0, 0, 1, 0);
    Patch<uint64_t>(out, 40, table);
    Patch<uint16_t>(out, 58, 64);
    Patch<uint16_t>(out, 60, static_cast<uint16_t>(sections_.size() + 2));
    Patch<uint16_t>(out, 62, static_cast<uint16_t>(sections_.size() + 1));
  }

 private:
  static void Header(std::string& out, uint32_t name, uint32_t type,
                     uint64_t flags, uint64_t address, uint64_t offset,
                     uint64_t size, uint32_t link, uint32_t info,
                     uint64_t alignment, uint64_t entry_size) {
    Append(out, name);
    Append(out, type);
    Append(out, flags);
    Append(out, address);
    Append(out, offset);
    Append(out, size);
    Append(out, link);
    Append(out, info);
    Append(out, alignment);
    Append(out, entry_size);
  }

  std::vector<Section> sections_ = {};
};

// The 64 bytes of an ELF64 little-endian header, tables left 0.
inline std::string ElfHeader(uint16_t type, uint16_t machine, uint32_t version,
                             uint32_t flags, uint8_t os_abi,
                             uint8_t abi_version) {
  std::string out("\177ELF\2\1\1", 7);
  Append(out, os_abi);
  Append(out, abi_version);
  out.append(7, '\0');
  Append(out, type);
  Append(out, machine);
  Append(out, version);
  out.append(24, '\0');
  Append(out, flags);
  Append<uint16_t>(out, 64);
  Append<uint16_t>(out, 56);
  Append<uint16_t>(out, 0);
  out.append(6, '\0');
  return out;
}

// A note of NVIDIA's with a type and a description.
inline std::string NvidiaNote(uint32_t type, const std::string& description) {
  std::string note;
  Append<uint32_t>(note, 12);
  Append<uint32_t>(note, static_cast<uint32_t>(description.size()));
  Append<uint32_t>(note, type);
  note.append("NVIDIA Corp\0", 12);
  return note + description;
}

inline std::string BuildCubin(const CubinSpec& spec) {
  const bool v2 = spec.abi >= 8;
  std::string out =
      ElfHeader(spec.relocatable ? 1 : 2, 190, v2 ? 1 : spec.toolkit,
                v2 ? 0x04 | spec.sm << 8
                   : 0x500 | spec.sm | (spec.suffix == 'a' ? 0x800u : 0u),
                v2 ? 0x41 : 0x33, v2 ? 8 : 7);
  SectionLayout layout;
  std::string strings(1, '\0');
  std::string symbols(24, '\0');
  std::string info;
  const uint32_t strtab = layout.Add({.name = ".strtab", .type = 3});
  const uint32_t symtab = layout.Add(
      {.name = ".symtab", .type = 2, .link = strtab, .entry_size = 24});
  const uint32_t nv_info =
      layout.Add({.name = ".nv.info", .type = 0x70000000, .link = symtab});
  uint32_t symbol_index = 1;
  for (const TestKernel& kernel : spec.kernels) {
    const uint32_t text = layout.Add({.name = ".text." + kernel.name,
                                      .flags = 6,
                                      .data = std::string(16, '\0'),
                                      .link = symtab,
                                      .info = symbol_index,
                                      .alignment = 128});
    std::string own;
    if (kernel.max_threads) {
      own.append("\4\5", 2);
      Append<uint16_t>(own, 12);
      Append<uint32_t>(own, *kernel.max_threads);
      Append<uint32_t>(own, 1);
      Append<uint32_t>(own, 1);
    }
    layout.Add({.name = ".nv.info." + kernel.name,
                .type = 0x70000000,
                .data = own,
                .link = symtab,
                .info = text});
    const uint32_t reserved = spec.sm >= 90 ? 1024 : 0;
    if (kernel.shared + reserved > 0) {
      layout.Add({.name = ".nv.shared." + kernel.name,
                  .type = 8,
                  .flags = 3,
                  .info = text,
                  .nobits_size = kernel.shared + reserved});
    }
    // Global function with STO_CUDA_ENTRY.
    Append<uint32_t>(symbols, AppendName(strings, kernel.name));
    symbols.append("\x12\x10", 2);
    Append<uint16_t>(symbols, static_cast<uint16_t>(text));
    Append<uint64_t>(symbols, 0);
    Append<uint64_t>(symbols, 16);
    info.append("\4\x2f", 2);
    Append<uint16_t>(info, 8);
    Append<uint32_t>(info, symbol_index);
    Append<uint32_t>(info, kernel.registers);
    ++symbol_index;
  }
  layout.at(strtab).data = strings;
  layout.at(symtab).data = symbols;
  layout.at(nv_info).data = info;

  std::string cuinfo;
  Append<uint16_t>(cuinfo, 2);
  Append<uint16_t>(cuinfo, static_cast<uint16_t>(spec.virtual_architecture != 0
                                                     ? spec.virtual_architecture
                                                     : spec.sm));
  Append<uint16_t>(cuinfo, static_cast<uint16_t>(spec.toolkit));
  Append<uint16_t>(cuinfo, 0);
  layout.Add(
      {.name = ".note.nv.cuinfo", .type = 7, .data = NvidiaNote(1000, cuinfo)});
  if (v2) {
    std::string text(1, '\0');
    const uint32_t tool = AppendName(text, "ptxas");
    const uint32_t version = AppendName(
        text, absl::StrCat("Cuda compilation tools, release ",
                           spec.toolkit / 10, ".", spec.toolkit % 10));
    const uint32_t options = AppendName(text, spec.options);
    std::string tkinfo;
    for (const uint32_t word : {2u, 0u, tool, version, 0u, options}) {
      Append(tkinfo, word);
    }
    layout.Add({.name = ".note.nv.tkinfo",
                .type = 7,
                .data = NvidiaNote(2000, tkinfo + text)});
    if (spec.suffix == 'a') {
      layout.Add({.name = ".nv.compat",
                  .type = 0x70000086,
                  .data = std::string("\2\x09\1\0", 4)});
    }
  }
  if (spec.filler > 0) {
    layout.Add({.name = ".nv.constant3", .data = std::string(spec.filler, 0)});
  }
  layout.Finish(out);
  return out;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_DEVICE_BUILDER_H_
