// AgentOptions: what an agent is told at its start, by flags and file.

#ifndef TWINPATH_AGENT_AGENT_OPTIONS_H_
#define TWINPATH_AGENT_AGENT_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/backoff.h"
#include "agent/blob_cache.h"
#include "agent/gpu_reservation.h"
#include "agent/host_processor.h"
#include "agent/session.h"
#include "agent/spool.h"
#include "runner/trusted_release.h"
#include "runner/unit_socket.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::agent {

struct AgentOptions {
  std::string state_directory = "/var/lib/twinpath-agent";
  // HOST:PORT.
  std::string coordinator = "127.0.0.1:7711";
  // Read at each enrolment try, so that a new token can be put there.
  std::string join_token_file;
  // Empty: the kernel's; for a simulation, made from profile and machine id.
  std::string host_name;
  // "key=value".
  std::vector<std::string> labels;
  GpuPolicy gpu_policy = GpuPolicy::kIdle;
  ReservationCommands reservation;
  // Whether this host runs what no key it trusts has signed; only without the
  // run unit, which never does.
  bool allow_unsigned_runs = false;
  runner::TrustFiles trust;
  // Sockets of the units that run and probe; used where they are there.
  std::string run_socket = runner::kRunSocket;
  std::string oci_socket = runner::kOciSocket;
  std::string probe_socket = runner::kProbeSocket;
  CacheLimits cache;
  SpoolLimits spool;
  absl::Duration facts_interval = absl::Minutes(10);

  // Facts of a profile; unset: this machine.
  std::optional<v1::HostFacts> profile;
  // Leaks found in the environment before it was scrubbed.
  std::vector<v1::EnvironmentLeak> leaks;
  SessionOptions session;
  BackoffOptions backoff;
  // How long a stopping agent waits for its last results to be acknowledged.
  absl::Duration farewell = absl::Seconds(3);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_AGENT_OPTIONS_H_
