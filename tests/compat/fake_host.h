// Hosts for tests from a few words: "9.0 R580", "12.1 R580 aarch64",
// "8.7 CUDA12.6 aarch64 tegra", "9.0 R580 no-jit-library", "7.0 R590".

#ifndef TWINPATH_TESTS_COMPAT_FAKE_HOST_H_
#define TWINPATH_TESTS_COMPAT_FAKE_HOST_H_

#include <string>

#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::compat {

// The tables of the source tree. Aborts when they do not load.
const Tables& TestTables();

// Facts of a host with one GPU. Aborts on a word it does not know.
v1::HostFacts FakeHost(const std::string& words);

// Adds a variable that programs of the host inherit, set in line 3 of `origin`.
v1::EnvironmentLeak& Leak(v1::HostFacts& facts, const std::string& name,
                          const std::string& value,
                          const std::string& origin = "/etc/environment");

}  // namespace twinpath::compat

#endif  // TWINPATH_TESTS_COMPAT_FAKE_HOST_H_
