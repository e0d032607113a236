#include "report/text/json_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/written_text.h"

namespace ttap {
namespace {

TEST(JsonWriter, WritesWhatAParserReads) {
  const std::string text = written([](Output& out) {
    JsonWriter json(out);
    const int64_t shape[] = {2, -3};
    json.begin_object().member("a", 1).member("b", true).key("c").null();
    json.key("list").begin_array().value("x").begin_line().member("shape", std::span<const int64_t>(shape)).end().end();
    json.key("empty").begin_array().end().end();
  });
  const auto parsed = nlohmann::json::parse(text);
  EXPECT_EQ(parsed, nlohmann::json::parse(R"({"a":1,"b":true,"c":null,"list":["x",{"shape":[2,-3]}],"empty":[]})"));
}

TEST(JsonWriter, NumbersKeepTheirKindAndWhatJsonLacksBecomesText) {
  const std::string text = written([](Output& out) {
    JsonWriter json(out);
    json.begin_list().value(3.0).value(0.1).value(1e300).value(std::numeric_limits<double>::quiet_NaN());
    json.value(-std::numeric_limits<double>::infinity()).value(~uint64_t{0}).value(Number(int64_t{-7})).end();
  });
  EXPECT_EQ(text, "[3.0, 0.1, 1e+300, \"nan\", \"-inf\", 18446744073709551615, -7]\n");
}

TEST(JsonWriter, EscapesAndReplacesWhatIsNotUtf8) {
  const std::string text = written([](Output& out) { JsonWriter(out).begin_list().value("\"\\\n\x1b\xFFü").end(); });
  EXPECT_EQ(text, "[\"\\\"\\\\\\u000a\\u001b\xEF\xBF\xBDü\"]\n");
  EXPECT_TRUE(nlohmann::json::accept(text));
}

}  // namespace
}  // namespace ttap
