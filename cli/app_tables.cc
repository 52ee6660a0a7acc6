// twinpath tables: the compatibility tables, looked at and checked.

#include <string>

#include "cli/app_builder.h"

namespace twinpath::cli {

void Builder::Tables() {
  CLI::App* tables = Command(
      app_, "tables",
      "The tables that predictions and diagnoses rest on\n"
      "\n"
      "  twinpath tables check\n"
      "  twinpath tables check /etc/twinpath/tables\n"
      "  twinpath tables show drivers\n"
      "\n"
      "TWINPATH_TABLES names a folder that replaces the installed one.");
  tables->require_subcommand(1);

  CLI::App* check = Command(
      *tables, "check",
      "Reads a folder with tables and looks for contradictions\n"
      "\n"
      "  twinpath tables check\n"
      "  twinpath tables check compat/tables\n"
      "\n"
      "Exit: 0 nothing or notes and warnings, 1 a mistake or a contradiction,\n"
      "2 no such folder.");
  check->add_option("FOLDER", o_.tables_folder,
                    "Folder (default: the one in use)");
  check->callback([this] {
    run_ = [this](Console& c) { return RunTablesCheck(o_.tables_folder, c); };
  });

  CLI::App* show = Command(*tables, "show",
                           "Prints one table\n"
                           "\n"
                           "  twinpath tables show gpus\n"
                           "  twinpath tables show errors --format json");
  show->add_option("TABLE", o_.table,
                   "gpus, drivers, toolkits, errors, statuses, messages, xids")
      ->required()
      ->check(CLI::IsMember({"gpus", "drivers", "toolkits", "errors",
                             "statuses", "messages", "xids"}));
  show->callback([this] {
    run_ = [this](Console& c) { return RunTablesShow(o_.table, c); };
  });
}

}  // namespace twinpath::cli
