#include "inspect/json.h"

#include <algorithm>

namespace twinpath::inspect {

size_t JsonDepth(absl::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::optional<Json> ParseJson(absl::string_view text) {
  if (JsonDepth(text) > kMaxJsonDepth) return std::nullopt;
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

const Json* Field(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto field = json.find(name);
  return field == json.end() ? nullptr : &*field;
}

const Json* ArrayField(const Json& json, const char* name) {
  const Json* const field = Field(json, name);
  return field != nullptr && field->is_array() ? field : nullptr;
}

const Json* ObjectField(const Json& json, const char* name) {
  const Json* const field = Field(json, name);
  return field != nullptr && field->is_object() ? field : nullptr;
}

std::string TextOf(const Json& json) {
  const auto* const text = json.get_ptr<const std::string*>();
  return text == nullptr ? "" : *text;
}

std::string TextField(const Json& json, const char* name) {
  const Json* const field = Field(json, name);
  return field == nullptr ? "" : TextOf(*field);
}

}  // namespace twinpath::inspect
