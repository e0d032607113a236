#include "analyze/diff/blame/cause.h"

#include <gtest/gtest.h>

#include "analyze/made_side.h"

namespace ttap {
namespace {

// root { norm; attention { query; (code of its own) }; mlp }, every call with its input and its output, as it runs.
class CauseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const uint32_t root = side.add_event("root");
    const uint32_t norm = side.add_event("root.norm", root);
    const uint32_t attention = side.add_event("root.attention", root);
    const uint32_t query = side.add_event("root.attention.query", attention);
    const uint32_t mlp = side.add_event("root.mlp", root);
    root_in = add(root, "in");
    norm_in = add(norm, "in");
    norm_out = add(norm, "out");
    attention_in = add(attention, "in");
    query_in = add(query, "in");
    query_out = add(query, "out");
    attention_out = add(attention, "out");
    mlp_in = add(mlp, "in");
    mlp_out = add(mlp, "out");
    root_out = add(root, "out");
  }

  uint32_t add(uint32_t event, std::string_view role) {
    const uint32_t index = side.add_tensor(event, role);
    diffs.emplace_back().match = {index, index, MatchedBy::kKey};
    return index;
  }
  void part(std::initializer_list<uint32_t> indices, Verdict verdict = Verdict::kDiverged) {
    for (const uint32_t index : indices) {
      diffs[index].verdict = verdict;
      diffs[index].evidence = Evidence::kHash;
    }
  }
  // The relative error of a tensor, as a whole and at its worst, where its bytes were compared.
  void err(std::initializer_list<uint32_t> indices, Verdict verdict, double whole, double worst) {
    for (const uint32_t index : indices) {
      diffs[index].verdict = verdict;
      diffs[index].evidence = Evidence::kValues;
      diffs[index].measures = std::make_unique<Measures>();
      diffs[index].measures->rms_a = 2;
      diffs[index].measures->rmse = 2 * whole;
      diffs[index].measures->max_abs = 2 * worst;
    }
  }
  void drop_inputs() {
    std::erase_if(diffs, [&](const TensorDiff& diff) { return side.tensor(diff.match.a).role == "in"; });
  }
  Cause cause(uint32_t index) {
    for (const TensorDiff& diff : diffs)
      if (diff.match.a == index) return diff.cause;
    return Cause::kNone;
  }
  void find() { find_causes(side, side, {}, {}, diffs); }

  MadeSide side;
  std::vector<TensorDiff> diffs;
  uint32_t root_in, norm_in, norm_out, attention_in, query_in, query_out, attention_out, mlp_in, mlp_out, root_out;
};

TEST_F(CauseTest, NothingPartedNothingBlamed) {
  find();
  for (const TensorDiff& diff : diffs) EXPECT_EQ(diff.cause, Cause::kNone);
}

TEST_F(CauseTest, InputsAgreeAndTheOutputDoesNot) {
  part({norm_out, attention_in, query_in, query_out, attention_out, mlp_in, mlp_out, root_out});
  find();
  EXPECT_EQ(cause(norm_out), Cause::kIntroduced);
  EXPECT_EQ(cause(query_out), Cause::kInherited);
  EXPECT_EQ(cause(attention_out), Cause::kInherited);
  EXPECT_EQ(cause(mlp_out), Cause::kInherited);
}

TEST_F(CauseTest, TheInnermostCallIsBlamedAndNotThoseAroundIt) {
  part({query_out, attention_out, mlp_in, mlp_out, root_out});
  find();
  EXPECT_EQ(cause(query_out), Cause::kIntroduced);
  EXPECT_EQ(cause(attention_out), Cause::kInherited);
  EXPECT_EQ(diffs[attention_out].source, query_out);
  EXPECT_EQ(cause(root_out), Cause::kInherited);
}

TEST_F(CauseTest, CodeOfACallBetweenItsChildrenIsTheCallsOwn) {
  part({attention_out, mlp_in, mlp_out, root_out});
  find();
  EXPECT_EQ(cause(attention_out), Cause::kIntroduced);
  EXPECT_EQ(cause(mlp_out), Cause::kInherited);
}

TEST_F(CauseTest, ASecondFaultIsFoundBesideTheFirst) {
  part({norm_out, mlp_out, root_out});
  find();
  EXPECT_EQ(cause(norm_out), Cause::kIntroduced);
  EXPECT_EQ(cause(mlp_out), Cause::kIntroduced);
}

TEST_F(CauseTest, WhatCameInDifferentBlamesNobody) {
  part({root_in, norm_in, norm_out, attention_in, query_in, query_out, attention_out, mlp_in, mlp_out, root_out});
  find();
  EXPECT_EQ(cause(root_in), Cause::kUnknown);
  EXPECT_EQ(cause(norm_out), Cause::kInherited);
  for (const TensorDiff& diff : diffs) EXPECT_NE(diff.cause, Cause::kIntroduced);
}

