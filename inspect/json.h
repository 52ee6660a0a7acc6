// JSON of packages: parsed with a cap on nesting, read by fields that may be
// absent or of another type. Pure functions; thread-safe.

#ifndef TWINPATH_INSPECT_JSON_H_
#define TWINPATH_INSPECT_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace twinpath::inspect {

using Json = nlohmann::json;

inline constexpr size_t kMaxJsonDepth = 64;

// Deepest nesting of a JSON text, without parsing it.
size_t JsonDepth(absl::string_view text);

// Parses a whole text; absent where it is no JSON or nested deeper than
// kMaxJsonDepth. The caller caps its size.
std::optional<Json> ParseJson(absl::string_view text);

// A member of an object; null where there is none.
const Json* Field(const Json& json, const char* name);
// A member that is an array, or an object; null where there is none.
const Json* ArrayField(const Json& json, const char* name);
const Json* ObjectField(const Json& json, const char* name);

// The text, or empty where it is none.
std::string TextOf(const Json& json);
std::string TextField(const Json& json, const char* name);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_JSON_H_
