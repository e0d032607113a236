#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/diff/ranks/shards.h"
#include "sample_run.h"
#include "scratch.h"

// Ranks with known contents, put together.
namespace ttap::test {

using Ranks = std::vector<uint32_t>;

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not contain '" << part << "'";
}

// A pass as it is; `hides_hashes`: as if it came from a file that has none.
class PassSide final : public Side {
 public:
  PassSide(Pass pass, bool hides_hashes, ModulesByName modules)
      : pass_(std::move(pass)), hides_hashes_(hides_hashes), modules_(std::move(modules)) {}
  const ModuleFacts* module(std::string_view name) const override {
    const auto found = modules_.find(name);
    return found == modules_.end() ? nullptr : &found->second;
  }
  size_t tensor_count() const override { return pass_.tensor_count(); }
  TensorRecord tensor(size_t index) const override {
    TensorRecord record = pass_.tensor(index);
    if (hides_hashes_) record.has_fingerprint = false;
    return record;
  }
  size_t event_count() const override { return pass_.event_count(); }
  EventRecord event(size_t index) const override { return pass_.event(index); }
  Result<SideBytes> read(size_t index) const override {
    TTAP_ASSIGN(const TensorView view, pass_.read(index));
    return SideBytes{.view = view};
  }
  const PassInfo& info() const override { return pass_.info(); }
  std::string place() const override { return "test"; }

 private:
  Pass pass_;
  bool hides_hashes_;
  ModulesByName modules_;
};

template <class T>
std::vector<T> values_of(const Result<SideBytes>& bytes) {
  EXPECT_TRUE(bytes.ok()) << bytes.error().describe();
  if (!bytes.ok()) return {};
  std::vector<T> values(element_count(bytes.value().view));
  if (!values.empty()) std::memcpy(values.data(), bytes.value().view.data, values.size() * sizeof(T));
  return values;
}

inline std::vector<int64_t> shape_of(const Side& side, size_t index) {
  const auto shape = side.tensor(index).shape;
  return {shape.begin(), shape.end()};
}

inline std::vector<std::string> keys_of(const Side& side) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < side.tensor_count(); ++i) keys.push_back(to_string(side.tensor(i).key()));
  return keys;
}

// A test that makes ranks and joins them.
class Shards : public testing::Test {
 protected:
  using Fill = std::function<void(SamplePass&)>;

  // What one rank recorded.
  void rank(uint32_t number, const Fill& fill, std::string placements_json = {}) {
    parts_.push_back({side(fill), number, std::move(placements_json)});
  }
  std::unique_ptr<Side> side(const Fill& fill) {
    SamplePass pass(scratch_ / std::to_string(folders_++), 3);
    fill(pass);
    auto opened = Pass::open(pass.finish());
    TTAP_CHECK(opened.ok());
    return std::make_unique<PassSide>(std::move(opened).value(), hides_hashes_, modules_);
  }
  std::unique_ptr<Side> join(const char* rules = nullptr, const Side* reference = nullptr) {
    if (rules == nullptr) return join_ranks(std::move(parts_), nullptr, reference);
    auto parsed = ShardRules::parse(rules, "rules.yaml");
    TTAP_CHECK(parsed.ok());
    rules_.emplace(std::move(parsed).value());
    return join_ranks(std::move(parts_), &*rules_, reference);
  }
  // Two or more ranks with a tensor `x` of this shape each.
  void ranks(const std::vector<int64_t>& shape, const std::vector<std::vector<float>>& values) {
    for (uint32_t number = 0; number < values.size(); ++number)
      rank(number, [&](SamplePass& pass) { pass.tensor<float>("x", shape, values[number]); });
  }

  bool hides_hashes_ = false;
  ModulesByName modules_;  // what every rank says of its modules
  std::optional<ShardRules> rules_;

 private:
  ScratchDirectory scratch_;
  int folders_ = 0;
  std::vector<RankPart> parts_;
};

}  // namespace ttap::test
