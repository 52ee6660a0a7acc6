#include "trust/signed_release.h"

#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "trust/release.h"

namespace twinpath::trust {
namespace {

absl::Status Refused(absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("TP130 release-refused: ", why));
}

absl::Status CheckLabels(const v1::Release& release,
                         const std::vector<std::string>& labels) {
  std::map<std::string, bool> keys;
  const std::set<std::string> own(labels.begin(), labels.end());
  for (const std::string& label : release.host_labels()) {
    const std::string key = label.substr(0, label.find('='));
    keys[key] |= own.contains(label);
  }
  for (const auto& [key, met] : keys) {
    if (!met) {
      return Refused(absl::StrCat(
          "the release is for hosts with other values of the label ",
          Printable(key), " than this one has in /etc/twinpath/host-labels"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Envelope> SignRelease(const v1::Release& release,
                                         const PrivateKey& key) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text, ReleaseText(release));
  return SignEnvelope(kReleasePayloadType, text, key);
}

absl::StatusOr<std::string> VerifyRelease(const v1::Release& release,
                                          const v1::Envelope& envelope,
                                          const HostTrust& host) {
  const absl::StatusOr<std::string> key =
      VerifyEnvelope(envelope, kReleasePayloadType, host.keys);
  if (!key.ok()) return Refused(MessageOf(key.status()));
  // The text is made again from what is going to be run and compared: nothing
  // is ever read out of it, so nothing can be read out of it wrongly.
  const absl::StatusOr<std::string> text = ReleaseText(release);
  if (!text.ok()) return Refused(MessageOf(text.status()));
  if (*text != envelope.payload()) {
    return Refused("what was signed is another release than the one to be run");
  }
  if (release.has_not_after()) {
    const absl::Time end =
        absl::FromUnixSeconds(release.not_after().seconds()) +
        absl::Nanoseconds(release.not_after().nanos());
    if (host.now > end) {
      return Refused(absl::StrCat(
          "it may not be started after ",
          absl::FormatTime(absl::RFC3339_sec, end, absl::UTCTimeZone())));
    }
  }
  TWINPATH_RETURN_IF_ERROR(CheckLabels(release, host.labels));
  return *key;
}

absl::StatusOr<std::vector<std::string>> ParseHostLabels(
    absl::string_view text) {
  std::vector<std::string> labels;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    if (equals == 0 || equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Printable(line), "\" is not key=value"));
    }
    labels.emplace_back(line);
  }
  return labels;
}

}  // namespace twinpath::trust
