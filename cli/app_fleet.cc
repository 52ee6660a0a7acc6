// Commands that talk to the coordinator, and the one that starts it.

#include <string>

#include "cli/app_builder.h"

namespace twinpath::cli {

void Builder::Up() {
  CLI::App* sub =
      Command(app_, "up",
              "Starts coordinator and agent on this host, for trying it\n"
              "\n"
              "  twinpath up\n"
              "  twinpath up --simulate dgx-spark --simulate h200\n"
              "\n"
              "Loopback only. Ctrl-C stops everything; the state stays.");
  sub->add_option("--state", o_.up.state,
                  "State folder (default $XDG_STATE_HOME/twinpath)");
  sub->add_option("--listen", o_.up.listen,
                  "Address of the coordinator (default 127.0.0.1:7711; port "
                  "0: any)");
  sub->add_option("--ready-file", o_.up.ready_file,
                  "Written with the address when all are connected");
  AddRepeated(sub, "--simulate", o_.up.simulate,
              "Also an agent that simulates this profile");
  sub->add_flag("--no-host", o_.up.no_host, "No agent of this host itself");
  sub->callback(
      [this] { run_ = [this](Console& c) { return RunUp(o_.up, c); }; });
}

void Builder::Hosts() {
  CLI::App* sub = Command(app_, "hosts",
                          "Hosts the coordinator knows\n"
                          "\n"
                          "  twinpath hosts\n"
                          "  twinpath hosts --label site=lab\n"
                          "  twinpath hosts show spark-01");
  AddRepeated(sub, "--label", o_.hosts.labels, "Only hosts with key=value");
  CLI::App* show = Command(*sub, "show", "One host with its facts");
  show->add_option("HOST", o_.host, "Name or id")->required();
  sub->require_subcommand(0, 1);
  sub->callback([this, show] {
    o_.hosts.coordinator = o_.coordinator;
    const bool one = show->parsed();
    run_ = [this, one](Console& c) {
      return one ? RunHostsShow(o_.hosts, o_.host, c)
                 : RunHostsList(o_.hosts, c);
    };
  });
}

void Builder::Artifact() {
  CLI::App* sub = Command(app_, "artifact",
                          "Files under test at the coordinator\n"
                          "\n"
                          "  twinpath artifact push build/app lib/*.so\n"
                          "  twinpath artifact ls");
  sub->require_subcommand(1);
  CLI::App* push =
      Command(*sub, "push",
              "Uploads what is missing and registers the artifact\n"
              "\n"
              "  twinpath artifact push build/app libfoo.so\n"
              "  twinpath artifact push --root dist dist/bin dist/lib");
  push->add_option("FILE", o_.push.files, "Files and folders")->required();
  push->add_option("--name", o_.push.name,
                   "Name for people (default: the first file's)");
  push->add_option("--root", o_.push.root, "Folder that names are relative to");
  push->callback([this] {
    run_ = [this](Console& c) {
      o_.push.coordinator = o_.coordinator;
      return RunArtifactPush(o_.push, c);
    };
  });
  CLI::App* list = Command(*sub, "ls", "Artifacts, newest first");
  Limit(list);
  list->callback([this] {
    run_ = [this](Console& c) {
      return RunArtifactList(o_.coordinator, o_.limit, c);
    };
  });
}

void Builder::Limit(CLI::App* sub) {
  sub->add_option("--limit", o_.limit, "At most this many (default 100)")
      ->check(CLI::Range(1, 100000));
}

void Builder::Release() {
  CLI::App* sub = Command(
      app_, "release",
      "Signs what hosts may run\n"
      "\n"
      "  openssl genpkey -algorithm ed25519 -out release.key\n"
      "  openssl pkey -in release.key -pubout -out release.pem\n"
      "  twinpath release sign sweep.yaml --key release.key\n"
      "  twinpath sweep start sweep.yaml --signature sweep.yaml.dsse.json\n"
      "\n"
      "Each host trusts the public keys in its own\n"
      "/etc/twinpath/trusted-keys.d. Keep the private key off the "
      "coordinator.");
  sub->require_subcommand(1);
  CLI::App* sign =
      Command(*sub, "sign", "Signs the artifact and entries of a sweep file");
  sign->add_option("FILE", o_.release_sign.file, "Sweep file")->required();
  sign->add_option("--key", o_.release_sign.key,
                   "Private key (PEM; Ed25519 or ECDSA P-256)")
      ->required();
  sign->add_option("--out", o_.release_sign.out,
                   "Where the signature goes (default FILE.dsse.json)");
  sign->callback([this] {
    run_ = [this](Console& c) { return RunReleaseSign(o_.release_sign, c); };
  });
  CLI::App* verify =
      Command(*sub, "verify",
              "Checks a signature as a host does, but for the host's labels");
  verify->add_option("FILE", o_.release_verify.file, "Sweep file")->required();
  verify->add_option("--signature", o_.release_verify.signature, "Signature")
      ->required();
  verify
      ->add_option("--key", o_.release_verify.keys,
                   "Public key (PEM); may be repeated")
      ->required();
  verify->callback([this] {
    run_ = [this](Console& c) {
      return RunReleaseVerify(o_.release_verify, c);
    };
  });
}

void Builder::Sweep() {
  CLI::App* sub = Command(app_, "sweep",
                          "An artifact's entries on many hosts\n"
                          "\n"
                          "  twinpath sweep start sweep.yaml --watch\n"
                          "  twinpath sweep show 7f3a09c2\n"
                          "  twinpath sweep list");
  sub->require_subcommand(1);
  CLI::App* start = Command(
      *sub, "start",
      "Uploads the files and starts the sweep of a sweep file\n"
      "\n"
      "  twinpath sweep start sweep.yaml --watch\n"
      "  twinpath sweep start sweep.yaml --dry-run\n"
      "\n"
      "Prints the sweep's id. With --watch: the matrix at the end, and the\n"
      "exit code of the verdict.");
  start->add_option("FILE", o_.start.file, "Sweep file (docs/sweep-file.md)")
      ->required();
  start->add_option("--signature", o_.start.signature,
                    "Signature that 'twinpath release sign' made; hosts with "
                    "run units refuse what is not signed");
  start->add_flag("--watch", o_.start.watch, "Wait and show the result");
  start->add_flag("--dry-run", o_.start.dry_run,
                  "Only check the file and what it names");
  start->callback([this] {
    run_ = [this](Console& c) {
      o_.start.coordinator = o_.coordinator;
      return RunSweepStart(o_.start, c);
    };
  });
  const auto with_id =
      [this, sub](
          const std::string& name, const std::string& text,
          int (*function)(const std::string&, const std::string&, Console&)) {
        CLI::App* command = Command(*sub, name, text);
        command->add_option("ID", o_.sweep_id, "Sweep")->required();
        command->callback([this, function] {
          run_ = [this, function](Console& c) {
            return function(o_.coordinator, o_.sweep_id, c);
          };
        });
      };
  with_id("watch", "Waits for the end; exit code of the verdict",
          RunSweepWatch);
  with_id("show", "The sweep as it is now", RunSweepShow);
  with_id("cancel", "Ends a sweep early", RunSweepCancel);
  CLI::App* list = Command(*sub, "list", "Sweeps, newest first");
  Limit(list);
  list->callback([this] {
    run_ = [this](Console& c) {
      return RunSweepList(o_.coordinator, o_.limit, c);
    };
  });
}

void Builder::Gate() {
  CLI::App* sub = Command(
      app_, "gate",
      "The verdict of a sweep as an exit code\n"
      "\n"
      "  twinpath gate 7f3a09c2 && ./rollout\n"
      "  twinpath gate --wait 7f3a09c2\n"
      "\n"
      "Exit: 0 pass, 1 fail, 3 inconclusive or stale, 4 no host answered or\n"
      "the coordinator is not reachable. Never 0 without positive evidence\n"
      "from a real host.");
  sub->add_option("ID", o_.gate.id, "Sweep")->required();
  sub->add_flag("--wait", o_.gate.wait, "Wait for the sweep's end first");
  sub->add_option("--inconclusive", o_.gate.inconclusive,
                  "What inconclusive becomes: fail or pass-with-warning")
      ->check(CLI::IsMember({"fail", "pass-with-warning"}));
  sub->callback([this] {
    run_ = [this](Console& c) {
      o_.gate.coordinator = o_.coordinator;
      return RunGate(o_.gate, c);
    };
  });
}

}  // namespace twinpath::cli
