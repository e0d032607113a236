#include "analyze/diff/tokens/token_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/element.h"
#include "core/json.h"

namespace ttap {
namespace {

// A small tensor of integers.
struct Integers {
  std::vector<int64_t> shape = {};
  std::vector<int64_t> values = {};
};
using IntegersByPath = std::map<std::string, Integers, std::less<>>;

Error senseless(const Side& side, std::string_view why) {
  return {.code = ErrorCode::kCorrupt,
          .message = fmt::format("the batch of {} makes no sense: {}", side.place(), why),
          .path = side.info().path,
          .hint = "--by-pass compares pass by pass, without it"};
}

Result<std::vector<double>> read_numbers(const Side& side, uint32_t index) {
  TTAP_ASSIGN(const SideBytes bytes, side.read(index));
  const TensorView& view = bytes.view;
  if (!is_contiguous(view)) return senseless(side, "a tensor of it has strides");
  std::vector<double> found(element_count(view));
  const auto* data = static_cast<const std::byte*>(view.data);
  for (uint64_t i = 0; i < found.size(); ++i) found[i] = value_of(view.dtype, data + i * size_of(view.dtype));
  return found;
}

Result<Integers> read_integers(const Side& side, uint32_t index) {
  TTAP_ASSIGN(const std::vector<double> numbers, read_numbers(side, index));
  const TensorRecord record = side.tensor(index);
  Integers found{.shape = {record.shape.begin(), record.shape.end()}};
  found.values.assign(numbers.begin(), numbers.end());
  return found;
}

// Rows of requests one after the other: [ΣT].
Status read_packed(const Side& side, const IntegersByPath& tensors, PassRows& pass) {
  const auto start = tensors.find("/query_start"), positions = tensors.find("/positions");
  if (positions == tensors.end()) return senseless(side, "it has no positions");
  const auto tokens = tensors.find("/token_ids");
  const auto& begins = start->second.values;
  const auto& at = positions->second.values;
  if (begins.size() != pass.requests.size() + 1)
    return senseless(side,
                     fmt::format("{} requests, and {} places where they begin", pass.requests.size(), begins.size()));
  if (begins.front() != 0 || !std::ranges::is_sorted(begins) || begins.back() > static_cast<int64_t>(at.size()))
    return senseless(side, "requests do not begin in their order, or there are fewer positions than rows");
  if (tokens != tensors.end() && tokens->second.values.size() < static_cast<size_t>(begins.back()))
    return senseless(side, "there are fewer tokens than rows");
  pass.rows.resize(at.size());
  for (uint32_t request = 0; request < pass.requests.size(); ++request) {
    for (auto row = static_cast<size_t>(begins[request]); row < static_cast<size_t>(begins[request + 1]); ++row)
      pass.rows[row] = {request, at[row], tokens != tensors.end() ? tokens->second.values[row] : 0};
    if (begins[request + 1] > begins[request]) pass.logits.push_back(static_cast<uint32_t>(begins[request + 1] - 1));
  }
  if (const auto given = tensors.find("/logits_rows"); given != tensors.end()) {
    pass.logits.clear();
    for (const int64_t row : given->second.values) {
      if (row < 0 || row >= begins.back()) return senseless(side, "a row that is not there has logits");
      pass.logits.push_back(static_cast<uint32_t>(row));
    }
  }
  return {};
}

// A row for each request: [B, T].
Status read_grid(const Side& side, const IntegersByPath& tensors, int64_t cache_length, PassRows& pass) {
  const auto found = tensors.find("/token_ids");
  if (found == tensors.end() || found->second.shape.size() != 2) return senseless(side, "it has no tokens");
  const Integers& tokens = found->second;
  const auto requests = static_cast<size_t>(tokens.shape[0]), length = static_cast<size_t>(tokens.shape[1]);
  if (requests != pass.requests.size())
    return senseless(side, fmt::format("{} requests, and tokens of {}", pass.requests.size(), requests));
  const auto matrix = [&](std::string_view path) -> const Integers* {
    const auto at = tensors.find(path);
    return at != tensors.end() && at->second.shape.size() == 2 && !at->second.values.empty() ? &at->second : nullptr;
  };
  const Integers *positions = matrix("/positions"), *mask = matrix("/attention_mask");
  if (positions != nullptr && static_cast<size_t>(positions->shape[1]) != length) positions = nullptr;
  if (mask != nullptr &&
      (static_cast<size_t>(mask->shape[1]) < length || static_cast<size_t>(mask->shape[0]) != requests))
    mask = nullptr;
  pass.length = static_cast<uint32_t>(length);
  pass.rows.resize(requests * length);
  for (size_t request = 0; request < requests; ++request) {
    std::optional<uint32_t> last;
    for (size_t t = 0; t < length; ++t) {
      const auto row = static_cast<uint32_t>(request * length + t);
      // The mask also has the columns of what is in the cache, before these.
      if (mask != nullptr) {
        const auto columns = static_cast<size_t>(mask->shape[1]);
        if (mask->values[request * columns + columns - length + t] == 0) continue;
      }
      const int64_t position = positions == nullptr
                                   ? cache_length + static_cast<int64_t>(t)
                                   : positions->values[(positions->shape[0] == 1 ? 0 : request) * length + t];
      pass.rows[row] = {static_cast<uint32_t>(request), position, tokens.values[row]};
      last = row;
    }
    if (last) pass.logits.push_back(*last);
  }
  return {};
}

}  // namespace

uint32_t PassRows::live_rows() const {
  size_t count = rows.size();
  while (count > 0 && rows[count - 1].request == kNoRequest) --count;
  return static_cast<uint32_t>(count);
}

Result<std::optional<PassRows>> read_rows(const Side& side, std::string_view kind) {
  uint32_t batch = 0;
  while (batch < side.event_count() && side.event(batch).kind != kind) ++batch;
  if (batch == side.event_count()) return std::optional<PassRows>();
  PassRows pass;
  const Json notes = parse_json(side.event(batch).notes, 100);
  int64_t cache_length = 0;
  if (notes.is_object()) {
    pass.dummy = notes.value("dummy", false);
    pass.weights = notes.value("weights", false);
    if (const auto ids = notes.find("request_ids"); ids != notes.end() && ids->is_array())
      for (const Json& id : *ids) pass.requests.push_back(id.is_string() ? id.get<std::string>() : json_text(id));
    if (const auto length = notes.find("cache_length"); length != notes.end() && length->is_number_integer())
      cache_length = length->get<int64_t>();
  }
  if (pass.dummy || pass.weights) return std::optional(std::move(pass));
  IntegersByPath tensors;
  for (uint32_t i = 0; i < side.tensor_count(); ++i) {
    const TensorRecord record = side.tensor(i);
    if (record.event != batch || !record.has_bytes) continue;
    if (record.path == "/logprobs") {
      TTAP_ASSIGN(pass.logprobs, read_numbers(side, i));
      continue;
    }
    TTAP_ASSIGN(tensors[std::string(record.path)], read_integers(side, i));
  }
  if (const auto length = tensors.find("/cache_length"); length != tensors.end() && length->second.values.size() == 1)
    cache_length = length->second.values.front();
  if (tensors.contains("/query_start")) {
    TTAP_TRY(read_packed(side, tensors, pass));
  } else {
    TTAP_TRY(read_grid(side, tensors, cache_length, pass));
  }
  if (kind == kLogprobsEvent && pass.logprobs.size() != pass.rows.size())
    return senseless(side, "there is not one log-probability for each token");
  return std::optional(std::move(pass));
}

bool same_rows(const PassRows& a, const PassRows& b) {
  return a.dummy == b.dummy && a.rows == b.rows && a.length == b.length && a.logits == b.logits;
}

}  // namespace ttap
