#include "report/diff/diff_report.h"
#include "ttap/diff.h"

// What <ttap/diff.h> shows of a DiffReport.
namespace ttap {
Diff::Diff(std::unique_ptr<DiffReport> report, unsigned threads) : report_(std::move(report)), threads_(threads) {}
Diff::Diff(Diff&&) noexcept = default;
Diff& Diff::operator=(Diff&&) noexcept = default;
Diff::~Diff() = default;

Result<Diff> Diff::compare(const std::filesystem::path& a, const std::filesystem::path& b, const DiffOptions& options) {
  TTAP_ASSIGN(DiffReport report, diff(a.string(), b.string(), options));
  return Diff(std::make_unique<DiffReport>(std::move(report)), options.threads);
}

Verdict Diff::verdict() const { return report_->verdict; }
std::string Diff::sentence() const { return verdict_sentence(*report_); }

Result<bool> Diff::same(const std::vector<std::string>& fail_on) const {
  TTAP_ASSIGN(const FailOn parsed, FailOn::parse(fail_on));
  return is_same(*report_, parsed);
}

size_t Diff::tensor_count() const {
  size_t count = 0;
  for (const PassDiff& pass : report_->passes) count += pass.tensors.size();
  return count;
}

DiffedTensor Diff::tensor(size_t index) const {
  auto pass = report_->passes.begin();
  for (; index >= pass->tensors.size(); ++pass) index -= pass->tensors.size();
  const TensorDiff& tensor = pass->tensors[index];
  const auto key = [](const Side& side, uint32_t record) {
    return record == kNoTensor ? std::string() : to_string(side.tensor(record).key());
  };
  DiffedTensor shown{.key_a = key(*pass->a, tensor.match.a),
                     .key_b = key(*pass->b, tensor.match.b),
                     .verdict = tensor.verdict,
                     .cause = tensor.cause,
                     .reason = tensor.reason};
  if (tensor.measures != nullptr) {
    shown.max_abs = tensor.measures->max_abs;
    shown.relative = relative_error(tensor);
  }
  return shown;
}

std::optional<size_t> Diff::first() const {
  const std::optional<DiffPlace> place = report_->first();
  if (!place) return std::nullopt;
  size_t before = 0;
  for (uint32_t i = 0; i < place->pass; ++i) before += report_->passes[i].tensors.size();
  return before + place->tensor;
}

std::string Diff::text(bool all, size_t rows) const {
  return output_text([&](Output& out) { draw_diff(*report_, {.rows = rows, .all = all}, out); });
}
std::string Diff::json() const {
  return output_text([&](Output& out) { write_diff_json(*report_, out); });
}
std::string Diff::csv() const {
  return output_text([&](Output& out) { write_diff_csv(*report_, out); });
}

Status Diff::write_page(const std::filesystem::path& path, size_t details) {
  add_details(*report_, details, threads_);
  const Status written = write_diff_page(*report_, path.string());
  report_->details.clear();
  return written;
}

}  // namespace ttap
