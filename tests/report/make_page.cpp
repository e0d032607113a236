// make_page PATH TITLE <report.json: the page of a report, for the tests that open it in a browser.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "report/diff/diff_page.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: make_page PATH TITLE <report.json\n", stderr);
    return 2;
  }
  const std::string report(std::istreambuf_iterator<char>(std::cin), {});
  const ttap::Status status = ttap::write_page(report, argv[2], argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().describe().c_str());
  return status.error().code == ttap::ErrorCode::kUnsupported ? 3 : 1;
}
