// Sessions that are open now: at most one a host, the one with the highest
// number. Thread-safe.

#ifndef TWINPATH_COORDINATOR_SESSIONS_H_
#define TWINPATH_COORDINATOR_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace twinpath::coordinator {

class Session;

class Sessions {
 public:
  // Makes `session` the host's. Returns the one it replaces, or `session`
  // itself if a newer one is there already: the returned one must be closed.
  std::shared_ptr<Session> Attach(const std::string& host_id, uint64_t number,
                                  std::shared_ptr<Session> session);
  // Forgets the host's session if it is still number `number`.
  void Detach(const std::string& host_id, uint64_t number);

  std::shared_ptr<Session> Find(absl::string_view host_id) const;
  bool IsConnected(absl::string_view host_id) const;
  size_t size() const;
  std::vector<std::shared_ptr<Session>> All() const;

  // Sessions whose hello has not come yet, with when they began (monotonic).
  void AddNew(std::shared_ptr<Session> session, absl::Time began);
  void RemoveNew(const Session* session);
  // Those that began before `limit`.
  std::vector<std::shared_ptr<Session>> NewBefore(absl::Time limit) const;

 private:
  struct Entry {
    uint64_t number = 0;
    std::shared_ptr<Session> session;
  };
  struct New {
    std::shared_ptr<Session> session;
    absl::Time began;
  };
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> sessions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Session*, New> new_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SESSIONS_H_
