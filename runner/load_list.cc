#include "runner/load_list.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace twinpath::runner {
namespace {

bool IsRelocatable(v1::ImageKind kind) {
  return kind == v1::IMAGE_KIND_RELOCATABLE_SASS ||
         kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

absl::Status NoLine(absl::string_view line) {
  return absl::InvalidArgumentError(
      absl::StrCat("no line of a list of images: ", line.substr(0, 100)));
}

// "image FILE FATBIN RELOCATABLE SUFFIX JOB".
absl::StatusOr<LoadImage> ParseImage(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 5));
  LoadImage image;
  int relocatable = 0;
  int suffix = 0;
  if (words.size() != 6 || !absl::SimpleAtoi(words[1], &image.file) ||
      !absl::SimpleAtoi(words[2], &image.fatbin) ||
      !absl::SimpleAtoi(words[3], &relocatable) || relocatable < 0 ||
      relocatable > 1 || !absl::SimpleAtoi(words[4], &suffix) ||
      !v1::TargetSuffix_IsValid(suffix)) {
    return NoLine(line);
  }
  image.relocatable = relocatable == 1;
  image.suffix = static_cast<v1::TargetSuffix>(suffix);
  TWINPATH_ASSIGN_OR_RETURN(image.job, LoadJob::Parse(words[5]));
  return image;
}

}  // namespace

bool LoadImage::Fits(uint32_t device) const {
  const uint32_t number = job.number;
  if (suffix == v1::TARGET_SUFFIX_ARCH) return number == device;
  const bool same_major = number / 10 == device / 10 && number <= device;
  if (suffix == v1::TARGET_SUFFIX_FAMILY) return same_major;
  return job.ptx ? number <= device : same_major;
}

void LoadList::Add(const std::string& path, const v1::FileReport& report) {
  const auto file = static_cast<uint32_t>(files.size());
  files.push_back(path);
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (fatbin.damaged()) continue;
    for (const v1::Image& found : fatbin.images()) {
      LoadImage& image = images.emplace_back();
      image.file = file;
      image.fatbin = fatbin.index();
      image.relocatable = IsRelocatable(found.kind());
      image.suffix = found.target().suffix();
      image.job = JobOf(fatbin, found);
      image.job.id = static_cast<uint32_t>(images.size() - 1);
    }
  }
}

std::string LoadList::Text() const {
  std::string text = absl::StrCat(
      "options ", absl::ToInt64Milliseconds(time), " ", workers, " ",
      memory_bytes, " ", absl::ToInt64Milliseconds(compile_limit), "\n");
  for (const std::string& file : files) {
    absl::StrAppend(&text, "file ", absl::WebSafeBase64Escape(file), "\n");
  }
  for (const LoadImage& image : images) {
    absl::StrAppend(&text, "image ", image.file, " ", image.fatbin, " ",
                    image.relocatable ? 1 : 0, " ",
                    static_cast<int>(image.suffix), " ", image.job.Line());
  }
  return text;
}

absl::StatusOr<LoadList> LoadList::Parse(absl::string_view text) {
  LoadList list;
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 5));
    int64_t time = 0;
    int64_t compile = 0;
    std::string path;
    if (words[0] == "image") {
      TWINPATH_ASSIGN_OR_RETURN(const LoadImage image, ParseImage(line));
      if (image.file >= list.files.size() ||
          image.job.id != list.images.size() ||
          list.images.size() == kMostImages) {
        return NoLine(line);
      }
      list.images.push_back(image);
    } else if (words[0] == "file" && words.size() == 2 &&
               absl::WebSafeBase64Unescape(words[1], &path)) {
      list.files.push_back(path);
    } else if (words[0] == "options" && words.size() == 5 &&
               absl::SimpleAtoi(words[1], &time) && time > 0 &&
               absl::SimpleAtoi(words[2], &list.workers) && list.workers > 0 &&
               list.workers <= 64 &&
               absl::SimpleAtoi(words[3], &list.memory_bytes) &&
               absl::SimpleAtoi(words[4], &compile) && compile > 0) {
      list.time = absl::Milliseconds(time);
      list.compile_limit = absl::Milliseconds(compile);
    } else {
      return NoLine(line);
    }
  }
  return list;
}

}  // namespace twinpath::runner
