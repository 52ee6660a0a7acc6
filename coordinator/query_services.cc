// ArtifactService, FleetService, SweepService: requests of people, answered by
// workers. WatchSweep sends the sweep as it is now, and again when it changed:
// a slow watcher misses steps and never makes a queue grow.

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "coordinator/coordinator.h"
#include "coordinator/grpc_util.h"
#include "coordinator/services.h"
#include "coordinator/sweep_view.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::coordinator {
namespace {

// Clients take messages of up to 64 MiB.
constexpr uint64_t kMaxAnswerBytes = 48 << 20;
// A sweep that takes longer to judge is sent with every tick, not with every
// change.
constexpr absl::Duration kHeavy = absl::Milliseconds(100);

absl::StatusOr<v1::Sweep> Fit(absl::StatusOr<v1::Sweep> sweep) {
  if (!sweep.ok() || TrimSweep(kMaxAnswerBytes, *sweep)) return sweep;
  return absl::ResourceExhaustedError(
      "the sweep is too large for one answer; sweep fewer hosts at a time");
}

// Leaves kernel lists out of a report that is too large for one answer.
void FitReport(v1::GetArtifactResponse& response) {
  if (response.ByteSizeLong() <= kMaxAnswerBytes) return;
  for (v1::FileReport& file : *response.mutable_report()->mutable_files()) {
    file.set_kernels_read(false);
    v1::Reason& problem = *file.add_problems();
    problem.set_code("TP232");
    problem.set_detail("kernel lists are left out of this answer: too large");
    for (v1::Fatbin& fatbin : *file.mutable_fatbins()) {
      for (v1::Image& image : *fatbin.mutable_images()) {
        image.clear_kernels();
        image.set_kernels_read(false);
      }
    }
  }
}

class WatchReactor final : public grpc::ServerWriteReactor<v1::Sweep> {
 public:
  WatchReactor(Coordinator& coordinator, std::string sweep_id)
      : coordinator_(coordinator), sweep_id_(std::move(sweep_id)) {
    // The callback may run beside OnDone, so it goes through a handle that
    // OnDone empties.
    watch_ =
        coordinator_.watchers().Add(sweep_id_, [handle = handle_](bool tick) {
          MutexLock lock(handle->mutex);
          if (handle->reactor != nullptr) handle->reactor->OnChange(tick);
        });
    {
      MutexLock lock(handle_->mutex);
      handle_->reactor = this;
    }
    OnChange(/*tick=*/true);
  }

 private:
  struct Handle {
    Mutex mutex;
    WatchReactor* reactor ABSL_GUARDED_BY(mutex) = nullptr;
  };

  void OnChange(bool tick) {
    {
      MutexLock lock(mutex_);
      if (!tick) changed_ = true;
      if (busy_ || finished_ || (sent_version_ != 0 && !changed_) ||
          (heavy_ && !tick)) {
        return;
      }
      busy_ = true;
      changed_ = false;
    }
    Load();
  }

  // While busy_ nothing else finishes the call, so this stays alive.
  void Load() {
    if (coordinator_.requests().Run([this] { Loaded(); })) return;
    // The next tick tries again.
    Idle(/*changed=*/true);
  }

  void Loaded() {
    const absl::Time begin = absl::Now();
    absl::StatusOr<v1::Sweep> sweep = Fit(coordinator_.sweeps().Get(sweep_id_));
    const bool heavy = absl::Now() - begin > kHeavy;
    grpc::Status end;
    {
      MutexLock lock(mutex_);
      heavy_ = heavy;
      if (!sweep.ok() || cancelled_) {
        finished_ = true;
        end =
            cancelled_ ? grpc::Status::CANCELLED : ToGrpcStatus(sweep.status());
      } else if (sweep->version() != sent_version_) {
        sent_version_ = sweep->version();
        ended_ = sweep->state() != v1::SWEEP_STATE_RUNNING;
        response_ = *std::move(sweep);
      } else {
        sweep = absl::AlreadyExistsError("sent");
      }
    }
    if (!end.ok()) {
      Finish(end);
    } else if (sweep.ok()) {
      StartWrite(&response_);
    } else {
      Idle(/*changed=*/false);
    }
  }

  void OnWriteDone(bool ok) override {
    bool end = false;
    {
      MutexLock lock(mutex_);
      end = !ok || ended_ || cancelled_;
      finished_ = end;
    }
    if (end) {
      Finish(ok ? grpc::Status::OK : grpc::Status::CANCELLED);
    } else {
      Idle(/*changed=*/false);
    }
  }

  // Not busy any more; goes on if something happened meanwhile.
  void Idle(bool changed) {
    bool cancelled = false;
    bool again = false;
    {
      MutexLock lock(mutex_);
      busy_ = false;
      again = changed_ && !changed;
      changed_ = changed_ || changed;
      cancelled = cancelled_ && !finished_;
      finished_ = finished_ || cancelled;
      // From here on another thread may go on; what is decided is decided.
      if (again && !cancelled && !heavy_) {
        busy_ = true;
        changed_ = false;
      } else {
        again = false;
      }
    }
    if (cancelled) {
      Finish(grpc::Status::CANCELLED);
    } else if (again) {
      Load();
    }
  }

