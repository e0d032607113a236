#include <gtest/gtest.h>

#include "analyze/diff/tokens/row_layout.h"
#include "analyze/diff/tokens/token_pairs.h"

namespace ttap {
namespace {

// Packed rows: for each request its name, the first position and its tokens.
struct Piece {
  std::string request;
  int64_t position;
  std::vector<int64_t> tokens;
};
PassRows packed(const std::vector<Piece>& pieces, size_t padding = 0) {
  PassRows pass;
  for (const Piece& piece : pieces) {
    const auto request = static_cast<uint32_t>(pass.requests.size());
    pass.requests.push_back(piece.request);
    for (size_t i = 0; i < piece.tokens.size(); ++i)
      pass.rows.push_back({request, piece.position + static_cast<int64_t>(i), piece.tokens[i]});
    pass.logits.push_back(static_cast<uint32_t>(pass.rows.size() - 1));
  }
  pass.rows.resize(pass.rows.size() + padding);
  return pass;
}

PassRows grid(uint32_t requests, uint32_t length) {
  PassRows pass{.length = length};
  for (uint32_t request = 0; request < requests; ++request) {
    pass.requests.push_back(std::to_string(request));
    for (uint32_t t = 0; t < length; ++t) pass.rows.push_back({request, t, 10 * request + t});
    pass.logits.push_back((request + 1) * length - 1);
  }
  return pass;
}

std::vector<RowForm> forms(const PassRows& pass, const std::vector<int64_t>& shape) {
  std::vector<RowForm> found;
  for (const RowLayout& layout : row_layouts(pass, shape)) found.push_back(layout.form);
  return found;
}

std::vector<std::pair<uint32_t, uint32_t>> places(const std::vector<TokenPlace>& of) {
  std::vector<std::pair<uint32_t, uint32_t>> found;
  for (const TokenPlace& place : of) found.emplace_back(place.pass, place.row);
  return found;
}

TEST(RowLayout, FindsTheRowsOfPackedTensors) {
  const PassRows pass = packed({{"a", 0, {1, 2, 3}}, {"b", 0, {4, 5}}}, 3);
  EXPECT_EQ(forms(pass, {8, 16}), std::vector{RowForm::kRows});     // with padding
  EXPECT_EQ(forms(pass, {5, 16}), std::vector{RowForm::kRows});     // without
  EXPECT_EQ(forms(pass, {1, 5, 16}), std::vector{RowForm::kRows});  // as a batch of one
  EXPECT_EQ(forms(pass, {2, 100}), std::vector{RowForm::kLogits});
  EXPECT_TRUE(forms(pass, {16, 16}).empty());
  EXPECT_TRUE(forms(pass, {}).empty());
}

TEST(RowLayout, FindsTheRowsOfTensorsByRequest) {
  const PassRows pass = grid(2, 3);
  EXPECT_EQ(forms(pass, {2, 3, 16}), std::vector{RowForm::kRows});
  EXPECT_EQ(forms(pass, {6, 16}), std::vector{RowForm::kRows});
  EXPECT_EQ(forms(pass, {2, 4, 3, 8}), std::vector{RowForm::kHeads});
  EXPECT_EQ(forms(pass, {1, 3, 8}), std::vector{RowForm::kShared});
  EXPECT_EQ(forms(pass, {2, 1, 100}), std::vector{RowForm::kLogits});
}

TEST(RowLayout, ARowOfHeadsIsTakenFromEach) {
  const RowLayout layout = row_layouts(grid(2, 3), std::vector<int64_t>{2, 4, 3, 8}).front();
  EXPECT_EQ(layout.width(), 32U);
  EXPECT_EQ(layout.blocks, 4U);
  EXPECT_EQ(layout.begin(4), 1U * 4 * 3 * 8 + 1 * 8);  // the second token of the second request
  EXPECT_EQ(layout.stride, 24U);
}

TEST(RowLayout, TheLastRowOfAPaddedRequestIsNotThatOfItsLogits) {
  PassRows pass = grid(2, 3);
  pass.rows[2] = {};  // the first request is shorter, and padded on the right
  pass.logits[0] = 1;
  EXPECT_TRUE(forms(pass, {2, 1, 100}).empty());
}

TEST(TokenPairs, RequestsAreTheSameByTheirTokens) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3}}}), packed({{"y", 0, {7, 8}}})};
  const std::vector<PassRows> b = {packed({{"0", 0, {7, 8}}, {"1", 0, {1, 2, 3}}})};
  const TokenPairs pairs = pair_tokens(a, b);
  EXPECT_EQ(pairs.requests, 2U);
  EXPECT_EQ(places(pairs.a), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}));
  EXPECT_EQ(places(pairs.b), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {0, 3}, {0, 4}, {0, 0}, {0, 1}}));
  EXPECT_TRUE(pairs.notes.empty());
}

