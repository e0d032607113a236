#include "quant/format_words.h"
#include "report/tensor/quant_picture_report.h"
#include "report/tensor/quant_words.h"

namespace ttap {
namespace {

void write_numbers(JsonWriter& json, std::string_view name, const auto& numbers) {
  json.key(name).begin_list();
  for (const auto number : numbers) json.value(number);
  json.end();
}

void write_floats(JsonWriter& json, std::string_view name, const std::vector<float>& numbers) {
  json.key(name).begin_list();
  for (const float number : numbers) json.value(static_cast<double>(number));
  json.end();
}

void write_format(JsonWriter& json, const QuantFormat& format) {
  json.begin_line().member("name", format.name).member("title", quant_format_title(format));
  json.member("element", word_for(format.element)).member("packing", word_for(format.packing));
  json.member("scale_type", word_for(format.scale_type)).member("scale_layout", word_for(format.scale_layout));
  json.member("block_rows", format.block_rows).member("block_columns", format.block_columns);
  json.member("shared_rows", format.shared_rows).member("stored_transposed", format.stored_transposed);
  json.member("scale_transposed", format.scale_transposed).member("scale_divides", format.scale_divides);
  json.member("global", word_for(format.global)).member("zero_point", word_for(format.zero_point));
  json.member("rotated", format.rotated).member("source", format.source).end();
}

void write_worst(JsonWriter& json, const QuantPicture& picture) {
  json.key("worst").begin_array();
  for (const WorstPair& pair : picture.worst) {
    const auto columns = static_cast<uint64_t>(picture.columns);
    json.begin_line().member("row", pair.element / columns).member("column", pair.element % columns);
    json.member("before", pair.a).member("after", pair.b).end();
  }
  json.end();
}

}  // namespace

void write_quant_picture(JsonWriter& json, const QuantPicture& picture) {
  json.begin_object().member("words", quant_format_text(picture)).key("format");
  write_format(json, picture.format);
  json.member("shape", std::span<const int64_t>(picture.shape));
  json.member("rows", picture.rows).member("columns", picture.columns);
  json.member("block_rows", picture.block_rows).member("block_columns", picture.block_columns);
  json.member("global_count", picture.global_count);
  write_numbers(json, "globals", picture.globals);
  json.member("scale_min", picture.scale_min).member("scale_max", picture.scale_max);
  json.member("scales_nan", picture.scales_nan).member("zero_blocks", picture.zero_blocks);
  write_numbers(json, "codes", picture.codes);
  json.key("code_bins").begin_array();
  for (const CodeBin& bin : code_bins(picture.format.element, picture.codes))
    json.begin_line()
        .member("codes", bin.codes)
        .member("low", static_cast<double>(bin.low))
        .member("high", static_cast<double>(bin.high))
        .member("count", bin.count)
        .end();
  json.end();
  const ScaleMap& map = picture.scales;
  json.key("scales").begin_object().member("rows", map.rows).member("columns", map.columns);
  json.member("row_step", map.row_step).member("column_step", map.column_step);
  json.member("cells_down", map.cells_down).member("cells_right", map.cells_right);
  write_floats(json, "cells", map.cells);
  json.end();
  const BlockGrid& grid = picture.grid;
  json.key("grid").begin_object();
  write_numbers(json, "rows", grid.rows);
  write_numbers(json, "columns", grid.columns);
  write_floats(json, "values", grid.values);
  write_floats(json, "scales", grid.scales);
  if (grid.before.empty())
    json.key("before").null();
  else
    write_floats(json, "before", grid.before);
  json.end().key("against");
  if (picture.stats) {
    json.begin_line();
    write_quant_stats(json, *picture.stats);
    json.end();
  } else {
    json.null();
  }
  write_worst(json, picture);
  json.end();
}

}  // namespace ttap
