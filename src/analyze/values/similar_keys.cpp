#include "analyze/values/similar_keys.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ttap {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

// Nobody mistypes more of a key, and to compare longer ones with each of 100,000 takes minutes.
constexpr size_t kMostMistakes = 40;
constexpr size_t kLongestMistyped = 1000;

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit) return limit + 1;
  std::vector<size_t> row(a.size() + 1);  // distances of every prefix of a to the prefix of b so far
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t j = 1; j <= b.size(); ++j) {
    // Cells farther than the limit from the diagonal are beyond the limit, whatever they hold.
    const size_t first = j > limit ? j - limit : 1;
    const size_t last = std::min(a.size(), j + limit);
    size_t diagonal = row[first - 1];
    size_t smallest = row[first - 1] = first == 1 ? j : limit + 1;
    if (last == j + limit) row[last] = limit + 1;
    for (size_t i = first; i <= last; ++i) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[i];
      row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
      smallest = std::min(smallest, row[i]);
    }
    if (smallest > limit) return limit + 1;
  }
  return std::min(row.back(), limit + 1);
}

std::vector<std::string> similar_keys(const Pass& pass, std::string_view text, size_t limit) {
  // Rank 0 contains the text; a higher rank is a distance. Then shorter before longer, then execution order.
  using Entry = std::tuple<size_t, size_t, size_t>;
  const std::string wanted = lower(text);
  size_t worst_useful = std::clamp<size_t>(wanted.size() / 3, 2, kMostMistakes);
  if (wanted.size() > kLongestMistyped) worst_useful = 0;
  std::vector<Entry> best;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const std::string key = lower(to_string(pass.tensor(i).key()));
    const size_t distance = key.find(wanted) != std::string::npos ? 0 : edit_distance(key, wanted, worst_useful);
    if (distance > worst_useful) continue;
    const Entry entry{distance, key.size(), i};
    best.insert(std::ranges::upper_bound(best, entry), entry);
    if (best.size() <= limit) continue;
    best.pop_back();
    worst_useful = std::get<0>(best.back());
  }
  std::vector<std::string> keys;
  keys.reserve(best.size());
  for (const Entry& entry : best) keys.push_back(to_string(pass.tensor(std::get<2>(entry)).key()));
  return keys;
}

}  // namespace ttap
