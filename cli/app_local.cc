// Commands that need no coordinator.

#include <string>
#include <vector>

#include "base/exit_code.h"
#include "cli/app_builder.h"

namespace twinpath::cli {

void Builder::Inspect() {
  CLI::App* sub = Command(
      app_, "inspect",
      "What device code files, packages and folders hold\n"
      "\n"
      "  twinpath inspect build/app\n"
      "  twinpath inspect dist/*.whl build/lib\n"
      "  twinpath inspect --expect sm_90,sm_121,ptx dist/pkg.whl\n"
      "  twinpath inspect --match 'gemm.*bf16' --target sm_90a libfoo.so\n"
      "  twinpath inspect --format json app | jq .files[0].fatbins\n"
      "\n"
      "Folders, wheels, zip, tar, deb, static libraries and container "
      "images\n"
      "are opened. Exit: 0 device code was found and read whole, 1 none,\n"
      "damaged or an expected target is missing, 2 not a file that can hold\n"
      "any, 3 part could not be read.");
  sub->add_option("FILE", o_.inspect.files, "Files, packages, folders")
      ->required();
  sub->add_flag("--kernels", o_.inspect.kernels,
                "List every kernel with its targets");
  sub->add_flag("--images", o_.inspect.images, "List every image");
  sub->add_flag("--details", o_.inspect.details,
                "Registers, shared memory, threads of kernels; what made the "
                "images");
  sub->add_flag("--demangle", o_.inspect.demangle,
                "Demangled names beside the mangled ones");
  sub->add_option("--match", o_.inspect.match,
                  "Only kernels (and images with one) in whose mangled or "
                  "demangled name this regular expression (RE2) is found");
  AddRepeated(sub, "--target", o_.inspect.targets,
              "List only this target: sm_90, 90a, compute_120, ptx");
  sub->add_flag("--members", o_.inspect.members,
                "The full summary of every file of folders and packages");
  AddRepeated(
      sub, "--expect", o_.inspect.expect,
      "Targets that each FILE, taken as a whole, must hold: sm_90,sm_121,"
      "ptx");
  AddRepeated(sub, "--expect-each", o_.inspect.expect_each,
              "Targets that every file with device code must hold");
  sub->add_flag("--no-kernels", o_.inspect.no_kernels,
                "Do not decode images (faster)");
  sub->add_flag("--witness", o_.inspect.witness,
                "Let NVIDIA's cuobjdump of this host list the files, too, and "
                "compare (exit 3 where it contradicts or gives no answer)");
  sub->callback([this] {
    run_ = [this](Console& c) { return RunInspect(o_.inspect, c); };
  });
}

void Builder::Check() {
  CLI::App* sub = Command(
      app_, "check",
      "Runs a program on this host along the paths; needs no coordinator\n"
      "\n"
      "  twinpath check build/app -- --size 64\n"
      "  twinpath check --expect-contains PASS build/app\n"
      "  twinpath check --ptx-jit=optional build/app libkernels.so\n"
      "  twinpath check --images build/lib\n"
      "  twinpath check image.tar --oci-image sha256:1c4e... -- app --size 64\n"
      "  twinpath check --toolchain\n"
      "  twinpath check --toolchain --toolkit /opt/cuda-13.1 --target sm_121\n"
      "\n"
      "Every run is a new process in a sandbox and a new folder. Exit: 0\n"
      "every required path is proven, 1 one fails, 3 inconclusive (a host\n"
      "without a usable GPU, too).");
  sub->add_option("FILE", o_.check.files,
                  "The program, then files it needs beside it");
  sub->add_flag("--images", o_.check.images,
                "Runs no program: gives every image of the files, or folders, "
                "to the driver and compares with what is predicted for each");
  sub->add_option("--oci-image", o_.check.oci_image,
                  "FILE holds this oci_image (digest of its manifest: twinpath "
                  "inspect FILE): runs the arguments as a command in it, with "
                  "podman")
      ->excludes("--images");
  sub->add_flag("--toolchain", o_.check_toolchain,
                "No FILE: whether the CUDA toolkits of this host build what "
                "its GPUs run");
  std::vector<CLI::Option*> of_toolchain = {
      AddRepeated(
          sub, "--toolkit", o_.toolchain.toolkits,
          "With --toolchain: the folder of a toolkit (default: those found)"),
      AddRepeated(
          sub, "--gpu", o_.toolchain.gpus,
          "With --toolchain: a GPU by its UUID (default: one of each model)"),
      AddRepeated(sub, "--target", o_.toolchain.targets,
                  "With --toolchain: build for a GPU that is not here, such as "
                  "sm_121, and run nothing")};
  sub->add_option("--expect-exit", o_.check.expect_exit,
                  "Exit code of success (default 0)")
      ->check(CLI::Range(0, 255));
  sub->add_option("--expect-output", o_.check.expect_output,
                  "Standard output, byte for byte");
  sub->add_option("--expect-contains", o_.check.expect_contains,
                  "Text that standard output contains");
  sub->add_option("--expect-pattern", o_.check.expect_pattern,
                  "Regular expression (RE2) that matches in it");
  CheckResults(sub);
  AddRepeated(sub, "--env", o_.check.environment, "NAME=value for the program");
  sub->add_option("--timeout", o_.check.timeout,
                  "Limit of a run, such as 90s (default 60s; of --images "
                  "15m)");
  sub->add_option("--jit-timeout", o_.check.jit_timeout,
                  "Limit of the forced JIT run (default ten times that, at "
                  "least 15m)");
  const auto rule = [sub](const std::string& name, std::string& to) {
    sub->add_option(name, to, "required, optional or skip")
        ->check(CLI::IsMember({"required", "optional", "skip"}));
  };
  rule("--native", o_.check.native);
  rule("--ptx-jit", o_.check.ptx_jit);
  rule("--plain", o_.check.plain);
  sub->add_option("--trace", o_.check.trace,
                  "Repeat runs with tracing: auto (where CUPTI is on this "
                  "host), required or off")
      ->check(CLI::IsMember({"auto", "required", "off"}));
  AddRepeated(sub, "--must-launch", o_.check.must_launch,
              "A kernel (mangled name) that must be launched; needs tracing");
  sub->add_flag("--strict", o_.check.strict, "Warnings fail");
  sub->add_flag("--all-gpus", o_.check.all_gpus,
                "Every GPU (default: one of each model)");
  sub->callback([this, sub, of_toolchain] {
    if (o_.check_toolchain) {
      if (!o_.check.files.empty()) {
        throw CLI::ValidationError(
            "--toolchain",
            "takes no FILE: it builds and runs the check program");
      }
      o_.toolchain.all_gpus = o_.check.all_gpus;
      o_.toolchain.strict = o_.check.strict;
      run_ = [this](Console& c) { return RunCheckToolchain(o_.toolchain, c); };
      return;
    }
    for (const CLI::Option* option : of_toolchain) {
      if (option->count() > 0) {
        throw CLI::ValidationError(option->get_name(), "needs --toolchain");
      }
    }
    if (o_.check.files.empty()) throw CLI::RequiredError("FILE");
    if (o_.check.images) {
      for (const char* name :
           {"--expect-exit", "--expect-output", "--expect-contains",
            "--expect-pattern", "--expect-numbers", "--compare", "--absolute",
            "--relative", "--nan-equals-nan", "--output-file", "--reference",
            "--save-reference", "--must-launch", "--trace", "--native",
            "--ptx-jit", "--plain", "--jit-timeout"}) {
        if (sub->count(name) > 0) {
          throw CLI::ValidationError(
              name,
              "does not go with --images: images have no output and no "
              "path");
        }
      }
    }
    o_.check.has_expect_output = sub->count("--expect-output") > 0;
    o_.check.has_expect_contains = sub->count("--expect-contains") > 0;
    o_.check.has_expect_pattern = sub->count("--expect-pattern") > 0;
    run_ = [this](Console& c) { return RunCheck(o_.check, c); };
  });
}

void Builder::Record() {
  CLI::App* sub = Command(
      app_, "record",
      "Runs a build and keeps command, tools and digests of the outputs\n"
      "\n"
      "  twinpath record -- nvcc -gencode ... -o app app.cu\n"
      "  twinpath record --output app -o app.record.json -- make app\n"
      "\n"
      "The exit code of the build is passed on; a failed build leaves no\n"
      "record.");
  sub->add_option("-o,--record", o_.record.record_path,
                  "File to write (default record.json)");
  AddRepeated(sub, "--output", o_.record.outputs,
              "Output file of the build (default: found)");
  sub->callback([this] {
    run_ = [this](Console& c) {
      if (o_.record.argv.empty()) {
        c.Error("record: no build command");
        c.Hint("twinpath record -- nvcc -o app app.cu");
        return static_cast<int>(kExitUsage);
      }
      return RunRecord(o_.record, c);
    };
  });
}

void Builder::Doctor() {
  CLI::App* sub = Command(app_, "doctor",
                          "This host: driver, GPUs, toolkits, what is wrong\n"
                          "\n"
                          "  twinpath doctor\n"
                          "  twinpath doctor --format json > facts.json\n"
                          "\n"
                          "Exit: 1 where an error was found.");
  sub->callback([this] { run_ = [](Console& c) { return RunDoctor(c); }; });
}

void Builder::Explain() {
  CLI::App* sub = Command(
      app_, "explain",
      "What a reason code, CUDA error, error text or log means\n"
      "\n"
      "  twinpath explain TP204\n"
      "  twinpath explain 209\n"
      "  twinpath explain \"an illegal memory access was encountered\"\n"
      "  twinpath explain app.log\n"
      "  ./app 2>&1 | twinpath explain -");
  sub->add_option("WHAT", o_.explain, "Code, text, file, or -")->required();
  sub->callback([this] {
    run_ = [this](Console& c) { return RunExplain(o_.explain, c); };
  });
}

}  // namespace twinpath::cli
