// Makes small host ELF files with device code in them. They have headers,
// sections, segments, a dynamic section, relocations; no code that runs.
//
//   BuildElf({.fatbins = {fatbin}, .needed = {"libcudart.so.13"}})

#ifndef TWINPATH_TESTS_INSPECT_ELF_BUILDER_H_
#define TWINPATH_TESTS_INSPECT_ELF_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/inspect/byte_writer.h"
#include "tests/inspect/device_builder.h"

namespace twinpath::inspect {

struct ElfSpec {
  // 2 executable, 3 shared (or PIE with `pie`), 1 object.
  uint16_t type = 3;
  bool pie = false;
  // 62 x86-64, 183 AArch64.
  uint16_t machine = 62;
  // Content of .nv_fatbin and __nv_relfatbin, each with a wrapper if
  // `registered`.
  std::vector<std::string> fatbins = {};
  std::vector<std::string> relocatable_fatbins = {};
  bool registered = true;
  // Pointers are 0 in the file and stand only in RELA records.
  bool pointers_in_rela = true;
  // Added to each wrapper's pointer, to make it point beside the fatbin.
  uint64_t pointer_error = 0;
  // Content of .rodata, .data (writable) and .text (executable).
  std::string rodata = {};
  std::string data = {};
  std::string text = std::string(16, '\x90');
  std::string soname = {};
  std::vector<std::string> needed = {};
  std::string rpath = {};
  std::string runpath = {};
  std::string interpreter = {};
  // Leave the section table out.
  bool without_sections = false;
};

inline std::string BuildElf(const ElfSpec& spec) {
  constexpr uint64_t kBase = 0x400000;
  constexpr uint64_t kMaxSegments = 6;
  std::string out = ElfHeader(spec.type, spec.machine, 1, 0, 0, 0);
  const bool linked = spec.type != 1;
  if (linked) out.append(kMaxSegments * 56, '\0');
  SectionLayout layout;
  struct Segment {
    uint32_t type;
    uint32_t flags;
    uint64_t begin;
    uint64_t end;
  };
  std::vector<Segment> segments;

  // Places a section now, so that its address is known.
  const auto place = [&](SectionLayout::Section section) {
    Align(out, section.alignment);
    section.offset = out.size();
    section.address = linked ? kBase + out.size() : 0;
    out += section.data;
    return layout.Add(std::move(section));
  };
  uint64_t begin = 0;
  place({.name = ".rodata", .flags = 2, .data = spec.rodata});
  std::vector<std::pair<uint32_t, uint64_t>> targets;  // section, offset in it
  const auto fatbins = [&](const char* name,
                           const std::vector<std::string>& all) {
    if (all.empty()) return;
    std::string data;
    std::vector<uint64_t> at;
    for (const std::string& fatbin : all) {
      Align(data, 8);
      at.push_back(data.size());
      data += fatbin;
    }
    const uint32_t index = place({.name = name, .flags = 2, .data = data});
    for (const uint64_t offset : at) targets.push_back({index, offset});
  };
  fatbins(".nv_fatbin", spec.fatbins);
  fatbins("__nv_relfatbin", spec.relocatable_fatbins);
  if (!spec.interpreter.empty()) {
    const uint64_t at = out.size();
    place({.name = ".interp",
           .flags = 2,
           .data = spec.interpreter + std::string(1, '\0'),
           .alignment = 1});
    segments.push_back({3, 4, at, out.size()});
  }

  // Dynamic strings and table.
  std::string strings(1, '\0');
  std::vector<std::pair<uint64_t, uint64_t>> dynamic;
  for (const std::string& name : spec.needed) {
    dynamic.push_back({1, AppendName(strings, name)});
  }
  if (!spec.soname.empty()) {
    dynamic.push_back({14, AppendName(strings, spec.soname)});
  }
  if (!spec.rpath.empty()) {
    dynamic.push_back({15, AppendName(strings, spec.rpath)});
  }
  if (!spec.runpath.empty()) {
    dynamic.push_back({29, AppendName(strings, spec.runpath)});
  }
  if (spec.pie) dynamic.push_back({0x6ffffffb, 0x08000000});

  // Wrappers: their size is known, their address is needed for the RELA table,
  // which stands before them.
  const size_t wrappers = spec.registered ? targets.size() : 0;
  const auto pointer = [&](size_t i) {
    return layout.at(targets[i].first).address + targets[i].second +
           spec.pointer_error;
  };
  if (linked) {
    const uint32_t strtab =
        place({.name = ".dynstr", .type = 3, .flags = 2, .data = strings});
    dynamic.push_back({5, layout.at(strtab).address});
    std::string rela(24 * wrappers, '\0');
    const uint32_t rela_index =
        place({.name = ".rela.dyn", .type = 4, .flags = 2, .data = rela});
    if (wrappers > 0) {
      dynamic.push_back({7, layout.at(rela_index).address});
      dynamic.push_back({8, 24 * wrappers});
    }
    segments.push_back({1, 4, begin, out.size()});
    Align(out, 64);
    begin = out.size();
    place({.name = ".text", .flags = 6, .data = spec.text, .alignment = 64});
    segments.push_back({1, 5, begin, out.size()});
    Align(out, 64);
    begin = out.size();
    std::string table;
    for (const auto& [tag, value] : dynamic) {
      Append(table, tag);
      Append(table, value);
    }
    table.append(16, '\0');
    const uint64_t dynamic_at = out.size();
    place({.name = ".dynamic",
           .type = 6,
           .flags = 3,
           .data = table,
           .link = strtab,
           .entry_size = 16});
    segments.push_back({2, 6, dynamic_at, out.size()});
    place({.name = ".data", .flags = 3, .data = spec.data});
    Align(out, 8);
    const uint64_t first = kBase + out.size();
    for (size_t i = 0; i < wrappers; ++i) {
      const size_t at = layout.at(rela_index).offset + 24 * i;
      Patch<uint64_t>(out, at, first + 24 * i + 8);
      Patch<uint64_t>(out, at + 8, spec.machine == 62 ? 8 : 1027);
      Patch<uint64_t>(out, at + 16, pointer(i));
    }
  } else {
    place({.name = ".text", .flags = 6, .data = spec.text});
    place({.name = ".data", .flags = 3, .data = spec.data});
  }
  if (wrappers > 0) {
    std::string records;
    for (size_t i = 0; i < wrappers; ++i) {
      Append<uint32_t>(records, 0x466243B1);
      Append<uint32_t>(records, 1);
      Append<uint64_t>(records,
                       !linked || spec.pointers_in_rela ? 0 : pointer(i));
      Append<uint64_t>(records, 0);
    }
    const uint32_t index =
        place({.name = ".nvFatBinSegment", .flags = 3, .data = records});
    if (!linked) {
      // One section symbol for each target, as the assembler writes them.
      std::string symbols(24, '\0');
      std::string rela;
      for (size_t i = 0; i < wrappers; ++i) {
        Append<uint32_t>(symbols, 0);
        symbols.append("\3\0", 2);
        Append<uint16_t>(symbols, static_cast<uint16_t>(targets[i].first));
        Append<uint64_t>(symbols, 0);
        Append<uint64_t>(symbols, 0);
        Append<uint64_t>(rela, 24 * i + 8);
        Append<uint64_t>(rela, (uint64_t{i} + 1) << 32 | 1);
        Append<uint64_t>(rela, targets[i].second + spec.pointer_error);
      }
      const uint32_t symtab = place(
          {.name = ".symtab", .type = 2, .data = symbols, .entry_size = 24});
      place({.name = ".rela.nvFatBinSegment",
             .type = 4,
             .data = rela,
             .link = symtab,
             .info = index,
             .entry_size = 24});
    }
  }
  if (linked) {
    segments.push_back({1, 6, begin, out.size()});
    std::string headers;
    for (const Segment& segment : segments) {
      Append(headers, segment.type);
      Append(headers, segment.flags);
      Append(headers, segment.begin);
      Append(headers, kBase + segment.begin);
      Append(headers, kBase + segment.begin);
      Append(headers, segment.end - segment.begin);
      Append(headers, segment.end - segment.begin);
      Append<uint64_t>(headers, 8);
    }
    out.replace(64, headers.size(), headers);
    Patch<uint64_t>(out, 32, 64);
    Patch<uint16_t>(out, 56, static_cast<uint16_t>(segments.size()));
  }
  if (!spec.without_sections) layout.Finish(out);
  return out;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_ELF_BUILDER_H_
