#include "analyze/compare/predicate.h"

#include <gtest/gtest.h>

#include <limits>

namespace ttap {
namespace {

Measures sample() {
  Measures m;
  m.count = 200;
  m.finite = 197;
  m.outside = 50;
  m.nan_mismatches = 2;
  m.inf_mismatches = 1;
  m.max_abs = 0.5;
  m.mean_abs = 0.125;
  m.max_rel = 2;
  m.rmse = 0.25;
  m.cosine = 0.999;
  m.sqnr_db = 40;
  m.max_ulp = 12;
  m.p99_ulp = 3;
  return m;
}

bool holds(std::string_view text, const Measures& measures = sample()) {
  const auto predicate = Predicate::parse(text);
  EXPECT_TRUE(predicate.ok()) << text << ": " << (predicate.ok() ? "" : predicate.error().describe());
  return predicate.ok() && predicate->holds(measures);
}

TEST(Predicate, EveryMeasureIsReadByEachOfItsNames) {
  for (const char* text : {"max_abs==0.5", "mean_abs==0.125", "max_rel==2", "rmse==0.25", "cos==0.999", "cosine==0.999",
                           "sqnr==40", "sqnr_db==40", "ulp==12", "max_ulp==12", "p99_ulp==3", "outside==0.25", "nan==2",
                           "nan_mismatches==2", "inf==1", "inf_mismatches==1"})
    EXPECT_TRUE(holds(text)) << text;
}

TEST(Predicate, EveryComparisonAtBelowAndAboveItsNumber) {
  const auto at_below_above = [](const char* compare) {
    std::string seen;
    for (const char* number : {"12", "13", "11"}) seen += holds(std::string("ulp") + compare + number) ? 'y' : 'n';
    return seen;
  };
  EXPECT_EQ(at_below_above("<"), "nyn");
  EXPECT_EQ(at_below_above("<="), "yyn");
  EXPECT_EQ(at_below_above(">"), "nny");
  EXPECT_EQ(at_below_above(">="), "yny");
  EXPECT_EQ(at_below_above("=="), "ynn");
  EXPECT_EQ(at_below_above("!="), "nyy");
}

TEST(Predicate, AllTermsMustHoldAndSpacesDoNotMatter) {
  EXPECT_TRUE(holds(" cos >= 0.99 , max_abs < 1e0 "));
  EXPECT_FALSE(holds("cos>=0.99,max_abs<0.1"));
  EXPECT_EQ(Predicate::parse(" cos>=0.99 ")->text(), "cos>=0.99");
}

TEST(Predicate, WhatIsNotThereSatisfiesNothing) {
  const Measures empty;
  for (const char* text : {"max_abs<1", "max_abs>=0", "max_abs!=3", "ulp<=4", "ulp!=4"})
    EXPECT_FALSE(holds(text, empty)) << text;
  EXPECT_TRUE(holds("outside==0", empty));
}

TEST(Predicate, InfinityIsANumber) {
  Measures equal;
  equal.sqnr_db = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(holds("sqnr==inf", equal));
  EXPECT_TRUE(holds("sqnr>120", equal));
}

TEST(Predicate, KnowsWhetherItSpeaksOfNaNAndInfinity) {
  EXPECT_FALSE(Predicate::parse("cos>0.9")->judges_nan());
  EXPECT_TRUE(Predicate::parse("cos>0.9,nan_mismatches<3")->judges_nan());
  EXPECT_FALSE(Predicate::parse("cos>0.9,nan<3")->judges_inf());
  EXPECT_TRUE(Predicate::parse("inf<3")->judges_inf());
}

TEST(Predicate, ErrorsSayWhatIsWrongAndListTheMeasures) {
  for (const auto& [text, said] :
       std::vector<std::pair<std::string, std::string>>{{"", "there is no comparison"},
                                                        {"cos", "there is no comparison"},
                                                        {"cos>=0.9,", "there is no comparison"},
                                                        {"cosin>=0.9", "there is no measure 'cosin'"},
                                                        {">=0.9", "there is no measure ''"},
                                                        {"cos=0.9", "'=' is no comparison"},
                                                        {"cos!0.9", "'!' is no comparison"},
                                                        {"cos>=", "'' is not a number"},
                                                        {"cos=>0.9", "'=' is no comparison"},
                                                        {"cos>=0.9x", "'0.9x' is not a number"},
                                                        {"cos>=nan", "'nan' is not a number"}}) {
    const auto predicate = Predicate::parse(text);
    ASSERT_FALSE(predicate.ok()) << text;
    const std::string error = predicate.error().describe();
    EXPECT_NE(error.find(said), std::string::npos) << error;
    EXPECT_NE(error.find("max_abs, mean_abs, max_rel, rmse, cos, sqnr, ulp, p99_ulp, outside, nan, inf"),
              std::string::npos)
        << error;
  }
}

}  // namespace
}  // namespace ttap
