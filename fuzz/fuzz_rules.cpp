#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/align.h"
#include "analyze/diff/ranks/placements.h"
#include "analyze/diff/ranks/shards.h"
#include "analyze/diff/sides/pass_pairs.h"

// Everything a person or another program writes down for a diff: the first byte says what it is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttap;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0:
      if (const auto map = NameMap::parse(text, "map.yaml"); map.ok()) {
        (void)map->apply("model.layers.0.mlp@in/0");
        for (const NameMap::Operation& operation : map->operations()) {
          (void)operation.rule.keys_for("model.layers.0.mlp@in/0");
          (void)operation.rule.steps_for({2, 3, 8}, {});
        }
      }
      break;
    case 1:
      if (const auto rules = ShardRules::parse(text, "shards.yaml"); rules.ok())
        (void)rules->find("model.layers.0.mlp");
      break;
    case 2: (void)read_placements(text, 0); break;
    case 3:
      if (const auto predicate = Predicate::parse(text); predicate.ok()) (void)predicate->holds({});
      break;
    case 4:
      if (const auto rules = Tolerances::create({.rules = {text}}); rules.ok())
        (void)rules->judge("model.layers.0.mlp", DType::kBF16, 1);
      break;
    case 5:
      if (const auto pairs = NumberPairs::parse(text, "--pass"); pairs.ok()) (void)pairs->partners_of(3);
      break;
  }
  return 0;
}
