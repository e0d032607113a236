#include "report/text/json_reader.h"

#include <fmt/format.h>

#include <vector>

namespace ttap {
namespace {

constexpr int kDeepestJson = 64;
constexpr size_t kMostMembers = 4096;  // of one object: finding a place for each takes the time of all before it

}  // namespace

Result<Json> read_json(std::string_view text) {
  std::vector<size_t> members;  // of the objects that are open
  std::string problem;
  const auto bearable = [&](int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    if (depth > kDeepestJson) problem = fmt::format("JSON that is nested deeper than {} levels", kDeepestJson);
    if (event == Event::object_start) members.push_back(0);
    if (event == Event::object_end && !members.empty()) members.pop_back();
    if (event == Event::key && !members.empty() && ++members.back() > kMostMembers)
      problem = fmt::format("JSON with an object of more than {} members", kMostMembers);
    return problem.empty();
  };
  try {
    Json json = Json::parse(text, bearable);
    if (!problem.empty()) return Error{ErrorCode::kTooLarge, problem};
    return json;
  } catch (const Json::parse_error& error) {
    return Error{.code = ErrorCode::kCorrupt, .message = "not JSON", .offset = error.byte};
  } catch (const Json::exception&) {  // a number beyond all bounds
    return Error{ErrorCode::kCorrupt, "JSON with a number that is too large"};
  }
}

}  // namespace ttap
