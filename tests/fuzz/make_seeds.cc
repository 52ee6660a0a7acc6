// Writes the seeds of the fuzz targets: make_seeds FOLDER (tests/fuzz/seeds).
// Small files that reach every branch of the readers, made by the builders of
// the tests of inspect. Run again when a builder or a format is added; the
// files are kept in the tree so that every build replays the same ones.

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "tests/inspect/byte_writer.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/linked_cubin.h"
#include "tests/inspect/offload_builder.h"

namespace twinpath::inspect {
namespace {

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {
    ::mkdir(path_.c_str(), 0755);
  }
  void Add(absl::string_view target, absl::string_view name,
           absl::string_view bytes) {
    const std::string folder = JoinPath(path_, target);
    ::mkdir(folder.c_str(), 0755);
    const absl::Status status =
        WriteFileAtomic(JoinPath(folder, name), bytes, 0644);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      failed_ = true;
    }
  }
  bool failed() const { return failed_; }

 private:
  std::string path_;
  bool failed_ = false;
};

std::vector<std::pair<std::string, std::string>> Fatbins() {
  EntrySpec lto;
  lto.kind = 8;
  lto.payload = "scrambled";
  lto.compression = v1::COMPRESSION_OPAQUE;
  EntrySpec future;
  future.kind = 0x80;
  future.payload = "????????";
  future.extra_flags = uint64_t{1} << 40;
  EntrySpec cut = SassEntry({.sm = 100});
  cut.claimed_payload_bytes = ~uint64_t{0};
  EntrySpec large = SassEntry({.sm = 100}, v1::COMPRESSION_ZSTD);
  large.claimed_expanded_bytes = uint64_t{1} << 29;
  EntrySpec named = SassEntry({.sm = 120, .suffix = 'a'});
  named.name = "kernel.cu";
  return {
      {"sass", BuildFatbin({SassEntry({.sm = 90})})},
      {"zstd", BuildFatbin({SassEntry({.sm = 90}, v1::COMPRESSION_ZSTD),
                            PtxEntry({}, v1::COMPRESSION_ZSTD)})},
      {"lz4", BuildFatbin({SassEntry({.sm = 70, .abi = 7, .toolkit = 110},
                                     v1::COMPRESSION_LZ4_BLOCK),
                           PtxEntry({}, v1::COMPRESSION_LZ4_FRAME)})},
      {"zlib", BuildFatbin({SassEntry({.sm = 90}, v1::COMPRESSION_ZLIB)})},
      {"relocatable", BuildFatbin({SassEntry({.sm = 90, .relocatable = true}),
                                   PtxEntry({.target = "sm_90a"})})},
      {"odd", BuildFatbin({lto, future, named})},
      {"cut", BuildFatbin({SassEntry({.sm = 80}), cut})},
      {"lie", BuildFatbin({large, PtxEntry({})})},
      {"empty", BuildFatbin({})},
      {"two", BuildFatbin({}) + BuildFatbin({PtxEntry({})})},
  };
}

std::vector<std::pair<std::string, std::string>> Cubins() {
  return {
      {"abi8",
       BuildCubin({.sm = 90,
                   .suffix = 'a',
                   .options = "-arch sm_90a -m 64",
                   .kernels = {{.name = "_Z1av", .shared = 4096},
                               {.name = "_Z1bv", .max_threads = 256}}})},
      {"abi7", BuildCubin({.sm = 70, .abi = 7, .toolkit = 110})},
      {"relocatable", BuildCubin({.relocatable = true})},
      {"family", BuildCubin({.sm = 120, .options = "-arch sm_120f"})},
      {"none", BuildCubin({.kernels = {}})},
  };
}

std::vector<std::pair<std::string, std::string>> Texts() {
  return {
      {"plain", BuildPtx({})},
      {"many", BuildPtx({.target = "sm_121a", .kernels = {"a", "b", "c"}})},
      {"directives",
       ".version 3.2.target sm_35, texmode_unified, debug\n.address_size 64\n"
       ".func (.reg .b32 r) f(.reg .b32 x) { ret; }\n"
       ".extern .entry later(.param .u64 p);\n"
       ".visible .entry k(.param .u64 p)\n.maxntid 16, 4, 2\n.minnctapersm 2\n"
       ".pragma \"nounroll;\";\n{ { // }\n /* } */ .loc 1 2 3; } "
       "\"}\\\"\" }\n.entry last .reqntid 1 { ret; }\n"},
      {"comment", "/* .version 1.0 */ // x\n.version 9.0\n.target sm_100f\n"},
  };
}