TEST_F(CauseTest, AnErrorThatCameInAndGrewPastTheToleranceIsInherited) {
  err({norm_out}, Verdict::kDiverged, 1e-3, 1e-2);
  err({attention_in, query_in}, Verdict::kWithin, 1e-5, 1e-4);
  err({query_out, attention_out}, Verdict::kDiverged, 3e-5, 5e-4);
  find();
  EXPECT_EQ(cause(norm_out), Cause::kIntroduced);
  EXPECT_EQ(cause(query_out), Cause::kInherited);
  EXPECT_EQ(diffs[query_out].source, norm_out);
  EXPECT_EQ(cause(attention_out), Cause::kInherited);
}

TEST_F(CauseTest, WhatGrowsInsideACallIsNotTheCallsOwnHoweverMuchItGrows) {
  err({attention_in, query_in}, Verdict::kWithin, 1e-5, 1e-4);
  err({query_out}, Verdict::kDiverged, 5e-5, 5e-4);
  err({attention_out}, Verdict::kDiverged, 5e-4, 5e-3);
  find();
  EXPECT_EQ(cause(attention_out), Cause::kInherited);
}

TEST_F(CauseTest, OfWhatGrowsTheCallIsBlamedIntoWhichNoErrorCame) {
  err({query_in}, Verdict::kWithin, 1e-5, 1e-4);
  err({query_out, attention_out}, Verdict::kDiverged, 3e-5, 5e-4);
  find();
  EXPECT_EQ(cause(query_out), Cause::kInherited);
  EXPECT_EQ(cause(attention_out), Cause::kIntroduced) << "its code made query's input of the same bits";
}

TEST_F(CauseTest, AnErrorThatIsFarLargerThanWhatCameInIsItsOwn) {
  err({norm_in, mlp_in}, Verdict::kWithin, 1e-6, 1e-5);
  err({norm_out}, Verdict::kDiverged, 1e-4, 1e-4);  // everywhere
  err({mlp_out}, Verdict::kDiverged, 3e-6, 1e-2);   // in one place
  find();
  EXPECT_EQ(cause(norm_out), Cause::kIntroduced);
  EXPECT_EQ(cause(mlp_out), Cause::kIntroduced);
}

TEST_F(CauseTest, ANanIsNoErrorThatGrew) {
  err({mlp_in, mlp_out}, Verdict::kWithin, 1e-6, 1e-5);
  diffs[mlp_out].verdict = Verdict::kDiverged;
  diffs[mlp_out].measures->nan_mismatches = 1;
  find();
  EXPECT_EQ(cause(mlp_out), Cause::kIntroduced);
}

TEST_F(CauseTest, WithoutInputsTheFirstIsBlamedByOrderAndTheRestIsUnknown) {
  part({query_out, attention_out, mlp_out, root_out});
  drop_inputs();
  find();
  EXPECT_EQ(cause(query_out), Cause::kIntroduced);
  EXPECT_EQ(cause(attention_out), Cause::kInherited);  // it holds query
  EXPECT_EQ(cause(mlp_out), Cause::kUnknown);
}

TEST_F(CauseTest, ParametersThatAgreeDoNotStandForTheInputs) {
  for (const uint32_t index : {norm_in, query_in, mlp_in}) side.at(index).role = "param";
  for (const uint32_t index : {root_in, attention_in}) side.at(index).role = "other";
  part({query_out, attention_out, mlp_out, root_out});
  find();
  EXPECT_EQ(cause(query_out), Cause::kIntroduced);
  EXPECT_EQ(cause(mlp_out), Cause::kUnknown);
}

TEST_F(CauseTest, AParameterThatCameInDifferentIsWhatTheResultInheritsFrom) {
  side.at(query_in).role = "param";
  part({query_in, query_out});
  find();
  EXPECT_EQ(cause(query_out), Cause::kInherited);
}

TEST_F(CauseTest, WithoutInputsTheVeryFirstIsUnknown) {
  part({norm_out, query_out});
  drop_inputs();
  find();
  EXPECT_EQ(cause(norm_out), Cause::kUnknown);
}

TEST_F(CauseTest, AnInputThatCannotBeComparedLeavesItUnknown) {
  part({mlp_out});
  diffs[mlp_in].verdict = Verdict::kMissing;
  find();
  EXPECT_EQ(cause(mlp_out), Cause::kUnknown);
}

TEST_F(CauseTest, HashesAloneGiveTheSameAnswer) {
  part({query_out, attention_out, mlp_in, mlp_out, root_out}, Verdict::kInconclusive);
  find();
  EXPECT_EQ(cause(query_out), Cause::kIntroduced);
  EXPECT_EQ(cause(mlp_out), Cause::kInherited);
}