TEST(TokenPairs, AChunkedPrefillAndDecodeStepsAreOneRequest) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3, 4}}})};
  const std::vector<PassRows> b = {packed({{"0", 0, {1, 2}}}), packed({{"0", 2, {3}}}), packed({{"0", 3, {4}}})};
  EXPECT_EQ(places(pair_tokens(a, b).b), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {1, 0}, {2, 0}}));
}

TEST(TokenPairs, WhatIsInACacheIsNotCompared) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3, 4}}})};
  const std::vector<PassRows> b = {packed({{"0", 2, {3, 4}}})};
  const TokenPairs pairs = pair_tokens(a, b);
  EXPECT_EQ(places(pairs.a), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {0, 3}}));
  EXPECT_EQ(pairs.only_a, 2U);
}

TEST(TokenPairs, NothingIsComparedWhereTextsHaveParted) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3, 4}}})};
  const std::vector<PassRows> b = {packed({{"0", 0, {1, 2, 9, 4}}})};
  const TokenPairs pairs = pair_tokens(a, b);
  EXPECT_EQ(pairs.a.size(), 2U);
  ASSERT_EQ(pairs.notes.size(), 1U);
  EXPECT_EQ(pairs.notes[0], "request x: A's token 2 is 3, B's is 9; nothing from there on is compared");
}

TEST(TokenPairs, ARejectedTokenCountsAsItWasComputedLast) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3}}})};
  const std::vector<PassRows> b = {packed({{"0", 0, {1, 2, 8}}}), packed({{"0", 2, {3}}})};
  EXPECT_EQ(places(pair_tokens(a, b).b), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {1, 0}}));
}

TEST(TokenPairs, SaysWhichRequestHasNoCounterpart) {
  const TokenPairs pairs = pair_tokens(std::vector{packed({{"x", 0, {1}}})}, std::vector{packed({{"0", 0, {2}}})});
  EXPECT_TRUE(pairs.a.empty());
  EXPECT_EQ(pairs.notes, (std::vector<std::string>{"request x of A has no counterpart in B",
                                                   "request 0 of B has no counterpart in A"}));
}

TEST(TokenPairs, TakesOnlyTheRequestsAndPositionsThatAreWanted) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3}}, {"y", 0, {4, 5}}})};
  const std::vector<PassRows> b = {packed({{"p", 0, {4, 5}}, {"q", 0, {1, 2, 3}}})};
  const TokenPairs pairs = pair_tokens(a, b, {.last_positions = {{"x", 1}}});
  EXPECT_EQ(pairs.requests, 1u);
  EXPECT_EQ(places(pairs.a), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}}));
  EXPECT_EQ(places(pairs.b), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {0, 3}}));
  EXPECT_TRUE(pairs.notes.empty());
}

TEST(TokenPairs, TellsOfTokensThatOneSideSkipped) {
  const std::vector<PassRows> a = {packed({{"x", 0, {1, 2, 3}}}), packed({{"x", 3, {4, 5}}})};
  const std::vector<PassRows> b = {packed({{"y", 0, {1, 2, 3}}}), packed({{"y", 4, {5}}})};
  const TokenPairs pairs = pair_tokens(a, b, {.whole_a = true, .whole_b = true});
  EXPECT_EQ(pairs.gaps, 1u);
  ASSERT_EQ(pairs.notes.size(), 1u);
  EXPECT_EQ(pairs.notes.front(),
            "request x: B did not compute token 3, between others that it did; are its positions right?");
  EXPECT_EQ(pair_tokens(a, b).gaps, 0u);  // not all steps were recorded
  // What a prefix cache has is no gap.
  const std::vector<PassRows> cached = {packed({{"y", 2, {3}}}), packed({{"y", 3, {4, 5}}})};
  EXPECT_EQ(pair_tokens(a, cached, {.whole_a = true, .whole_b = true}).gaps, 0u);
}

}  // namespace
}  // namespace ttap
