// What most sources of the libraries parse anyway: standard library, Abseil,
// the messages. Only headers that no change of this tree touches, besides the
// contract; never gRPC, whose headers stay in the files that serve or dial.
//
// A source includes what it uses all the same: builds without precompiled
// headers are the default (TWINPATH_PRECOMPILED_HEADERS).

#ifndef TWINPATH_CMAKE_PRECOMPILED_PRODUCT_H_
#define TWINPATH_CMAKE_PRECOMPILED_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/runner.pb.h"
#include "twinpath/v1/sweep.pb.h"

#endif  // TWINPATH_CMAKE_PRECOMPILED_PRODUCT_H_
