#include "base/digest.h"

#include <openssl/evp.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace twinpath {
namespace {

constexpr size_t kWindow = size_t{256} * 1024;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "twinpath: %s\n", what);
  std::abort();
}

// OpenSSL 3 looks an algorithm up by name on every implicit use, which costs
// more than hashing a small blob. So it is fetched once.
const EVP_MD* Sha256Algorithm() {
  static const EVP_MD* const algorithm = [] {
    const EVP_MD* md = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    if (md == nullptr) Die("OpenSSL offers no SHA-256");
    return md;
  }();
  return algorithm;
}

}  // namespace

std::string Sha256::Hex() const { return absl::BytesToHexString(Raw()); }

std::string Sha256::Raw() const {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<Sha256> Sha256::FromHex(absl::string_view hex) {
  if (hex.size() != 64) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a SHA-256 has 64 hexadecimal characters, not ", hex.size()));
  }
  for (const char c : hex) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          "a SHA-256 has hexadecimal characters only");
    }
  }
  return FromRaw(absl::HexStringToBytes(hex));
}

absl::StatusOr<Sha256> Sha256::FromRaw(absl::string_view raw) {
  Sha256 digest;
  if (raw.size() != digest.bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a SHA-256 has 32 bytes, not ", raw.size()));
  }
  std::memcpy(digest.bytes.data(), raw.data(), raw.size());
  return digest;
}

struct Sha256Stream::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    if (evp == nullptr) Die("out of memory");
    Start();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void Start() {
    if (EVP_DigestInit_ex2(evp, Sha256Algorithm(), nullptr) != 1) {
      Die("SHA-256 cannot be started");
    }
  }

  EVP_MD_CTX* evp;
};

Sha256Stream::Sha256Stream() : context_(std::make_unique<Context>()) {}
Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::Update(absl::string_view data) {
  if (data.empty()) return;
  if (EVP_DigestUpdate(context_->evp, data.data(), data.size()) != 1) {
    Die("SHA-256 failed");
  }
}

Sha256 Sha256Stream::Finish() {
  Sha256 digest;
  if (EVP_DigestFinal_ex(context_->evp, digest.bytes.data(), nullptr) != 1) {
    Die("SHA-256 failed");
  }
  context_->Start();
  return digest;
}

Sha256 Sha256Of(absl::string_view data) {
  Sha256Stream stream;
  stream.Update(data);
  return stream.Finish();
}

absl::StatusOr<Sha256> Sha256OfDescriptor(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "stat");
  if (!S_ISREG(info.st_mode)) {
    // A device may never end.
    return absl::InvalidArgumentError("only regular files are hashed");
  }
  std::vector<char> window(kWindow);
  Sha256Stream stream;
  off_t offset = 0;
  while (true) {
    const ssize_t got = pread(fd, window.data(), window.size(), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read");
    }
    if (got == 0) break;
    stream.Update(absl::string_view(window.data(), static_cast<size_t>(got)));
    offset += got;
  }
  return stream.Finish();
}

absl::StatusOr<Sha256> Sha256OfFile(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  absl::StatusOr<Sha256> digest = Sha256OfDescriptor(fd.get());
  if (!digest.ok()) return WithContext(digest.status(), path);
  return digest;
}

std::string RandomHex(int bytes) {
  std::string raw(static_cast<size_t>(std::max(bytes, 0)), '\0');
  size_t filled = 0;
  while (filled < raw.size()) {
    const ssize_t got =
        getrandom(raw.data() + filled, raw.size() - filled, /*flags=*/0);
    if (got < 0) {
      if (errno == EINTR) continue;
      Die("the operating system gives no random bytes");
    }
    filled += static_cast<size_t>(got);
  }
  return absl::BytesToHexString(raw);
}

}  // namespace twinpath
