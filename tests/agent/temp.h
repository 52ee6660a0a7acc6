// A temporary folder for one test, and the small reads and writes tests need.

#ifndef TWINPATH_TESTS_AGENT_TEMP_H_
#define TWINPATH_TESTS_AGENT_TEMP_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/file.h"

namespace twinpath::agent {

inline TempDirectory MakeTemp() {
  absl::StatusOr<TempDirectory> made = TempDirectory::Make();
  EXPECT_TRUE(made.ok()) << made.status();
  return std::move(made).value();
}

inline std::string Slurp(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, 1 << 26);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

inline void Spit(const std::string& path, absl::string_view text,
                 uint32_t mode = 0600) {
  const absl::Status status = WriteFileAtomic(path, text, mode);
  EXPECT_TRUE(status.ok()) << status;
}

// Every regular file and link below `folder`, relative, sorted.
inline std::vector<std::string> FilesBelow(const std::string& folder,
                                           const std::string& prefix = "") {
  std::vector<std::string> files;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    const std::vector<std::string> below =
        FilesBelow(path, prefix + name + "/");
    if (ListDirectory(path).ok()) {
      files.insert(files.end(), below.begin(), below.end());
    } else {
      files.push_back(prefix + name);
    }
  }
  return files;
}

}  // namespace twinpath::agent

#endif  // TWINPATH_TESTS_AGENT_TEMP_H_
