#include "runner/device_watch.h"

#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "runner/unit_socket.h"

namespace twinpath::runner {
namespace {

// Initialising NVML on a host of many GPUs without persistence takes seconds.
constexpr absl::Duration kAnswerDeadline = absl::Seconds(60);
constexpr size_t kMaxAnswerBytes = 1 << 20;
// The child's number for its end of the connection.
constexpr int kChildSocket = 3;

}  // namespace

absl::Status ServeWatchInChild(int socket, const v1::ProbeRequest& request,
                               const ProbeOptions& options,
                               std::function<bool()> cancelled) {
  TWINPATH_ASSIGN_OR_RETURN(ProcessOptions child, ProbeChild(options));
  child.argv.push_back("--watch");
  child.input = request.SerializeAsString();
  child.head_bytes = 1 << 10;
  // A watch lasts as long as its run, which has a limit of its own.
  child.timeout = absl::Hours(24 * 30);
  child.descriptors = {{socket, kChildSocket}};
  child.cancelled = std::move(cancelled);
  TWINPATH_ASSIGN_OR_RETURN_CTX(const ProcessResult result, RunProcess(child),
                                "starting the driver probe");
  if (result.succeeded()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the watch on devices: ", result.Describe(),
      result.err.head.empty() ? "" : ": ",
      Printable(absl::string_view(result.err.head).substr(0, 500))));
}

DeviceWatcher::DeviceWatcher(const std::vector<std::string>& gpu_uuids,
                             const ProbeOptions& options) {
  if (gpu_uuids.empty()) return;
  v1::ProbeRequest request;
  request.set_watch_devices(true);
  for (const std::string& uuid : gpu_uuids) request.add_gpu_uuids(uuid);
  if (const absl::Status status = Connect(request, options); !status.ok()) {
    Fail(status, "starting the watch");
    return;
  }
  const absl::Status status = ReadMessage(
      socket_.get(), Patience::For(kAnswerDeadline), kMaxAnswerBytes, watch_);
  if (!status.ok()) Fail(status, "starting the watch");
}

absl::Status DeviceWatcher::Connect(const v1::ProbeRequest& request,
                                    const ProbeOptions& options) {
  if (!options.socket.empty()) {
    absl::StatusOr<UniqueFd> unit = ConnectUnix(options.socket);
    if (unit.ok()) {
      socket_ = *std::move(unit);
      return WriteMessage(socket_.get(), Patience::For(kAnswerDeadline),
                          request);
    }
    if (!absl::IsNotFound(unit.status())) return unit.status();
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  socket_ = UniqueFd(ends[0]);
  child_ = std::thread(
      [this, request, options, end = std::make_shared<UniqueFd>(ends[1])] {
        // How it went is seen on the connection, which ends with this.
        (void)ServeWatchInChild(end->get(), request, options,
                                [this] { return stop_.load(); });
        end->Close();
      });
  return absl::OkStatus();
}

void DeviceWatcher::Fail(const absl::Status& status, absl::string_view what) {
  hung_ = absl::IsDeadlineExceeded(status);
  v1::ProbeResult& probe = *watch_.mutable_xid_watch();
  probe.set_state(hung_ ? v1::PROBE_STATE_HUNG : v1::PROBE_STATE_FAILED);
  probe.set_error(absl::StrCat(what, ": ", MessageOf(status)));
  stop_ = true;
  socket_.Close();
}

v1::DeviceWatch DeviceWatcher::Finish() {
  if (socket_.valid()) {
    absl::Status status = WriteMessage(
        socket_.get(), Patience::For(kAnswerDeadline), v1::ProbeRequest());
    v1::DeviceWatch end;
    if (status.ok()) {
      status = ReadMessage(socket_.get(), Patience::For(kAnswerDeadline),
                           kMaxAnswerBytes, end);
    }
    if (status.ok()) {
      *watch_.mutable_after() = end.after();
      *watch_.mutable_xids() = end.xids();
      *watch_.mutable_xid_watch() = end.xid_watch();
    } else {
      Fail(status, "ending the watch");
    }
    socket_.Close();
  }
  return watch_;
}

DeviceWatcher::~DeviceWatcher() {
  stop_ = true;
  socket_.Close();
  if (child_.joinable()) child_.join();
}

DeviceWatchStarter WatchesOf(const ProbeOptions& options) {
  const auto hung = std::make_shared<std::atomic<bool>>(false);
  return [options, hung](const std::vector<std::string>& gpu_uuids)
             -> std::function<v1::DeviceWatch()> {
    if (*hung) {
      return [] {
        v1::DeviceWatch watch;
        watch.mutable_xid_watch()->set_state(v1::PROBE_STATE_HUNG);
        watch.mutable_xid_watch()->set_error(
            "the driver did not answer before; it is left alone");
        return watch;
      };
    }
    auto watcher = std::make_shared<DeviceWatcher>(gpu_uuids, options);
    return [watcher, hung] {
      v1::DeviceWatch watch = watcher->Finish();
      if (watcher->hung()) *hung = true;
      return watch;
    };
  };
}

}  // namespace twinpath::runner