std::vector<std::pair<std::string, std::string>> Elfs() {
  const std::string small = BuildFatbin({PtxEntry({}, v1::COMPRESSION_ZSTD)});
  return {
      {"shared", BuildElf({.fatbins = {small},
                           .soname = "libx.so.1",
                           .needed = {"libc.so.6", "libcudart.so.13"},
                           .runpath = "$ORIGIN/../lib"})},
      {"program", BuildElf({.type = 2,
                            .fatbins = {small, small},
                            .pointers_in_rela = false,
                            .rpath = "/opt/lib",
                            .interpreter = "/lib64/ld-linux-x86-64.so.2"})},
      {"object", BuildElf({.type = 1, .relocatable_fatbins = {small}})},
      {"aarch64", BuildElf({.pie = true, .machine = 183, .fatbins = {small}})},
      {"stripped", BuildElf({.fatbins = {small}, .without_sections = true})},
      {"beside", BuildElf({.fatbins = {small}, .pointer_error = 8})},
  };
}

using Members = std::vector<std::pair<std::string, std::string>>;

// An archive as libarchive writes it. `filter` may be empty.
std::string Archive(const char* format, const char* filter,
                    const Members& members) {
  std::string out;
  struct archive* const writer = ::archive_write_new();
  ::archive_write_set_format_by_name(writer, format);
  if (*filter != '\0') ::archive_write_add_filter_by_name(writer, filter);
  // No time of writing.
  ::archive_write_set_options(writer, "gzip:!timestamp");
  ::archive_write_set_bytes_per_block(writer, 0);
  ::archive_write_open(
      writer, &out, nullptr,
      [](struct archive*, void* to, const void* data, size_t size) {
        static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                              size);
        return static_cast<la_ssize_t>(size);
      },
      nullptr);
  for (const auto& [path, bytes] : members) {
    struct archive_entry* const entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, path.c_str());
    ::archive_entry_set_perm(entry, 0644);
    ::archive_entry_set_mtime(entry, 1'700'000'000, 0);
    ::archive_entry_set_filetype(entry, AE_IFREG);
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    ::archive_write_header(writer, entry);
    ::archive_write_data(writer, bytes.data(), bytes.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_close(writer);
  ::archive_write_free(writer);
  return out;
}

std::string Ar(const Members& members) {
  std::string out = "!<arch>\n";
  for (const auto& [path, bytes] : members) {
    std::string header = path;
    header.resize(16, ' ');
    header += "0           0     0     100644  ";
    header += absl::StrCat(bytes.size());
    header.resize(58, ' ');
    out += header + "`\n" + bytes;
    if (out.size() % 2 != 0) out += '\n';
  }
  return out;
}

Members Carriers() {
  const std::string elf = BuildElf(
      {.fatbins = {BuildFatbin({SassEntry({.sm = 90}, v1::COMPRESSION_ZSTD)})},
       .soname = "libx.so",
       .needed = {"libcudart.so.12"}});
  const Members package = {
      {"demo/libx.so", elf},
      {"demo/__init__.py", "import ctypes\n"},
      {"demo-1.0.dist-info/WHEEL",
       "Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_28_x86_64\n"},
      {"demo-1.0.dist-info/METADATA",
       "Metadata-Version: 2.1\nName: demo\nVersion: 1.0+cu126\n"
       "Requires-Dist: nvidia-cuda-runtime-cu12==12.6.77\n"}};
  const std::string zip = Archive("zip", "", {{"a/x.so", elf}});
  const std::string control =
      Archive("gnutar", "xz",
              {{"./control",
                "Package: demo\nVersion: 1.0\nArchitecture: amd64\n"
                "Depends: libcudart12 (>= 12.0)\n"}});
  const std::string data =
      Archive("gnutar", "zstd", {{"./usr/lib/libx.so", elf}});
  return {
      {"wheel", Archive("zip", "", package)},
      {"zip-in-zip", Archive("zip", "", {{"in.zip", zip}})},
      {"tar", Archive("ustar", "", {{"x.so", elf}})},
      {"pax-gzip",
       Archive("pax", "gzip", {{std::string(120, 'n') + "/x.so", elf}})},
      {"tar-xz", Archive("gnutar", "xz", {{"x.so", elf}})},
      {"tar-zstd", Archive("gnutar", "zstd", {{"x.so", elf}})},
      {"tar-bzip2", Archive("gnutar", "bzip2", {{"x.so", elf}})},
      {"tar-lz4", Archive("gnutar", "lz4", {{"x.so", elf}})},
      {"gzip", Archive("raw", "gzip", {{"x.so", elf}})},
      {"ar", Ar({{"//", "a-name-that-is-longer-than-16.o/\n"},
                 {"/0", elf},
                 {"b.o/", BuildElf({.type = 1})}})},
      {"two-tars", Archive("ustar", "", {{"x.so", elf}}) +
                       Archive("pax", "", {{"y.so", elf}})},
      {"program-zip", BuildElf({.type = 2}) + zip},
      {"saved-image",
       Archive("ustar", "gzip",
               {{"c.json", "{\"architecture\":\"amd64\",\"os\":\"linux\"}"},
                {"0.tar.gz", Archive("ustar", "gzip", {{"usr/x.so", elf}})},
                {"manifest.json",
                 "[{\"Config\":\"c.json\",\"Layers\":[\"0.tar.gz\"]}]"}})},
      {"thin", "!<thin>\n" + Ar({{"//", "dir/member.o/\n"}}).substr(8)},
      {"deb", Ar({{"debian-binary", "2.0\n"},
                  {"control.tar.xz", control},
                  {"data.tar.zst", data}})},
  };
}

// First byte: codec; next two: expanded size.
std::string CodecInput(char codec, v1::Compression compression) {
  const std::string plain = BuildPtx({.kernels = {"a", "b", "c"}});
  std::string input(1, codec);
  Append(input, static_cast<uint16_t>(plain.size()));
  return input + Pack(plain, compression);
}

int Main(const std::string& path) {
  Folder folder(path);
  for (const auto& [name, bytes] : Fatbins()) {
    folder.Add("fatbin", name, bytes);
    folder.Add("file", absl::StrCat("fatbin-", name), bytes);
  }
  for (const auto& [name, bytes] : Cubins()) {
    folder.Add("cubin", name, bytes);
    folder.Add("file", absl::StrCat("cubin-", name), bytes);
  }
  LinkedCubinSpec linked = {
      .kernels = {{.name = "_Z1av", .max_threads = 128}, {.name = "_Z1bPi"}},
      .code = 16};
  folder.Add("cubin_prefix", "details", BuildLinkedCubin(linked));
  linked.kernels[1].shared = 256;
  linked.gap = 24;
  folder.Add("cubin_prefix", "shared", BuildLinkedCubin(linked));
  for (const auto& [name, bytes] : Texts()) {
    folder.Add("ptx", name, bytes);
    folder.Add("file", absl::StrCat("ptx-", name), bytes);
  }
  for (const auto& [name, bytes] : Elfs()) {
    folder.Add("elf", name, bytes);
    folder.Add("file", absl::StrCat("elf-", name), bytes);
  }
  for (const auto& [name, bytes] : Carriers()) {
    folder.Add("carrier", name, bytes);
  }
  folder.Add("oci", "saved",
             absl::StrCat("[{\"Config\":\"config.json\",\"RepoTags\":[\"a:1\"],"
                          "\"Layers\":[\"layer.tar\"]}]\n--\n"
                          "{\"architecture\":\"amd64\",\"os\":\"linux\","
                          "\"config\":{\"Env\":[\"CUDA_VERSION=12.6.0\"]},"
                          "\"rootfs\":{\"diff_ids\":[\"sha256:00\"]}}\n--\n",
                          Archive("ustar", "",
                                  {{"usr/lib/.wh.old.so", ""},
                                   {"usr/lib/x.so", "\177ELF"},
                                   {"opt/.wh..wh..opq", ""}})));
  folder.Add(
      "oci", "index",
      "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/"
      "vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:"
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","
      "\"size\":0,\"platform\":{\"os\":\"linux\",\"architecture\":\"arm64\"},"
      "\"annotations\":{\"a\\u00e9\":\"\\ud83d\\ude00\"}}]}\n--\n"
      "{\"imageLayoutVersion\":\"1.0.0\"}");
  for (const auto& [name, text] : Members{
           {"wheel",
            "torch-2.8.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl\n"
            "torch-2.8.0.dist-info/METADATA\nMetadata-Version: 2.1\n"
            "Name: torch\nVersion: 2.8.0+cu128\nRequires-Dist: "
            "nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'\n"},
           {"tags",
            "a-1-cp39-abi3-linux_aarch64.whl\na-1.dist-info/WHEEL\n"
            "Wheel-Version: 1.0\nTag: cp39-abi3-linux_aarch64\n"},
           {"deb",
            "libcublas-12-6_12.6.4.1-1_amd64.deb\n"
            "control.tar.xz!/./control\nPackage: libcublas-12-6\n"
            "Version: 12.6.4.1-1\nArchitecture: amd64\n"
            "Depends: libc6 (>= 2.34),\n cuda-toolkit-12-6-config-common\n"},
           {"image",
            "image.tar\nconfig\n{\"architecture\":\"arm64\",\"config\":"
            "{\"Env\":[\"NVIDIA_REQUIRE_CUDA=cuda>=12.6 brand=tesla\"]}}"},
           {"archive", "demo-cuda12.6-sm_90-x86_64.tar.gz\nx\n"}}) {
    folder.Add("metadata", name, text);
  }
  for (const auto& [name, text] : Members{
           {"plain", "_Z6kernelPi"},
           {"template",
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctor"
            "IfEESt5arrayIPcLm1EEEEviT0_T1_"},
           {"substitution", "_ZSt3mapISsSt6vectorIS_IS0_EEESaIS1_EE"},
           {"local", "_ZZ4mainENKUlvE_clEv"}}) {
    folder.Add("demangle", name, text);
  }
  folder.Add("file", "upx",
             BuildElf({.data = "UPX!", .without_sections = true}));
  folder.Add("file", "script", "#!/bin/sh\nexit\n");
  const std::string cubin = Cubins().front().second;
  const std::string ptx =
      "// made\n.version 8.7\n.target sm_90a\n"
      ".address_size 64\n.visible .entry k()\n{ ret; }\n";
  folder.Add("bare", "cubin", absl::StrCat("....", cubin));
  folder.Add("bare", "ptx", absl::StrCat(ptx, std::string("\0rest", 5)));
  folder.Add("bare", "zstd-cubin", Pack(cubin, v1::COMPRESSION_ZSTD));
  folder.Add("bare", "zstd-ptx", Pack(ptx, v1::COMPRESSION_ZSTD));
  folder.Add("bare", "gzip-cubin", Pack(cubin, v1::COMPRESSION_GZIP));
  folder.Add("bare", "gzip-ptx", Pack(ptx, v1::COMPRESSION_GZIP));
  // As FFmpeg has it: both sizes, then a stream of the best packing.
  std::string sized;
  std::string zlib = Pack(ptx, v1::COMPRESSION_ZLIB);
  zlib[1] = '\xDA';
  Append<uint32_t>(sized, static_cast<uint32_t>(ptx.size()));
  Append<uint32_t>(sized, static_cast<uint32_t>(zlib.size()));
  folder.Add("bare", "zlib-ptx", sized + zlib);
  for (const uint32_t version : {1, 2}) {
    std::vector<OffloadMember> members = {
        {3, 2, "nvptx64-nvidia-cuda", "sm_90", cubin}};
    if (version == 2) {
      members.push_back({5, 2, "nvptx64-nvidia-cuda", "sm_90", ptx});
      members.push_back({2, 1, "amdgcn-amd-amdhsa", "gfx90a", "BC"});
    }
    folder.Add("offload", absl::StrCat("version", version),
               BuildOffloadBundle(members, version));
  }
  folder.Add("kind", "elf", std::string("\177ELF\2\1\1", 7));
  folder.Add("kind", "zip", "PK\x03\x04");
  folder.Add("kind", "old-tar",
             Archive("v7tar", "", {{"a", "b"}}).substr(0, 512));
  folder.Add("kind", "text", "INPUT(libx.so.1)\n");
  folder.Add("kind", "ptx", ptx);
  folder.Add("kind", "offload",
             BuildOffloadBundle({{3, 2, "", "sm_90", "x"}}).substr(0, 64));
  folder.Add("codec", "none", CodecInput(0, v1::COMPRESSION_NONE));
  folder.Add("codec", "zlib", CodecInput(1, v1::COMPRESSION_ZLIB));
  folder.Add("codec", "lz4-block", CodecInput(2, v1::COMPRESSION_LZ4_BLOCK));
  folder.Add("codec", "lz4-frame", CodecInput(3, v1::COMPRESSION_LZ4_FRAME));
  folder.Add("codec", "zstd", CodecInput(4, v1::COMPRESSION_ZSTD));
  folder.Add("codec", "gzip", CodecInput(6, v1::COMPRESSION_GZIP));
  return folder.failed() ? 1 : 0;
}

}  // namespace
}  // namespace twinpath::inspect

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  return twinpath::inspect::Main(argv[1]);
}
