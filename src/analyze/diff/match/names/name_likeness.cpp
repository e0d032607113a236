#include "analyze/diff/match/names/name_likeness.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

namespace ttap {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
char lower_case(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// What the implementations of transformers call the same thing: the words that stand for it, then the whole parts of
// names, or the words in them, that mean it.
constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
    {"q", "q wq query"},
    {"k", "k wk key"},
    {"v", "v wv value"},
    {"o", "o wo out_proj out_lin to_out"},
    {"qkv", "qkv wqkv c_attn query_key_value in_proj"},
    {"attn", "attn attention mha sa"},
    {"rope", "rope rotary rotary_emb freqs_cis"},
    {"mlp", "mlp ffn ff feed_forward feedforward"},
    {"gate", "gate w1"},
    {"up", "up w3"},
    {"down", "down w2"},
    {"fc1", "fc1 lin1 c_fc dense_h_to_4h"},
    {"fc2", "fc2 lin2 dense_4h_to_h"},
    {"act", "act activation gelu silu relu"},
    {"norm", "norm ln layernorm layer_norm rmsnorm rms_norm"},
    {"norm first", "norm1 norm_1 ln1 ln_1 input_layernorm attention_norm attn_norm layernorm_before"},
    {"norm second", "norm2 norm_2 ln2 ln_2 post_attention_layernorm ffn_norm mlp_norm layernorm_after"},
    {"norm final", "norm_f ln_f final_norm final_layernorm"},
    {"embed", "embed embedding embeddings wte embed_tokens tok_embeddings word_embeddings token_embedding"},
    {"embed position", "wpe pos_embed position_embeddings"},
    {"head", "head lm_head output classifier"},
    {"layer", "layer layers block blocks h"},
    {"drop", "drop dropout"},
};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t end = text.find(at);
    if (const auto piece = text.substr(0, end); !piece.empty()) pieces.push_back(piece);
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

const std::unordered_map<std::string_view, std::string_view>& meanings() {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, std::string_view> by_name;
    for (const auto& [meaning, names] : kMeanings)
      for (std::string_view name : split(names, ' ')) by_name.emplace(name, meaning);
    return by_name;
  }();
  return kByName;
}

// Words that say nothing where another word stands beside them.
bool is_filler(std::string_view word) {
  constexpr std::string_view kFillers[] = {"proj", "projection", "linear", "lin", "fn", "self", "to", "module", "fc"};
  return std::ranges::find(kFillers, word) != std::end(kFillers);
}

// `SelfAttention`, `self-attention` and `aten::self_attention` end as `self_attention`.
std::string snake_case(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    const bool begins_word =
        is_upper(c) && i > 0 && (is_lower(part[i - 1]) || (i + 1 < part.size() && is_lower(part[i + 1])));
    const bool in_word = is_lower(c) || is_upper(c) || is_digit(c);
    if ((begins_word || !in_word) && !out.empty() && out.back() != '_') out += '_';
    if (in_word) out += lower_case(c);
  }
  while (out.ends_with('_')) out.pop_back();
  return out;
}

uint64_t number_of(std::string_view digits) {
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

bool only_counts(std::string_view part) {
  return std::ranges::all_of(part, [](char c) { return is_digit(c) || c == '#'; });
}

}  // namespace

SplitName split_name(std::string_view name, bool numbered) {
  SplitName out;
  const size_t last_dot = name.rfind('.');
  const size_t last_part = last_dot == std::string_view::npos ? 0 : last_dot + 1;
  const size_t last_word = name.find_last_not_of("0123456789");  // before the digits it ends with
  for (size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      out.pattern += name[i++];
      continue;
    }
    size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const bool ends_name = end == name.size();
    const bool whole_part = i == last_part && ends_name;
    const bool counter = numbered && ends_name && last_word != std::string_view::npos && name[last_word] == '_';
    if (i < last_part || whole_part || counter) {
      ++out.numbers.count;
      out.numbers.before_last = out.numbers.last;
      out.numbers.last = number_of(name.substr(i, end - i));
      out.pattern += '#';
    } else {
      out.pattern += name.substr(i, end - i);
    }
    i = end;
  }
  return out;
}

NameWords::NameWords(std::string_view pattern) {
  auto parts = split(pattern, '.');
  std::erase_if(parts, only_counts);
  for (auto part = parts.rbegin(); part != parts.rend() && parts_.size() < 3; ++part) {
    const std::string text = snake_case(*part);
    auto& words = parts_.emplace_back();
    const auto add = [&](std::string_view word) {
      const auto known = meanings().find(word);
      if (known == meanings().end()) {
        words.push_back({std::string(word), false});
        return;
      }
      for (std::string_view meant : split(known->second, ' ')) words.push_back({std::string(meant), true});
    };
    if (meanings().contains(text)) {
      add(text);
      continue;
    }
    const auto pieces = split(text, '_');
    const bool all_filler = std::ranges::all_of(pieces, is_filler);
    for (std::string_view piece : pieces)
      if (all_filler || !is_filler(piece)) add(piece);
  }
}

double NameWords::likeness_of(const Word& a, const Word& b) {
  if (a.text == b.text) return 1;
  if (a.known || b.known || a.text.size() < 3 || b.text.size() < 3) return 0;
  std::multiset<std::string_view> pairs;  // of letters
  for (size_t i = 0; i + 2 <= a.text.size(); ++i) pairs.insert(std::string_view(a.text).substr(i, 2));
  const size_t of_a = pairs.size();
  size_t shared = 0;
  for (size_t i = 0; i + 2 <= b.text.size(); ++i) {
    const auto found = pairs.find(std::string_view(b.text).substr(i, 2));
    if (found == pairs.end()) continue;
    pairs.erase(found);
    ++shared;
  }
  const double dice = 2.0 * static_cast<double>(shared) / static_cast<double>(of_a + b.text.size() - 1);
  return dice >= 0.5 ? 0.8 * dice : 0;
}

double NameWords::likeness_of(const std::vector<Word>& a, const std::vector<Word>& b) {
  if (a.empty() && b.empty()) return 0;
  std::vector<bool> used(b.size());
  double sum = 0;
  for (const Word& word : a) {
    double best = 0;
    size_t at = b.size();
    for (size_t i = 0; i < b.size(); ++i) {
      const double value = used[i] ? 0 : likeness_of(word, b[i]);
      if (value > best) best = value, at = i;
    }
    if (at < b.size()) used[at] = true;
    sum += best;
  }
  return 2 * sum / static_cast<double>(a.size() + b.size());
}

double likeness(const NameWords& a, const NameWords& b) {
  constexpr double kWeights[] = {0.6, 0.25, 0.15};
  constexpr double kPartMissing = 0.5;  // a model inside another has one part more in all its names
  double sum = 0, weights = 0;
  for (size_t i = 0; i < 3 && (i < a.parts_.size() || i < b.parts_.size()); ++i) {
    const bool both = i < a.parts_.size() && i < b.parts_.size();
    sum += kWeights[i] * (both ? NameWords::likeness_of(a.parts_[i], b.parts_[i]) : kPartMissing);
    weights += kWeights[i];
  }
  const bool comparable = !a.parts_.empty() && !b.parts_.empty();
  return comparable ? sum / weights : 0;
}

double likeness(const NameNumbers& a, const NameNumbers& b) {
  if (a.count == 0 && b.count == 0) return 0.5;
  if (a.count == 0 || b.count == 0) return 0.25;
  if (a.last != b.last) return 0;
  const bool both = a.count > 1 && b.count > 1;
  return !both || a.before_last == b.before_last ? 1 : 0;
}

}  // namespace ttap
