#include "coordinator/fleet.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "coordinator/artifacts.h"
#include "coordinator/proto_time.h"
#include "coordinator/session.h"
#include "coordinator/sweep_check.h"

namespace twinpath::coordinator {

v1::Host Fleet::ToHost(HostRow row) const {
  v1::Host host;
  absl::Time seen = row.seen;
  if (const auto session = sessions_.Find(row.id); session != nullptr) {
    host.set_connected(true);
    // Heartbeats reach the store with a delay.
    seen = std::max(seen, session->last_seen());
  }
  host.set_id(std::move(row.id));
  host.set_name(std::move(row.name));
  host.set_simulated(row.simulated);
  for (std::string& label : row.labels) host.add_labels(std::move(label));
  host.set_session(row.session);
  if (seen != NoTime()) *host.mutable_seen_time() = ToProto(seen);
  if (row.has_facts) {
    *host.mutable_facts_received_time() = ToProto(row.facts_received);
    *host.mutable_facts() = std::move(row.facts);
  }
  if (row.session > 0) *host.mutable_clock_skew() = ToProto(row.skew);
  host.set_agent_version(std::move(row.agent_version));
  return host;
}

absl::StatusOr<v1::ListHostsResponse> Fleet::List(
    const v1::ListHostsRequest& request) const {
  TWINPATH_ASSIGN_OR_RETURN(const int64_t size, PageSize(request.page_size()));
  v1::ListHostsResponse response;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        std::vector<HostRow> hosts;
        if (request.selector().hosts_size() > 0) {
          TWINPATH_ASSIGN_OR_RETURN(hosts,
                                    SelectHosts(view, request.selector()));
          std::erase_if(hosts, [&](const HostRow& host) {
            return host.name <= request.page_token();
          });
        } else {
          std::string after = request.page_token();
          while (static_cast<int64_t>(hosts.size()) <= size) {
            TWINPATH_ASSIGN_OR_RETURN(std::vector<HostRow> page,
                                      view.ListHosts(after, size + 1));
            if (page.empty()) break;
            after = page.back().name;
            for (HostRow& host : page) {
              if (HasLabels(host, request.selector().labels())) {
                hosts.push_back(std::move(host));
              }
            }
          }
        }
        uint64_t bytes = 0;
        for (HostRow& host : hosts) {
          if (response.hosts_size() == size || bytes > kMaxPageBytes) {
            response.set_next_page_token(
                response.hosts(response.hosts_size() - 1).name());
            break;
          }
          *response.add_hosts() = ToHost(std::move(host));
          bytes += response.hosts(response.hosts_size() - 1).ByteSizeLong();
        }
        return absl::OkStatus();
      }));
  return response;
}

absl::StatusOr<v1::Host> Fleet::Get(const v1::GetHostRequest& request) const {
  v1::HostSelector selector;
  selector.add_hosts(request.host());
  v1::Host host;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(std::vector<HostRow> hosts,
                                  SelectHosts(view, selector));
        host = ToHost(std::move(hosts.front()));
        return absl::OkStatus();
      }));
  return host;
}

}  // namespace twinpath::coordinator
