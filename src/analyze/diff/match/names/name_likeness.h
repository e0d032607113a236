#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// How much the name of an operator in one implementation of a model sounds like one in another.
namespace ttap {

// The numbers of a name that count layers, experts and the like, the last ones only.
struct NameNumbers {
  uint32_t count = 0;  // of all
  uint64_t last = 0;
  uint64_t before_last = 0;
  bool operator==(const NameNumbers&) const = default;
};

// `layers.3.attn.w1` is the pattern `layers.#.attn.w1` and the number 3: what only counts is taken out of every part
// but the last, which loses its digits when it has nothing else, or when `numbered` says that names are told apart so
// (`mm_12`).
struct SplitName {
  std::string pattern;
  NameNumbers numbers;
};
SplitName split_name(std::string_view name, bool numbered);

// 1 when one name says what the other does, as in `layers.#.self_attn.q_proj` and `blocks.#.attn.wq`; 0 when nothing
// in them is alike. The last part weighs most, and only the last three count.
class NameWords {
 public:
  explicit NameWords(std::string_view pattern);
  friend double likeness(const NameWords& a, const NameWords& b);

 private:
  struct Word {
    std::string text;
    bool known;  // in the list of words: like itself only
  };
  static double likeness_of(const Word& a, const Word& b);
  static double likeness_of(const std::vector<Word>& a, const std::vector<Word>& b);
  std::vector<std::vector<Word>> parts_;  // the last first
};
double likeness(const NameWords& a, const NameWords& b);

// How alike two numbers are, 0 to 1; ½ when neither name has any.
double likeness(const NameNumbers& a, const NameNumbers& b);

}  // namespace ttap
