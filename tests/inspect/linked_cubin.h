// Makes small cubins laid out as the device linker does: names of sections,
// names of symbols, symbols, .debug_frame, notes, .nv.info, and the section
// table last. They have no code: no driver will run them.

#ifndef TWINPATH_TESTS_INSPECT_LINKED_CUBIN_H_
#define TWINPATH_TESTS_INSPECT_LINKED_CUBIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/inspect/byte_writer.h"
#include "tests/inspect/device_builder.h"

namespace twinpath::inspect {

struct LinkedCubinSpec {
  uint32_t sm = 90;
  bool relocatable = false;
  std::vector<TestKernel> kernels = {{.name = "_Z6kernelPi"}};
  // A kernel with shared variables has a symbol for their section.
  bool shared_symbols = true;
  bool section_symbol_names = true;
  // Kernels have parameters, and with them say whose .nv.info it is.
  bool parameters = true;
  bool constant_banks = true;
  // Zeros between the symbols' names and the symbols.
  size_t gap = 0;
  // Bytes of .debug_frame.
  size_t frames = 64;
  // Bytes of code of a kernel.
  size_t code = 128;
};

inline std::string BuildLinkedCubin(const LinkedCubinSpec& spec) {
  struct Section {
    std::string name;
    uint32_t type = 1;
    std::string data = {};
    uint64_t alignment = 4;
    uint32_t link = 0;
    uint32_t info = 0;
    uint64_t size = 0;
  };
  std::vector<Section> sections = {
      {.name = ".shstrtab", .type = 3, .alignment = 1},
      {.name = ".strtab", .type = 3, .alignment = 1},
      {.name = ".symtab", .type = 2, .alignment = 8, .link = 2}};
  // Section numbers start at 1.
  const auto add = [&](Section section) {
    sections.push_back(std::move(section));
    return static_cast<uint16_t>(sections.size());
  };
  std::string frame;
  Append<uint32_t>(frame, 0xffffffff);
  Append<uint64_t>(frame, spec.frames - 12);
  frame.resize(spec.frames, '\x01');
  add({.name = ".debug_frame", .data = frame, .alignment = 1});

  std::string toolkit(24, '\0');
  std::string words(1, '\0');
  Patch(toolkit, 8, AppendName(words, "ptxas"));
  Patch(toolkit, 12, AppendName(words, "release 13.0, V13.0.48"));
  Patch(toolkit, 20, AppendName(words, absl::StrCat("-arch sm_", spec.sm)));
  toolkit += words;
  Align(toolkit, 4);
  add({.name = ".note.nv.tkinfo",
       .type = 7,
       .data = NvidiaNote(2000, toolkit)});
  std::string about;
  Append<uint16_t>(about, 2);
  Append(about, static_cast<uint16_t>(spec.sm));
  Append<uint16_t>(about, 130);
  Append<uint16_t>(about, 0);
  add({.name = ".note.nv.cuinfo", .type = 7, .data = NvidiaNote(1000, about)});
  const uint16_t info = add({.name = ".nv.info", .type = 0x70000000});
  add({.name = ".nv.compat",
       .type = 0x70000086,
       .data = std::string("\2\2\1\0\2\3\0\0", 8)});

  std::string strings("\0.shstrtab\0.strtab\0.symtab\0", 27);
  std::string symbols(24, '\0');
  const auto symbol = [&](absl::string_view name, uint8_t kind, uint8_t other,
                          uint16_t section) {
    Append(symbols, name.empty() ? uint32_t{0} : AppendName(strings, name));
    Append(symbols, kind);
    Append(symbols, other);
    Append(symbols, section);
    symbols.append(16, '\0');
    return static_cast<uint32_t>(symbols.size() / 24 - 1);
  };
  std::vector<uint16_t> infos;
  std::vector<uint16_t> texts;
  std::vector<uint32_t> banks;
  for (const TestKernel& kernel : spec.kernels) {
    infos.push_back(add(
        {.name = absl::StrCat(".nv.info.", kernel.name), .type = 0x70000000}));
  }
  add({.name = ".nv.callgraph",
       .type = 0x70000001,
       .data = std::string(8, '\0')});
  for (const TestKernel& kernel : spec.kernels) {
    texts.push_back(add({.name = absl::StrCat(".text.", kernel.name),
                         .data = std::string(spec.code, '\x5a'),
                         .alignment = 128}));
  }
  for (const TestKernel& kernel : spec.kernels) {
    const std::string shared = absl::StrCat(".nv.shared.", kernel.name);
    const uint64_t reserved = spec.sm >= 90 ? 1024 : 0;
    const uint16_t section =
        add({.name = shared, .type = 8, .size = kernel.shared + reserved});
    if (kernel.shared != 0 && spec.shared_symbols) {
      symbol(spec.section_symbol_names ? shared : "", 3, 0, section);
    }
    const std::string bank = absl::StrCat(".nv.constant0.", kernel.name);
    const uint16_t place =
        spec.constant_banks ? add({.name = bank, .data = std::string(16, '\0')})
                            : uint16_t{1};
    banks.push_back(symbol(spec.section_symbol_names ? bank : "", 3, 0, place));
  }
  std::string all;
  for (size_t i = 0; i < spec.kernels.size(); ++i) {
    const TestKernel& kernel = spec.kernels[i];
    const uint32_t index = symbol(kernel.name, 0x12, 0x10, texts[i]);
    all.append("\4\x2f\x8\0", 4);
    Append(all, index);
    Append(all, kernel.registers);
    std::string& own = sections[infos[i] - 1].data;
    own.append("\4\x37\4\0\x82\0\0\0", 8);
    if (spec.parameters) {
      own.append("\4\xa\x8\0", 4);
      Append(own, banks[i]);
      own.append(4, '\0');
    }
    if (kernel.max_threads) {
      own.append("\4\5\xc\0", 4);
      Append(own, *kernel.max_threads);
      Append<uint32_t>(own, 1);
      Append<uint32_t>(own, 1);
    }
    own.append("\4\x36\4\0\0\0\0\0", 8);
  }
  sections[info - 1].data = all;
  sections[1].data = strings;
  sections[2].data = symbols;

  std::string names(1, '\0');
  std::vector<uint32_t> name_at;
  for (const Section& section : sections) {
    name_at.push_back(AppendName(names, section.name));
  }
  sections[0].data = names;
  const uint16_t type = spec.relocatable ? 1 : 2;
  std::string out = ElfHeader(type, 190, 1, spec.sm << 8, 0x41, 8);
  std::string table(64, '\0');
  for (size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    Align(out, section.alignment);
    if (i == 2) out.append(spec.gap, '\0');
    Append(table, name_at[i]);
    Append(table, section.type);
    Append<uint64_t>(table, 0);
    Append<uint64_t>(table, 0);
    Append<uint64_t>(table, out.size());
    Append<uint64_t>(table,
                     section.type == 8 ? section.size : section.data.size());
    Append(table, section.link);
    Append(table, section.info);
    Append(table, section.alignment);
    Append<uint64_t>(table, i == 2 ? 24 : 0);
    out += section.data;
  }
  Align(out, 8);
  Patch<uint64_t>(out, 40, out.size());
  Patch<uint16_t>(out, 58, 64);
  Patch<uint16_t>(out, 60, static_cast<uint16_t>(sections.size() + 1));
  Patch<uint16_t>(out, 62, 1);
  return out + table;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_LINKED_CUBIN_H_
