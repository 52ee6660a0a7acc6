// twinpath-inspect: reads one file for another program. The opened file is
// descriptor 3, an InspectRequest comes on standard input, a FileReport goes to
// standard output. Exit 0 with a report, 2 for a request that cannot be read or
// a file that cannot be, with one line on standard error.
//
// The process limits itself before it looks at the file: no new privileges, no
// new files, bounded address space and processor time.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "base/exit_code.h"
#include "base/text.h"
#include "inspect/inspect.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

constexpr int kFileDescriptor = 3;
// Address space, not resident memory: thread stacks and allocator arenas are
// reserved, not used.
constexpr uint64_t kAddressSpaceBytes = uint64_t{2} << 30;
constexpr uint64_t kCpuSeconds = 600;

void Limit(int resource, uint64_t value) {
  const struct rlimit limit = {value, value};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

void LimitSelf() {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
// Sanitizers reserve terabytes of address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  Limit(RLIMIT_AS, kAddressSpaceBytes);
#endif
  Limit(RLIMIT_CPU, kCpuSeconds);
  Limit(RLIMIT_CORE, 0);
  // Nothing is written but standard output, which is a pipe.
  Limit(RLIMIT_FSIZE, 0);
}

int Complain(absl::string_view what) {
  std::fprintf(stderr, "twinpath-inspect: %s\n", Printable(what).c_str());
  return kExitUsage;
}

int Main() {
  LimitSelf();
  v1::InspectRequest request;
  if (!request.ParseFromFileDescriptor(STDIN_FILENO)) {
    return Complain("no InspectRequest on standard input");
  }
  const InspectOptions options = {.kernels = request.kernels(),
                                  .digest = request.digest(),
                                  .image_digests = request.image_digests(),
                                  .max_image_bytes = request.max_image_bytes()};
  const absl::StatusOr<v1::FileReport> report =
      InspectDescriptor(kFileDescriptor, request.name(), options);
  if (!report.ok()) return Complain(report.status().message());
  if (!report->SerializeToFileDescriptor(STDOUT_FILENO)) {
    return Complain("the report cannot be written");
  }
  return kExitPass;
}

}  // namespace
}  // namespace twinpath::inspect

int main() { return twinpath::inspect::Main(); }
