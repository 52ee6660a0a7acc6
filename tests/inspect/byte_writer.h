// Little-endian writing for the builders of test inputs.

#ifndef TWINPATH_TESTS_INSPECT_BYTE_WRITER_H_
#define TWINPATH_TESTS_INSPECT_BYTE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace twinpath::inspect {

// Appends `value` as it lies in memory.
template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Overwrites the bytes at `at`.
template <typename T>
void Patch(std::string& out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof(value));
}

// Appends zeros until the size is a multiple of `alignment`.
inline void Align(std::string& out, size_t alignment) {
  while (out.size() % alignment != 0) out.push_back('\0');
}

// Appends a string with its NUL; returns where it starts.
inline uint32_t AppendName(std::string& table, absl::string_view name) {
  const uint32_t at = static_cast<uint32_t>(table.size());
  table.append(name.data(), name.size());
  table.push_back('\0');
  return at;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_BYTE_WRITER_H_
