// What an answer depends on, as the key it is kept by (answer_cache.h).

#ifndef TWINPATH_COMPAT_ANSWER_KEY_H_
#define TWINPATH_COMPAT_ANSWER_KEY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compat/host_check.h"
#include "compat/predict.h"
#include "compat/tables.h"

namespace twinpath::compat::internal {

// Writes values so that no two different lists of them read alike.
class KeyWriter {
 public:
  void Add(absl::string_view text) {
    absl::StrAppend(&key_, text.size(), ":", text);
  }
  void Add(uint64_t number) { absl::StrAppend(&key_, number, ","); }
  void Add(TwoPart version) {
    Add(uint64_t{version.major});
    Add(uint64_t{version.minor});
  }
  std::string Take() { return std::move(key_); }

 private:
  std::string key_;
};

// All of a host that an answer depends on. A field added to HostView does not
// compile there until it is listed: an answer must not be given to a host that
// differs in it.
void AddHost(const HostView& host, KeyWriter& key);

// All of the options but what programs inherit, which is added to each host's
// answer afterwards.
void AddOptions(const PredictOptions& options, KeyWriter& key);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_ANSWER_KEY_H_
