#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/mismatch/mismatch_report.h"

// The picture that people draw by hand of a rollout and its trainer. Two panels: the probability of each token in both,
// and the log-ratio of each token along its text.
namespace ttap {
namespace {

constexpr double kSize = 380, kLeft = 70, kTop = 60, kGap = 90;
constexpr size_t kMostDots = 20'000;  // more make a file that no browser likes

struct Panel {
  double left, top, low_x, high_x, low_y, high_y;

  double x(double value) const { return left + kSize * (value - low_x) / (high_x - low_x); }
  double y(double value) const { return top + kSize * (1 - (value - low_y) / (high_y - low_y)); }
};

std::string escaped(std::string_view text) {
  std::string found;
  for (const char c : text) {
    if (c == '<') {
      found += "&lt;";
    } else if (c == '&') {
      found += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      found += c;
    }
  }
  return found;
}

void draw_axes(const Panel& panel, std::string_view title, std::string_view x, std::string_view y, Output& out) {
  out.print("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n", panel.left,
            panel.top, kSize, kSize);
  out.print("<text x=\"{}\" y=\"{}\" class=\"title\">{}</text>\n", panel.left, panel.top - 12, title);
  out.print("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", panel.left + kSize / 2,
            panel.top + kSize + 40, x);
  out.print("<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" transform=\"rotate(-90 {0} {1})\">{2}</text>\n",
            panel.left - 48, panel.top + kSize / 2, y);
  for (int i = 0; i <= 4; ++i) {
    const double at_x = panel.low_x + (panel.high_x - panel.low_x) * i / 4;
    const double at_y = panel.low_y + (panel.high_y - panel.low_y) * i / 4;
    out.print("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.3g}</text>\n", panel.x(at_x),
              panel.top + kSize + 18, at_x);
    out.print("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n", panel.left - 6, panel.y(at_y) + 4,
              at_y);
  }
}

}  // namespace

void write_mismatch_plot(const MismatchReport& report, Output& out) {
  std::vector<TokenMismatch> tokens;
  for (const TokenMismatch& token : report.tokens)
    if (std::isfinite(token.log_ratio())) tokens.push_back(token);
  double most = 1e-12;
  int64_t last = 1;
  for (const TokenMismatch& token : tokens) {
    most = std::max(most, std::abs(token.log_ratio()));
    last = std::max(last, token.position);
  }
  const Panel probabilities{kLeft, kTop, 0, 1, 0, 1};
  const Panel ratios{kLeft + kSize + kGap, kTop, 0, static_cast<double>(last), -most, most};
  out.print("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n",
            2 * kSize + kGap + kLeft + 30, kSize + kTop + 60);
  out.write(
      "<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}circle{fill:#0072b2;fill-opacity:.5}"
      "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  out.print("<text x=\"{}\" y=\"22\">{}</text>\n", kLeft, escaped(mismatch_sentence(report)));
  draw_axes(probabilities, "probability of each token", "rollout", "trainer", out);
  draw_axes(ratios, "log p of the trainer - log p of the rollout", "position in the text", "log-ratio", out);
  for (const Panel& panel : {probabilities, ratios}) {
    const bool diagonal = panel.low_y == 0;
    out.print("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#d55e00\"/>\n",
              panel.x(panel.low_x), panel.y(diagonal ? panel.low_y : 0), panel.x(panel.high_x),
              panel.y(diagonal ? panel.high_y : 0));
  }
  // Where there are too many, every second, third, … and all of the worst.
  const size_t step = 1 + tokens.size() / kMostDots;
  const auto dot = [&](const TokenMismatch& token) {
    out.print("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n",
              probabilities.x(std::exp(token.rollout)), probabilities.y(std::exp(token.trainer)),
              ratios.x(static_cast<double>(token.position)), ratios.y(token.log_ratio()));
  };
  for (size_t i = 0; i < tokens.size(); i += step) dot(tokens[i]);
  if (step > 1)
    for (const uint32_t index : report.worst)
      if (std::isfinite(report.tokens[index].log_ratio())) dot(report.tokens[index]);
  out.write("</svg>\n");
}

}  // namespace ttap
