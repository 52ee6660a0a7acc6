// twinpath tables check, show.

#include "compat/tables.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_code.h"
#include "base/reason.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/matrix.h"
#include "cli/table.h"
#include "compat/table_check.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::cli {
namespace {

v1::Severity SeverityOf(ReasonSeverity severity) {
  switch (severity) {
    case ReasonSeverity::kNote:
      return v1::SEVERITY_NOTE;
    case ReasonSeverity::kWarning:
      return v1::SEVERITY_WARNING;
    case ReasonSeverity::kError:
      return v1::SEVERITY_ERROR;
  }
  return v1::SEVERITY_ERROR;
}

Style StyleOf(ReasonSeverity severity) {
  return severity == ReasonSeverity::kError     ? Style::kBad
         : severity == ReasonSeverity::kWarning ? Style::kWarn
                                                : Style::kDim;
}

// "9.0" of 90, "12.1" of 121.
std::string Capability(uint32_t number) {
  return number == 0 ? "" : absl::StrCat(number / 10, ".", number % 10);
}

std::string OrNothing(const std::optional<compat::TwoPart>& version) {
  return version ? version->ToString() : "";
}

// One table as columns and rows.
struct Sheet {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

Sheet Gpus(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"capability", "architecture", "platform",    "ptx_isa_min",
                   "suffixes",   "toolkits",     "driver_last", "products"};
  for (const compat::GpuRow& gpu : tables.gpus()) {
    sheet.rows.push_back(
        {Capability(gpu.number), gpu.architecture,
         gpu.platform == compat::GpuPlatform::kTegra ? "tegra"
         : gpu.platform == compat::GpuPlatform::kIntegratedServer
             ? "integrated-server"
             : "discrete",
         gpu.ptx_isa_min.ToString(),
         absl::StrCat(gpu.has_arch_suffix ? "a" : "",
                      gpu.has_family_suffix ? "f" : ""),
         absl::StrCat(OrNothing(gpu.toolkit_first), "-",
                      OrNothing(gpu.toolkit_last)),
         gpu.driver_last ? absl::StrCat(*gpu.driver_last) : "",
         gpu.renamed_to != 0 ? absl::StrCat("now ", Capability(gpu.renamed_to))
                             : absl::StrJoin(gpu.products, ", ")});
  }
  return sheet;
}

Sheet Drivers(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"branch", "cuda", "ptx_isa", "kind", "end_of_life"};
  for (const compat::DriverRow& driver : tables.drivers()) {
    sheet.rows.push_back({absl::StrCat(driver.branch), driver.cuda.ToString(),
                          driver.ptx_isa.ToString(), driver.kind,
                          driver.end_of_life});
  }
  return sheet;
}

Sheet Toolkits(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"release",         "cuda",           "ptx_isa",
                   "packaged_driver", "minimum_driver", "targets"};
  for (const compat::ToolkitRow& toolkit : tables.toolkits()) {
    std::vector<std::string> targets;
    for (const v1::Target& target : toolkit.targets) {
      targets.push_back(absl::StrCat(
          target.number(), target.suffix() == v1::TARGET_SUFFIX_ARCH     ? "a"
                           : target.suffix() == v1::TARGET_SUFFIX_FAMILY ? "f"
                                                                         : ""));
    }
    sheet.rows.push_back({toolkit.release, toolkit.cuda.ToString(),
                          toolkit.ptx_isa.ToString(), toolkit.packaged_driver,
                          toolkit.minimum_driver, absl::StrJoin(targets, " ")});
  }
  return sheet;
}

Sheet Errors(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"code", "runtime", "driver", "text", "reason"};
  for (const compat::ErrorRow& error : tables.errors()) {
    sheet.rows.push_back({absl::StrCat(error.code), error.runtime_name,
                          error.driver_name, error.text,
                          error.reason.empty() ? "TP311" : error.reason});
  }
  return sheet;
}

Sheet Statuses(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"library", "code", "name", "kind", "reason", "meaning"};
  for (const compat::StatusRow& status : tables.statuses()) {
    sheet.rows.push_back({status.library, absl::StrCat(status.code),
                          status.name, status.kind, status.reason,
                          status.meaning});
  }
  return sheet;
}

Sheet Messages(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"tool", "effect", "reason", "text", "meaning"};
  for (const compat::MessageRow& message : tables.messages()) {
    sheet.rows.push_back({message.tool,
                          std::string(compat::EffectName(message.effect)),
                          message.reason, message.text, message.meaning});
  }
  return sheet;
}

