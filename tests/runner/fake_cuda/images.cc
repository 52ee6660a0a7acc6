#include "tests/runner/fake_cuda/images.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {
namespace {

template <typename T>
T At(const char* bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

// Symbol type of device variables.
constexpr unsigned kVariable = 13;

bool IsSymbol(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '$';
}

// What the driver itself has, and what a link makes.
bool BuiltIn(const std::string& name) {
  return name == "vprintf" || name == "malloc" || name == "free" ||
         name == "__assertfail" || name.rfind("__UDT", 0) == 0 ||
         name.rfind("__UFT", 0) == 0 || name.rfind(".nv.", 0) == 0;
}

// The name that a directive (".func", ".entry") at `at` declares.
std::string Declared(const std::string& text, size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
    ++at;
  if (at < text.size() && text[at] == '(') {
    // The returned parameter.
    at = text.find(')', at);
    if (at == std::string::npos) return "";
    ++at;
    while (at < text.size() &&
           std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
  }
  size_t end = at;
  while (end < text.size() && IsSymbol(text[end])) ++end;
  return text.substr(at, end - at);
}

void ReadSymbols(const char* bytes, uint64_t sections, unsigned count,
                 unsigned size, Image& image) {
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t section = sections + uint64_t{i} * size;
    if (At<uint32_t>(bytes, section + 4) != 2) continue;  // SHT_SYMTAB
    const auto offset = At<uint64_t>(bytes, section + 24);
    const auto bytes_of = At<uint64_t>(bytes, section + 32);
    const auto names_at =
        sections + uint64_t{At<uint32_t>(bytes, section + 40)} * size;
    const auto names = At<uint64_t>(bytes, names_at + 24);
    for (uint64_t at = offset; at + 24 <= offset + bytes_of; at += 24) {
      const std::string name = bytes + names + At<uint32_t>(bytes, at);
      const auto info = At<uint8_t>(bytes, at + 4);
      const auto where = At<uint16_t>(bytes, at + 6);
      // Neither local nor weak ones: only these may be missing or double.
      if (name.empty() || info >> 4 != 1 || BuiltIn(name)) continue;
      // Dynamic shared memory has no size and is nowhere.
      if (where == 0 && At<uint64_t>(bytes, at + 16) == 0 &&
          (info & 15) == kVariable) {
        continue;
      }
      (where == 0 ? image.undefined : image.defined).insert(name);
    }
  }
}

}  // namespace

std::string Image::Name() const {
  std::string name = (ptx ? "compute_" : "sm_") + std::to_string(number);
  if (suffix != '\0') name.push_back(suffix);
  return name;
}

bool Image::Fits(int device) const {
  if (suffix == 'a') return number == device;
  if (suffix == 'f') return number / 10 == device / 10 && number <= device;
  if (ptx) return number <= device;
  return number / 10 == device / 10 && number <= device;
}

Image ReadCubin(const char* bytes) {
  Image image;
  image.read = true;
  const auto flags = At<uint32_t>(bytes, 48);
  image.number =
      static_cast<int>(bytes[8] >= 8 ? (flags >> 8) & 0xff : flags & 0xff);
  const auto sections = At<uint64_t>(bytes, 40);
  const auto size = At<uint16_t>(bytes, 58);
  const auto count = At<uint16_t>(bytes, 60);
  const auto names_at = sections + uint64_t{At<uint16_t>(bytes, 62)} * size;
  const auto names = At<uint64_t>(bytes, names_at + 24);
  for (unsigned i = 0; i < count; ++i) {
    const std::string name =
        bytes + names + At<uint32_t>(bytes, sections + uint64_t{i} * size);
    if (name.rfind(".text.", 0) == 0) image.kernels.push_back(name.substr(6));
  }
  const bool relocatable = At<uint16_t>(bytes, 16) == 1;
  if (relocatable) ReadSymbols(bytes, sections, count, size, image);
  return image;
}

bool ReadPtx(const std::string& text, Image& image) {
  const size_t version = text.find(".version ");
  const size_t target = text.find(".target sm_");
  if (version == std::string::npos || target == std::string::npos) return false;
  image.ptx = image.read = true;
  int major = 0;
  int minor = 0;
  std::sscanf(text.c_str() + version + 9, "%d.%d", &major, &minor);
  image.isa = major * 10 + minor;
  char* end = nullptr;
  image.number =
      static_cast<int>(std::strtol(text.c_str() + target + 11, &end, 10));
  if (*end == 'a' || *end == 'f') image.suffix = *end;
  for (const std::string word : {".entry", ".func"}) {
    for (size_t at = text.find(word); at != std::string::npos;
         at = text.find(word, at + 1)) {
      const std::string name = Declared(text, at + word.size());
      if (name.empty() || BuiltIn(name)) continue;
      const size_t line = text.rfind('\n', at) + 1;
      const bool external =
          text.substr(line, at - line).find(".extern") != std::string::npos;
      (external ? image.undefined : image.defined).insert(name);
      if (word == ".entry") image.kernels.push_back(name);
    }
  }
  for (const std::string& name : image.defined) image.undefined.erase(name);
  return true;
}

std::vector<Image> ReadFatbin(const char* bytes) {
  std::vector<Image> images;
  const uint64_t end = 16 + At<uint64_t>(bytes, 8);
  for (uint64_t at = 16; at < end;) {
    const auto kind = At<uint16_t>(bytes, at);
    const auto header = At<uint32_t>(bytes, at + 4);
    const auto flags = At<uint64_t>(bytes, at + 40);
    Image image;
    image.ptx = kind == 1 || kind == 0x40;
    image.number = static_cast<int>(At<uint32_t>(bytes, at + 28));
    image.suffix = (flags & 0x100000) != 0   ? 'a'
                   : (flags & 0x200000) != 0 ? 'f'
                                             : '\0';
    image.isa =
        At<uint16_t>(bytes, at + 26) * 10 + At<uint16_t>(bytes, at + 24);
    if ((flags & 0x1f000) == 0) {
      // Stored as it is; what the entry says of the target stays.
      Image inside;
      bool read = true;
      if (image.ptx) {
        read = ReadPtx(bytes + at + header, inside);
      } else if (kind == 2) {
        inside = ReadCubin(bytes + at + header);
      } else {
        read = false;
      }
      if (read) {
        image.read = true;
        image.kernels = inside.kernels;
        image.defined = inside.defined;
        image.undefined = inside.undefined;
      }
    }
    if (kind == 1 || kind == 2 || kind == 0x40) images.push_back(image);
    at += header + At<uint64_t>(bytes, at + 8);
  }
  return images;
}

}  // namespace fake