  void OnCancel() override {
    bool end = false;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      end = !busy_ && !finished_;
      finished_ = finished_ || end;
    }
    if (end) Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    {
      MutexLock lock(handle_->mutex);
      handle_->reactor = nullptr;
    }
    coordinator_.watchers().Remove(watch_);
    delete this;
  }

  Coordinator& coordinator_;
  const std::string sweep_id_;
  const std::shared_ptr<Handle> handle_ = std::make_shared<Handle>();
  uint64_t watch_ = 0;
  v1::Sweep response_;
  Mutex mutex_;
  // A load or a write is under way.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool heavy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t sent_version_ ABSL_GUARDED_BY(mutex_) = 0;
};

using UnaryReactor = grpc::ServerUnaryReactor;
using Context = grpc::CallbackServerContext;

class ArtifactServiceImpl final : public v1::ArtifactService::CallbackService {
 public:
  explicit ArtifactServiceImpl(Coordinator& c) : c_(c) {}

  UnaryReactor* RegisterArtifact(
      Context* context, const v1::RegisterArtifactRequest* request,
      v1::RegisterArtifactResponse* response) override {
    return RunOn(c_.inspections(), context, response,
                 [this, request] { return c_.artifacts().Register(*request); });
  }
  UnaryReactor* ListArtifacts(Context* context,
                              const v1::ListArtifactsRequest* request,
                              v1::ListArtifactsResponse* response) override {
    return RunOn(c_.requests(), context, response,
                 [this, request] { return c_.artifacts().List(*request); });
  }
  UnaryReactor* GetArtifact(Context* context,
                            const v1::GetArtifactRequest* request,
                            v1::GetArtifactResponse* response) override {
    return RunOn(c_.requests(), context, response,
                 [this, request]() -> absl::StatusOr<v1::GetArtifactResponse> {
                   TWINPATH_ASSIGN_OR_RETURN(v1::GetArtifactResponse answer,
                                             c_.artifacts().Get(*request));
                   FitReport(answer);
                   return answer;
                 });
  }

 private:
  Coordinator& c_;
};

class FleetServiceImpl final : public v1::FleetService::CallbackService {
 public:
  explicit FleetServiceImpl(Coordinator& c) : c_(c) {}

  UnaryReactor* ListHosts(Context* context, const v1::ListHostsRequest* request,
                          v1::ListHostsResponse* response) override {
    return RunOn(c_.requests(), context, response,
                 [this, request] { return c_.fleet().List(*request); });
  }
  UnaryReactor* GetHost(Context* context, const v1::GetHostRequest* request,
                        v1::Host* response) override {
    return RunOn(c_.requests(), context, response,
                 [this, request] { return c_.fleet().Get(*request); });
  }
  UnaryReactor* CreateJoinToken(
      Context* context, const v1::CreateJoinTokenRequest* request,
      v1::CreateJoinTokenResponse* response) override {
    return RunOn(c_.requests(), context, response, [this, request] {
      return c_.enrolment().CreateJoinToken(*request);
    });
  }

 private:
  Coordinator& c_;
};

class SweepServiceImpl final : public v1::SweepService::CallbackService {
 public:
  explicit SweepServiceImpl(Coordinator& c) : c_(c) {}

  UnaryReactor* StartSweep(Context* context,
                           const v1::StartSweepRequest* request,
                           v1::Sweep* response) override {
    return RunOn(c_.requests(), context, response,
                 [this, request] { return Fit(c_.sweeps().Start(*request)); });
  }
  UnaryReactor* GetSweep(Context* context, const v1::GetSweepRequest* request,
                         v1::Sweep* response) override {
    return RunOn(c_.requests(), context, response, [this, request] {
      return Fit(c_.sweeps().Get(request->sweep_id()));
    });
  }
  grpc::ServerWriteReactor<v1::Sweep>* WatchSweep(
      Context* /*context*/, const v1::WatchSweepRequest* request) override {
    return new WatchReactor(c_, request->sweep_id());
  }
  UnaryReactor* CancelSweep(Context* context,
                            const v1::CancelSweepRequest* request,
                            v1::Sweep* response) override {
    return RunOn(c_.requests(), context, response, [this, request] {
      return Fit(c_.sweeps().Cancel(request->sweep_id()));
    });
  }
  UnaryReactor* ListSweeps(Context* context,
                           const v1::ListSweepsRequest* request,
                           v1::ListSweepsResponse* response) override {
    return RunOn(c_.requests(), context, response,
                 [this, request] { return c_.sweeps().List(*request); });
  }

 private:
  Coordinator& c_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeArtifactService(Coordinator& coordinator) {
  return std::make_unique<ArtifactServiceImpl>(coordinator);
}
std::unique_ptr<grpc::Service> MakeFleetService(Coordinator& coordinator) {
  return std::make_unique<FleetServiceImpl>(coordinator);
}
std::unique_ptr<grpc::Service> MakeSweepService(Coordinator& coordinator) {
  return std::make_unique<SweepServiceImpl>(coordinator);
}

}  // namespace twinpath::coordinator