TEST_F(CauseTest, AnInputIsTracedToTheOutputWithItsBits) {
  part({norm_out, query_out, mlp_in, mlp_out});
  for (const uint32_t index : {norm_out, mlp_in}) {
    side.at(index).has_fingerprint = true;
    side.at(index).fingerprint.hash = {7, 7};
  }
  find();
  EXPECT_EQ(diffs[mlp_in].source, norm_out);
  EXPECT_EQ(diffs[mlp_out].source, norm_out);
}

TEST_F(CauseTest, TheBackwardInheritsFromItsForward) {
  const uint32_t mlp = 4;
  const uint32_t grad_out = add(mlp, "grad_out"), grad_in = add(mlp, "grad_in");
  part({mlp_out, grad_in});
  find();
  EXPECT_EQ(cause(mlp_out), Cause::kIntroduced);
  EXPECT_EQ(cause(grad_in), Cause::kInherited);
  EXPECT_EQ(cause(grad_out), Cause::kNone);
}

TEST_F(CauseTest, AFaultInTheBackwardAloneIsFound) {
  const uint32_t mlp = 4;
  add(mlp, "grad_out");
  const uint32_t grad_in = add(mlp, "grad_in");
  part({grad_in});
  find();
  EXPECT_EQ(cause(grad_in), Cause::kIntroduced);
}

TEST_F(CauseTest, ARealFaultBehindASmallOneThatPartedIsStillIntroduced) {
  err({norm_out}, Verdict::kDiverged, 2.1e-5, 1e-4);
  err({attention_in, query_in, query_out, attention_out}, Verdict::kDiverged, 2.2e-5, 1e-4);
  err({mlp_in}, Verdict::kDiverged, 2.2e-5, 1e-4);
  err({mlp_out}, Verdict::kDiverged, 4, 9);
  find();
  EXPECT_EQ(cause(mlp_out), Cause::kIntroduced);
  EXPECT_EQ(cause(query_out), Cause::kInherited);
}

TEST_F(CauseTest, UnrelatedDataIsIntroducedHoweverWideTheTolerance) {
  err({mlp_in}, Verdict::kWithin, 0.2, 0.5);
  err({mlp_out}, Verdict::kDiverged, 1.45, 2.5);
  find();
  EXPECT_EQ(cause(mlp_out), Cause::kIntroduced);
}

TEST_F(CauseTest, ACallIsNotExcusedByASmallErrorThatGrewInsideIt) {
  err({attention_in, query_in}, Verdict::kWithin, 1e-5, 1e-4);
  err({query_out}, Verdict::kDiverged, 3e-5, 3e-4);
  err({attention_out}, Verdict::kDiverged, 2, 5);
  find();
  EXPECT_EQ(cause(query_out), Cause::kInherited);
  EXPECT_EQ(cause(attention_out), Cause::kIntroduced);
}

TEST_F(CauseTest, ASecondBackwardIsATurnOfItsOwn) {
  const uint32_t mlp = 4;
  add(mlp, "grad_out");
  add(mlp, "grad_in");
  const uint32_t grad_out = add(mlp, "grad_out_2"), grad_in = add(mlp, "grad_in_2");
  part({grad_out, grad_in});
  find();
  EXPECT_EQ(cause(grad_out), Cause::kUnknown);  // it came in different: the loss
  EXPECT_EQ(cause(grad_in), Cause::kInherited);
}

TEST_F(CauseTest, AFaultOfTheRecomputationIsNotTheBackwardsOfWhatIsAround) {
  const uint32_t attention = 2, query = 3;
  const uint32_t recompute_in = add(query, "recompute_in"), recompute = add(query, "recompute");
  add(attention, "grad_out");
  const uint32_t grad_in = add(attention, "grad_in");
  part({recompute, grad_in});
  find();
  EXPECT_EQ(cause(recompute_in), Cause::kNone);
  EXPECT_EQ(cause(recompute), Cause::kIntroduced);
  EXPECT_EQ(cause(grad_in), Cause::kInherited);
}

TEST(CauseWithoutEvents, NamesTellWhatIsInsideWhat) {
  MadeSide side;
  std::vector<TensorDiff> diffs;
  for (const char* name : {"a", "b.inner", "b"}) {
    side.add_tensor(side.add_event(name));
    side.at(diffs.size()).event = kNoEvent;
    const auto index = static_cast<uint32_t>(diffs.size());
    diffs.emplace_back().match = {index, index, MatchedBy::kKey};
  }
  diffs[1].verdict = diffs[2].verdict = Verdict::kDiverged;
  find_causes(side, side, {}, {}, diffs);
  EXPECT_EQ(diffs[1].cause, Cause::kIntroduced);
  EXPECT_EQ(diffs[2].cause, Cause::kInherited);
}

}  // namespace
}  // namespace ttap
