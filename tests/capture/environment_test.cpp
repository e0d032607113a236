#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>

#include "ttap/recorder.h"

namespace ttap {
namespace {

Result<RecorderOptions> overlay(const std::map<std::string, std::string>& environment, RecorderOptions base = {}) {
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  auto result = RecorderOptions::from_environment(std::move(base));
  for (const auto& [name, value] : environment) ::unsetenv(name.c_str());
  return result;
}

TEST(Environment, ReplacesWhatTheProgramPassesWhenToldTo) {
  const auto options = overlay({{"TTAP_OVERRIDE", "1"},
                                {"TTAP_DIR", "/from/env"},
                                {"TTAP_RUN_NUMBER", "3"},
                                {"TTAP_APPEND", "1"},
                                {"TTAP_LEVEL", "fingerprint"},
                                {"TTAP_STAGING_BYTES", "3M"},
                                {"TTAP_DEVICE_STAGING_BYTES", "5M"},
                                {"TTAP_QUOTA_BYTES", "2g"},
                                {"TTAP_WHEN_FULL", "drop"},
                                {"TTAP_WRITE", "direct"},
                                {"TTAP_STRICT", "1"}},
                               {.directory = "/from/program", .level = Level::kMeta});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->directory, "/from/env");
  EXPECT_EQ(options->run, 3u);
  EXPECT_TRUE(options->append);
  EXPECT_EQ(options->level, Level::kFingerprint);
  EXPECT_EQ(options->staging_bytes, 3u << 20);
  EXPECT_EQ(options->device_staging_bytes, 5u << 20);
  EXPECT_EQ(options->quota_bytes, uint64_t{2} << 30);
  EXPECT_EQ(options->when_full, WhenFull::kDrop);
  EXPECT_EQ(options->write, WriteMode::kDirect);
  EXPECT_TRUE(options->strict);
}

TEST(Environment, LeavesWhatTheProgramHasChosen) {
  const RecorderOptions chosen{.directory = "/from/program",
                               .filter = std::vector<std::string>{"a"},
                               .level = Level::kMeta,
                               .format = Format::kPt,
                               .staging_bytes = 1 << 20,
                               .when_full = WhenFull::kDrop,
                               .quota_bytes = 7};
  const auto options = overlay({{"TTAP_DIR", "/from/env"},
                                {"TTAP_FILTER", "b"},
                                {"TTAP_LEVEL", "fingerprint"},
                                {"TTAP_FORMAT", "npy"},
                                {"TTAP_STAGING_BYTES", "3M"},
                                {"TTAP_WHEN_FULL", "block"},
                                {"TTAP_QUOTA_BYTES", "2g"},
                                {"TTAP_WRITE", "direct"},
                                {"TTAP_OVERRIDE", "0"}},
                               chosen);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->directory, chosen.directory);
  EXPECT_EQ(options->filter, chosen.filter);
  EXPECT_EQ(options->level, chosen.level);
  EXPECT_EQ(options->format, chosen.format);
  EXPECT_EQ(options->staging_bytes, chosen.staging_bytes);
  EXPECT_EQ(options->when_full, chosen.when_full);
  EXPECT_EQ(options->quota_bytes, chosen.quota_bytes);
  EXPECT_EQ(options->write, WriteMode::kDirect) << "the program has not chosen";
}

TEST(Environment, LeavesAloneWhatItDoesNotName) {
  const auto options = overlay({}, {.directory = "/from/program", .filter = std::vector<std::string>{"a"}});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->directory, "/from/program");
  EXPECT_EQ(options->filter->size(), 1u);
}

TEST(Environment, FilterIsAListOrOnePatternOrNothing) {
  const auto filter = [](const char* text) { return *overlay({{"TTAP_FILTER", text}})->filter; };
  EXPECT_EQ(filter(R"(["o_proj$", "^head"])"), (std::vector<std::string>{"o_proj$", "^head"}));
  EXPECT_EQ(filter(R"("quoted")"), (std::vector<std::string>{"quoted"}));
  EXPECT_EQ(filter(R"(layers\.0\.)"), (std::vector<std::string>{R"(layers\.0\.)"}));
  EXPECT_TRUE(filter("  ").empty());
}

TEST(Environment, LevelsMayGoByPatternInTheirOrder) {
  const auto options = overlay(
      {{"TTAP_LEVEL", R"({"\\.layers\\.0\\.": "full", "z": "meta", ".*": "fingerprint"})"}, {"TTAP_OVERRIDE", "1"}},
      {.level = Level::kMeta, .level_rules = {{"program", Level::kFull}}});
  ASSERT_TRUE(options.ok()) << options.error().describe();
  EXPECT_EQ(options->level, Level::kMeta) << "for names that no pattern matches";
  ASSERT_EQ(options->level_rules.size(), 3u);
  EXPECT_EQ(options->level_rules[0].pattern, R"(\.layers\.0\.)");
  EXPECT_EQ(options->level_rules[0].level, Level::kFull);
  EXPECT_EQ(options->level_rules[1].pattern, "z");
  EXPECT_EQ(options->level_rules[2].level, Level::kFingerprint);
  for (const char* wrong : {R"({"a": "loud"})", R"({"a": 3})", R"(["full"])", "{", "3"}) {
    const auto refused = overlay({{"TTAP_LEVEL", wrong}});
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_NE(refused.error().describe().find("{pattern: level}"), std::string::npos);
  }
}

TEST(Environment, NamesTheFormat) {
  EXPECT_EQ(overlay({{"TTAP_FORMAT", "safetensors"}})->format, Format::kSafetensors);
  EXPECT_EQ(overlay({{"TTAP_FORMAT", "pt"}}, {.format = Format::kNpy})->format, Format::kNpy);
  EXPECT_EQ(overlay({}, {.format = Format::kNpy})->format, Format::kNpy);
}

TEST(Environment, SaysWhichVariableIsWrong) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"TTAP_LEVEL", "loud"},
                                                                      {"TTAP_STAGING_BYTES", "12Q"},
                                                                      {"TTAP_QUOTA_BYTES", "-1"},
                                                                      {"TTAP_WHEN_FULL", "maybe"},
                                                                      {"TTAP_WRITE", "fast"},
                                                                      {"TTAP_STRICT", "yes"},
                                                                      {"TTAP_OVERRIDE", "yes"},
                                                                      {"TTAP_FORMAT", "zip"},
                                                                      {"TTAP_FILTER", "3"}}) {
    const auto options = overlay({{name, value}});
    ASSERT_FALSE(options.ok()) << name;
    EXPECT_NE(options.error().describe().find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace ttap
