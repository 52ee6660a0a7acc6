// How output for people is laid out.

#ifndef TWINPATH_CLI_VIEW_OPTIONS_H_
#define TWINPATH_CLI_VIEW_OPTIONS_H_

namespace twinpath::cli {

struct ViewOptions {
  int width = 120;
  bool color = false;
  // Every line of a verdict's statement, however many.
  bool whole_statement = false;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_VIEW_OPTIONS_H_