Sheet Xids(const compat::Tables& tables) {
  Sheet sheet;
  sheet.columns = {"xid", "origin", "meaning", "action"};
  for (const compat::XidRow& xid : tables.xids()) {
    sheet.rows.push_back({absl::StrCat(xid.xid),
                          std::string(compat::OriginName(xid.origin)),
                          xid.meaning, xid.action});
  }
  return sheet;
}

Sheet SheetOf(const std::string& table, const compat::Tables& tables) {
  if (table == "gpus") return Gpus(tables);
  if (table == "drivers") return Drivers(tables);
  if (table == "toolkits") return Toolkits(tables);
  if (table == "errors") return Errors(tables);
  if (table == "statuses") return Statuses(tables);
  if (table == "messages") return Messages(tables);
  return Xids(tables);
}

}  // namespace

int RunTablesCheck(const std::string& folder, Console& console) {
  absl::StatusOr<compat::Tables> loaded = absl::UnknownError("");
  const compat::Tables* tables = nullptr;
  absl::Status status;
  if (folder.empty()) {
    absl::StatusOr<const compat::Tables*> installed = compat::Tables::Default();
    status = installed.status();
    if (installed.ok()) tables = *installed;
  } else {
    loaded = compat::Tables::Load(folder);
    status = loaded.status();
    if (loaded.ok()) tables = &*loaded;
  }
  if (tables == nullptr) {
    // A mistake in a file is what the check looks for; a folder that is not
    // there is one of the caller.
    const int code = console.Fail(status);
    return status.code() == absl::StatusCode::kInvalidArgument ? kExitFail
                                                               : code;
  }
  const std::vector<compat::TableFinding> findings =
      compat::CheckTables(*tables);
  bool failed = false;
  v1::TablesCheckOutput output;
  output.set_version(tables->version());
  output.set_sources(tables->sources().size());
  for (const auto& [name, rows] : compat::CountRows(*tables)) {
    v1::TableCount& count = *output.add_counts();
    count.set_table(name);
    count.set_rows(rows);
  }
  for (const compat::TableFinding& finding : findings) {
    failed = failed || finding.severity == ReasonSeverity::kError;
    v1::TableNote& note = *output.add_notes();
    note.set_severity(SeverityOf(finding.severity));
    note.set_place(Printable(finding.place));
    note.set_text(Printable(finding.text));
  }
  if (console.json()) {
    console.PrintJson(output);
    return failed ? kExitFail : kExitPass;
  }
  Table table({"TABLE", "ROWS"});
  for (const v1::TableCount& count : output.counts()) {
    table.AddRow({count.table(), absl::StrCat(count.rows())});
  }
  console.Print(table.Render(console.width(), console.color()));
  console.Print(absl::StrCat(
      "\nversion ", tables->version(), ", ", output.sources(), " sources, ",
      tables->rows_without_address().size(), " rows without a public one\n"));
  for (const compat::TableFinding& finding : findings) {
    console.Print(absl::StrCat(
        Paint(std::string(SeverityName(finding.severity)),
              StyleOf(finding.severity), console.color()),
        ": ", Printable(finding.place), ": ", Printable(finding.text), "\n"));
  }
  return failed ? kExitFail : kExitPass;
}

int RunTablesShow(const std::string& table, Console& console) {
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  if (!tables.ok()) return console.Fail(tables.status());
  const Sheet sheet = SheetOf(table, **tables);
  if (console.json()) {
    v1::TablesShowOutput output;
    output.set_table(table);
    for (const std::vector<std::string>& row : sheet.rows) {
      v1::TableRow& out = *output.add_rows();
      for (size_t i = 0; i < row.size(); ++i) {
        v1::TableField& field = *out.add_fields();
        field.set_name(sheet.columns[i]);
        field.set_value(Printable(row[i]));
      }
    }
    console.PrintJson(output);
    return kExitPass;
  }
  std::vector<std::string> headers;
  for (const std::string& column : sheet.columns) {
    headers.push_back(absl::AsciiStrToUpper(column));
  }
  Table view(headers);
  for (const std::vector<std::string>& row : sheet.rows) {
    view.AddRow(std::vector<TableCell>(row.begin(), row.end()));
  }
  console.Print(view.Render(console.width(), console.color()));
  return kExitPass;
}

}  // namespace twinpath::cli
