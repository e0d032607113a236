#include <fmt/format.h>

#include <cmath>

#include "report/diff/diff_report.h"
#include "report/tensor/quant_picture_report.h"
#include "report/text/text.h"

namespace ttap {
namespace {

// A field in quotes where it needs them, as spreadsheets read it. What one would take for a formula, it is told is
// text.
std::string field(std::string_view raw) {
  const bool like_formula = !raw.empty() && std::string_view("=+-@").find(raw.front()) != std::string_view::npos;
  const std::string text = (like_formula ? "'" : "") + printable(raw);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string number(double value) { return std::isnan(value) ? std::string("nan") : fmt::format("{}", value); }

}  // namespace

void write_diff_csv(const DiffReport& report, Output& out) {
  out.write(
      "pass_a,pass_b,order,key,key_b,verdict,cause,evidence,dtype,shape,count,outside,nan_mismatches,inf_mismatches,"
      "max_abs,mean_abs,max_rel,rmse,relative,cosine,sqnr_db,max_ulp,p99_ulp,worst_index,worst_a,worst_b,reason,"
      "quantized_a,quantized_b\n");
  for (const PassDiff& pass : report.passes)
    for (size_t i = 0; i < pass.tensors.size(); ++i) {
      const TensorDiff& tensor = pass.tensors[i];
      const TensorRecord record = record_of(pass, tensor);
      const std::string key_b =
          tensor.match.b == kNoTensor ? std::string() : to_string(pass.b->tensor(tensor.match.b).key());
      out.print("{},{},{},{},{},{},{},{},{},{}", field(pass.a->place()), field(pass.b->place()), i + 1,
                field(to_string(record.key())), field(key_b), to_string(tensor.verdict), to_string(tensor.cause),
                to_string(tensor.evidence), dtype_text(record), field(shape_text(record.shape)));
      if (const Measures* m = tensor.measures.get()) {
        out.print(",{},{},{},{},{},{},{},{},{},{},{}", m->count, m->outside, m->nan_mismatches, m->inf_mismatches,
                  number(m->max_abs), number(m->mean_abs), number(m->max_rel), number(m->rmse),
                  number(relative_error(tensor)), number(m->cosine), number(m->sqnr_db));
        out.print(",{},{}", m->max_ulp ? fmt::format("{}", *m->max_ulp) : "",
                  m->p99_ulp ? fmt::format("{}", *m->p99_ulp) : "");
        if (m->worst) {
          out.print(",{},{},{}", field(shape_text(index_of(m->worst->element, compared_shape(tensor, record)))),
                    number_text(m->worst->a, 17), number_text(m->worst->b, 17));
        } else {
          out.write(",,,");
        }
      } else {
        out.write(",,,,,,,,,,,,,,,,");
      }
      const auto quantized = [](const Side& side, uint32_t index) {
        return index == kNoTensor ? std::string() : field(quant_name(side.tensor(index)));
      };
      out.print(",{},{},{}\n", field(tensor.reason), quantized(*pass.a, tensor.match.a),
                quantized(*pass.b, tensor.match.b));
    }
}

}  // namespace ttap
