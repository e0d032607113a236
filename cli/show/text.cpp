#include "cli/show/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/number_set.h"
#include "report/run/describe.h"
#include "report/tensor/quant_picture_report.h"
#include "report/text/bar.h"
#include "report/text/table.h"
#include "report/text/text.h"
#include "ttap/group.h"

namespace ttap::cli {
namespace {

constexpr int kDigits = 6;

void heading(Output& out, std::string_view title, std::string_view detail = {}) {
  out.write("\n");
  out.write(Style::kBold, title);
  if (!detail.empty()) out.print(" ({})", detail);
  out.write("\n");
}

void draw_event(const TensorReport& report, Output& out) {
  const uint32_t number = report.tensor.event;
  if (number >= report.pass.event_count()) return;
  const EventRecord event = report.pass.event(number);
  write_fact(out, 9, "event",
             fmt::format("{} {}, call {}, thread {}, {} into the pass", printable(event.kind),
                         event.name.empty() ? "(lost)" : printable(event.name), event.call, event.thread,
                         duration_text(event.time_ns)));
  if (const std::string parents = parents_text(report.pass, number); !parents.empty())
    write_fact(out, 9, "inside", parents);
  std::string_view rest = event.stack;
  for (std::string_view name = "stack"; !rest.empty(); name = "") {
    const size_t end = std::min(rest.find('\n'), rest.size());
    write_fact(out, 9, name, printable(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

std::string quantized_text(const TensorReport& report) {
  if (report.quant) return quant_format_text(*report.quant);
  const auto description = group_description_from_json(report.tensor.group);
  return description.ok() ? quant_format_text(description->format) : "in a way that cannot be read";
}

void draw_facts(const TensorReport& report, Output& out) {
  const TensorRecord& tensor = report.tensor;
  const PassInfo& info = report.pass.info();
  out.write(Style::kBold, key_text(tensor));
  out.write("\n");
  write_fact(out, 9, "pass",
             fmt::format("{} of {}, {}", info.number, rank_text(*report.selected.rank), ending_text(info)));
  write_fact(out, 9, "file", printable(info.path.string()));
  const bool widened = tensor.true_dtype && *tensor.true_dtype != tensor.dtype;
  write_fact(
      out, 9, "dtype",
      fmt::format("{}{}", dtype_text(tensor), widened ? fmt::format(", stored as {}", dtype_name(tensor.dtype)) : ""));
  if (!tensor.group.empty()) write_fact(out, 9, "quantized", quantized_text(report));
  write_fact(out, 9, "shape", fmt::format("{}, {}", shape_text(tensor.shape), bytes_text(tensor.byte_count)));
  if (!tensor.strides.empty() && !std::ranges::equal(tensor.strides, contiguous_strides(tensor.shape)))
    write_fact(out, 9, "strides", fmt::format("{} as captured", shape_text(tensor.strides)));
  write_fact(out, 9, "device", printable(tensor.device));
  write_fact(out, 9, "level", to_string(tensor.level));
  draw_event(report, out);
  if (tensor.has_fingerprint) write_fact(out, 9, "hash", to_string(tensor.fingerprint.hash));
  if (!report.also_in.empty() || report.not_looked_at > 0) {
    std::string text = report.also_in.empty() ? "no other pass" : fmt::format("pass {}", ranges_text(report.also_in));
    if (report.not_looked_at > 0) text += fmt::format("; {} more not looked at", report.not_looked_at);
    write_fact(out, 9, "also in", fmt::format("{} (choose with --pass)", text));
  }
}

void draw_stats(const TensorReport& report, Output& out) {
  if (!report.stats) return;
  heading(out, "statistics", report.stats_computed ? "computed from the bytes" : "");
  const Stats& s = *report.stats;
  const DType dtype = report.tensor.dtype;
  const auto real = [&](double value) { return statistic_text(value, DType::kF64, kDigits); };
  const auto own = [&](double value) { return statistic_text(value, dtype, kDigits); };
  struct Line {
    std::string_view name;
    std::string text;
    bool bad = false;
  };
  const std::array<Line, 7> left = {{{"count", fmt::format("{}", s.count)},
                                     {"NaN", fmt::format("{}", s.nan), s.nan > 0},
                                     {"+Inf", fmt::format("{}", s.pos_inf), s.pos_inf > 0},
                                     {"-Inf", fmt::format("{}", s.neg_inf), s.neg_inf > 0},
                                     {"zeros", fmt::format("{} ({})", s.zeros, share_text(s.zeros, s.count))},
                                     {"subnormals", fmt::format("{}", s.subnormals)},
                                     {"L1", real(s.l1)}}};
  const std::array<Line, 7> right = {{{"min", own(s.min)},
                                      {"max", own(s.max)},
                                      {"max |x|", own(s.max_abs)},
                                      {"min |x|>0", own(s.min_abs_nonzero)},
                                      {"mean", real(s.mean)},
                                      {"std", real(s.std)},
                                      {"L2", real(s.l2)}}};
  for (size_t i = 0; i < left.size(); ++i) {
    out.write(Style::kDim, fmt::format("  {:<11}", left[i].name));
    out.write(left[i].bad ? Style::kRed : Style::kPlain, fmt::format("{:<20}", left[i].text));
    out.write(Style::kDim, fmt::format("  {:<10}", right[i].name));
    out.print("{}\n", right[i].text);
  }
}

std::string element_text(const Sample& sample, DType dtype, size_t element) {
  std::string first = number_text(sample.values[element * static_cast<size_t>(sample.parts)], kDigits);
  if (sample.parts == 1) {
    if (dtype == DType::kBool) return first == "0" ? "False" : "True";
    return first;
  }
  const std::string second = number_text(sample.values[element * 2 + 1], kDigits);
  if (dtype == DType::kF4E2M1FNx2) return fmt::format("({}, {})", first, second);
  return fmt::format("{}{}{}i", first, second.starts_with('-') || second.starts_with('+') ? "" : "+", second);
}

void draw_sample(const TensorReport& report, Output& out) {
  const Sample& sample = *report.sample;
  const DType dtype = report.tensor.dtype;
  std::string where;
  for (int64_t at : report.at) where += fmt::format("{}, ", at);
  for (int64_t fixed : sample.fixed) where += fmt::format("{}, ", fixed);
  const size_t free_dims = std::min<size_t>(report.sample_shape.size(), 2);
  for (size_t i = 0; i < free_dims; ++i) where += ":, ";
  if (!where.empty()) where.resize(where.size() - 2);
  heading(out, where.empty() ? "values" : fmt::format("values [{}]", where), report.decoded ? "decoded" : "");
  if (sample.values.empty()) return out.write("  none: a dimension is 0\n");

  std::vector<std::string> cells;
  size_t width = 0;
  for (size_t i = 0; i < sample.rows.size() * sample.columns.size(); ++i) {
    cells.push_back(element_text(sample, dtype, i));
    width = std::max(width, cells.back().size());
  }
  const auto gap_before = [](const std::vector<int64_t>& shown, size_t i) {
    return i > 0 && shown[i] != shown[i - 1] + 1;
  };
  for (size_t row = 0; row < sample.rows.size(); ++row) {
    if (gap_before(sample.rows, row)) out.write("   ...\n");
    out.write("  ");
    for (size_t column = 0; column < sample.columns.size(); ++column) {
      if (gap_before(sample.columns, column)) out.write("  ...");
      const std::string& text = cells[row * sample.columns.size() + column];
      const bool bad = text.find("NaN") != std::string::npos || text.find("Inf") != std::string::npos;
      out.print(" {:{}}", "", width - text.size());
      out.write(bad ? Style::kRed : Style::kPlain, text);
    }
    out.write("\n");
  }
}

void draw_histogram(const TensorReport& report, bool log_scale, Output& out) {
  const Histogram& histogram = *report.histogram;
  std::string detail = fmt::format("{} finite {}", histogram.finite, histogram.finite == 1 ? "value" : "values");
  if (log_scale) detail += ", bars on a log scale";
  heading(out, "histogram", detail);
  if (histogram.bins.empty()) return out.write("  no finite value\n");
  struct Label {
    std::string low;
    std::string high;
    std::string count;
  };
  std::vector<Label> labels;
  size_t low = 0;
  size_t high = 0;
  size_t counts = 0;
  double largest = 0;
  const auto length = [&](uint64_t count) {
    return log_scale ? std::log1p(static_cast<double>(count)) : static_cast<double>(count);
  };
  for (const auto& bin : histogram.bins) {
    Label label{number_text(bin.low, 4), "", fmt::format("{}", bin.count)};
    if (bin.high != bin.low) label.high = fmt::format(".. {}", number_text(bin.high, 4));
    low = std::max(low, label.low.size());
    high = std::max(high, label.high.size());
    counts = std::max(counts, label.count.size());
    largest = std::max(largest, length(bin.count));
    labels.push_back(std::move(label));
  }
  const Terminal& terminal = out.terminal();
  const size_t taken = 2 + low + 1 + high + 2 + counts + 1;
  const size_t room = terminal.width == 0 ? 40 : static_cast<size_t>(terminal.width);
  const size_t width = terminal.width == 0 ? room : std::clamp<size_t>(room > taken ? room - taken : 0, 8, 60);
  for (size_t i = 0; i < labels.size(); ++i) {
    out.print("  {:>{}} {:<{}}  {:>{}} ", labels[i].low, low, labels[i].high, high, labels[i].count, counts);
    out.write(Style::kCyan, bar(length(histogram.bins[i].count) / largest, width, terminal.unicode));
    out.write("\n");
  }
}

void draw_worst(const TensorReport& report, Output& out) {
  const Extremes& extremes = *report.extremes;
  const TensorRecord& tensor = report.tensor;
  if (extremes.nonfinite.empty() && extremes.largest.empty()) return;
  heading(out, "worst elements");
  size_t width = 0;
  const auto place = [&](const Located& value) { return place_text(value, tensor.dtype, tensor.shape); };
  for (const Located& value : extremes.nonfinite) width = std::max(width, place(value).size());
  for (const Located& value : extremes.largest) width = std::max(width, place(value).size());
  for (const Located& value : extremes.nonfinite) {
    out.print("  {:<{}}  ", place(value), width);
    out.write(Style::kRed, number_text(value.value, kDigits));
    out.write("\n");
  }
  if (extremes.nonfinite_count > extremes.nonfinite.size())
    out.print("  ... and {} more that are not finite\n", extremes.nonfinite_count - extremes.nonfinite.size());
  for (const Located& value : extremes.largest)
    out.print("  {:<{}}  {}\n", place(value), width, number_text(value.value, 9));
}

}  // namespace

void draw_report(const TensorReport& report, bool log_scale, Output& out) {
  draw_facts(report, out);
  draw_stats(report, out);
  if (report.no_bytes) {
    heading(out, "no values to show");
    out.print("  {}\n", printable(report.no_bytes->message));
    if (const std::string drops = drops_text(report.pass.info().drops); !drops.empty())
      out.print("  in this pass: {}\n", drops);
    if (!report.no_bytes->hint.empty()) out.print("  {}\n", printable(report.no_bytes->hint));
  }
  if (report.sample) draw_sample(report, out);
  if (report.histogram) draw_histogram(report, log_scale, out);
  if (report.extremes) draw_worst(report, out);
  if (report.quant) {
    if (report.what_if) heading(out, fmt::format("as {}", report.quant->format.name), quant_format_text(*report.quant));
    draw_quant_picture(*report.quant, log_scale, out);
  }
}

}  // namespace ttap::cli
