#include "coordinator/sessions.h"

#include <utility>

namespace twinpath::coordinator {

std::shared_ptr<Session> Sessions::Attach(const std::string& host_id,
                                          uint64_t number,
                                          std::shared_ptr<Session> session) {
  MutexLock lock(mutex_);
  Entry& entry = sessions_[host_id];
  if (entry.number > number) return session;
  entry.number = number;
  return std::exchange(entry.session, std::move(session));
}

void Sessions::Detach(const std::string& host_id, uint64_t number) {
  // Dies outside the lock.
  std::shared_ptr<Session> session;
  MutexLock lock(mutex_);
  const auto it = sessions_.find(host_id);
  if (it == sessions_.end() || it->second.number != number) return;
  session = std::move(it->second.session);
  sessions_.erase(it);
}

std::shared_ptr<Session> Sessions::Find(absl::string_view host_id) const {
  MutexLock lock(mutex_);
  const auto it = sessions_.find(host_id);
  return it == sessions_.end() ? nullptr : it->second.session;
}

bool Sessions::IsConnected(absl::string_view host_id) const {
  return Find(host_id) != nullptr;
}

size_t Sessions::size() const {
  MutexLock lock(mutex_);
  return sessions_.size();
}

std::vector<std::shared_ptr<Session>> Sessions::All() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Session>> all;
  all.reserve(sessions_.size() + new_.size());
  for (const auto& [id, entry] : sessions_) all.push_back(entry.session);
  for (const auto& [id, entry] : new_) all.push_back(entry.session);
  return all;
}

void Sessions::AddNew(std::shared_ptr<Session> session, absl::Time began) {
  MutexLock lock(mutex_);
  const Session* key = session.get();
  new_[key] = {std::move(session), began};
}

void Sessions::RemoveNew(const Session* session) {
  std::shared_ptr<Session> dies;
  MutexLock lock(mutex_);
  const auto it = new_.find(session);
  if (it == new_.end()) return;
  dies = std::move(it->second.session);
  new_.erase(it);
}

std::vector<std::shared_ptr<Session>> Sessions::NewBefore(
    absl::Time limit) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Session>> late;
  for (const auto& [id, entry] : new_) {
    if (entry.began < limit) late.push_back(entry.session);
  }
  return late;
}

}  // namespace twinpath::coordinator
