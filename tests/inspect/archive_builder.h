// Makes archives in memory with libarchive's writers, and runs the system's
// tools for what they alone make.
//
//   BuildArchive("zip", {{"a/x.so", elf}})
//   BuildArchive("gnutar", {...}, {.filters = {"xz"}})

#ifndef TWINPATH_TESTS_INSPECT_ARCHIVE_BUILDER_H_
#define TWINPATH_TESTS_INSPECT_ARCHIVE_BUILDER_H_

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath::inspect {

struct TestMember {
  std::string path;
  std::string bytes = {};
  // Links instead of bytes.
  std::string hard_link = {};
  std::string symbolic_link = {};
  bool folder = false;
};

struct ArchiveSpec {
  // Innermost first.
  std::vector<std::string> filters = {};
  // Of libarchive: "zip:encryption=zipcrypt".
  std::string options = {};
  std::string passphrase = {};
};

// `format`: libarchive's name of the writer: "zip", "ustar", "gnutar", "pax",
// "raw", "7zip", "cpio".
inline std::string BuildArchive(const std::string& format,
                                const std::vector<TestMember>& members,
                                const ArchiveSpec& spec = {}) {
  std::string out;
  struct archive* const writer = ::archive_write_new();
  const auto check = [&](int result, const char* what) {
    if (result < ARCHIVE_WARN) {
      const char* const why = ::archive_error_string(writer);
      ADD_FAILURE() << what << ": " << (why == nullptr ? "?" : why);
    }
  };
  check(::archive_write_set_format_by_name(writer, format.c_str()), "format");
  for (const std::string& filter : spec.filters) {
    check(::archive_write_add_filter_by_name(writer, filter.c_str()), "filter");
  }
  if (!spec.options.empty()) {
    check(::archive_write_set_options(writer, spec.options.c_str()), "options");
  }
  if (!spec.passphrase.empty()) {
    check(::archive_write_set_passphrase(writer, spec.passphrase.c_str()),
          "passphrase");
  }
  ::archive_write_set_bytes_per_block(writer, 0);
  const auto append = [](struct archive*, void* to, const void* data,
                         size_t size) -> la_ssize_t {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
    return static_cast<la_ssize_t>(size);
  };
  check(::archive_write_open(writer, &out, nullptr, append, nullptr), "open");
  for (const TestMember& member : members) {
    struct archive_entry* const entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, member.path.c_str());
    ::archive_entry_set_perm(entry, 0644);
    ::archive_entry_set_mtime(entry, 1'700'000'000, 0);
    ::archive_entry_set_filetype(entry, member.folder ? AE_IFDIR : AE_IFREG);
    if (!member.hard_link.empty()) {
      ::archive_entry_set_hardlink(entry, member.hard_link.c_str());
    }
    if (!member.symbolic_link.empty()) {
      ::archive_entry_set_filetype(entry, AE_IFLNK);
      ::archive_entry_set_symlink(entry, member.symbolic_link.c_str());
    }
    ::archive_entry_set_size(entry,
                             static_cast<la_int64_t>(member.bytes.size()));
    check(::archive_write_header(writer, entry), member.path.c_str());
    if (!member.bytes.empty()) {
      EXPECT_EQ(::archive_write_data(writer, member.bytes.data(),
                                     member.bytes.size()),
                static_cast<la_ssize_t>(member.bytes.size()));
    }
    ::archive_entry_free(entry);
  }
  check(::archive_write_close(writer), "close");
  ::archive_write_free(writer);
  return out;
}

// `bytes` packed by themselves, as gzip and its like do it.
inline std::string Packed(const std::string& filter, const std::string& bytes) {
  return BuildArchive("raw", {{"content", bytes}}, {.filters = {filter}});
}

// A zip whose end record says that all of it is in the one of large zips.
inline std::string AsZip64(const std::string& zip) {
  const size_t end = zip.rfind("PK\x05\x06");
  const auto number = [&](size_t at, size_t size) {
    return zip.substr(end + at, size) + std::string(8 - size, '\0');
  };
  std::string place;
  for (size_t i = 0; i < 8; ++i) {
    place += static_cast<char>(uint64_t{end} >> (8 * i));
  }
  std::string out = zip.substr(0, end);
  absl::StrAppend(&out, "PK\x06\x06", std::string(1, 44), std::string(7, '\0'),
                  std::string("\x2d\0\x2d\0", 4), std::string(8, '\0'),
                  number(10, 2), number(10, 2), number(12, 4), number(16, 4));
  absl::StrAppend(&out, "PK\x06\x07", std::string(4, '\0'), place,
                  std::string("\x01\0\0\0", 4));
  absl::StrAppend(&out, "PK\x05\x06", std::string(4, '\0'),
                  std::string(12, '\xff'), std::string(2, '\0'));
  return out;
}

// The header of an ar member.
inline std::string ArHeader(const std::string& name, size_t size) {
  std::string out = name;
  out.resize(16, ' ');
  absl::StrAppend(&out, "0           0     0     100644  ");
  std::string digits = absl::StrCat(size);
  digits.resize(10, ' ');
  return out + digits + "`\n";
}

// An ar member, padded.
inline std::string ArMemberBytes(const std::string& name,
                                 const std::string& bytes) {
  std::string out = ArHeader(name, bytes.size()) + bytes;
  if (out.size() % 2 != 0) out += '\n';
  return out;
}

// Runs a shell command in `folder`.
inline absl::StatusOr<ProcessResult> RunShell(const std::string& folder,
                                              const std::string& command) {
  ProcessOptions options;
  options.argv = {"/bin/sh", "-ec", command};
  options.environment = MinimalEnvironment();
  options.directory = folder;
  options.timeout = absl::Minutes(2);
  return RunProcess(options);
}

// Whether a system tool is there.
inline bool HasTool(const std::string& name) {
  const absl::StatusOr<ProcessResult> result =
      RunShell("/", absl::StrCat("command -v ", name));
  return result.ok() && result->succeeded();
}

// Runs a shell command in `folder`; it must succeed.
inline void RunIn(const std::string& folder, const std::string& command) {
  const absl::StatusOr<ProcessResult> result = RunShell(folder, command);
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->succeeded())
      << command << ": " << result->Describe() << ": " << result->err.head;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_ARCHIVE_BUILDER_H_
