// SHA-256: over memory, over a stream, over a file; and its hexadecimal form.

#ifndef TWINPATH_BASE_DIGEST_H_
#define TWINPATH_BASE_DIGEST_H_

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath {

// A SHA-256 value. Ordered and hashable as its bytes.
struct Sha256 {
  std::array<uint8_t, 32> bytes{};

  // Lower-case hexadecimal, 64 characters.
  std::string Hex() const;
  // The 32 raw bytes, as twinpath.v1.Digest.sha256 holds them.
  std::string Raw() const;

  // Parses 64 hexadecimal characters of either case. INVALID_ARGUMENT else.
  static absl::StatusOr<Sha256> FromHex(absl::string_view hex);
  // Takes 32 raw bytes. INVALID_ARGUMENT for another length.
  static absl::StatusOr<Sha256> FromRaw(absl::string_view raw);

  friend bool operator==(const Sha256&, const Sha256&) = default;
  friend auto operator<=>(const Sha256&, const Sha256&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Sha256& d) {
    return H::combine(std::move(h), d.bytes);
  }
};

// Digest over bytes given piece by piece. Not thread-safe.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  // Adds bytes.
  void Update(absl::string_view data);
  // Returns the digest over all added bytes and starts anew.
  Sha256 Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Returns the digest of `data`.
Sha256 Sha256Of(absl::string_view data);

// Returns the digest of the whole file behind `fd`, read by pread from offset
// 0 in bounded windows; the file position is not moved. Errors as ErrnoStatus.
absl::StatusOr<Sha256> Sha256OfDescriptor(int fd);

// Returns the digest of the file at `path`. Errors as ErrnoStatus.
absl::StatusOr<Sha256> Sha256OfFile(const std::string& path);

// Returns `bytes` random bytes from the operating system as lower-case
// hexadecimal. Aborts if the system has no randomness.
std::string RandomHex(int bytes);

}  // namespace twinpath

#endif  // TWINPATH_BASE_DIGEST_H_
