#include "analyze/diff/sides/side.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyze/ops/role_flow.h"
#include "analyze/values/real_values.h"
#include "store/graph/graph_names.h"
#include "store/sources/run_layout.h"
#include "ttap/group.h"

namespace ttap {
namespace {

class PassSide final : public Side {
 public:
  PassSide(Pass pass, uint32_t rank, ModelFacts model) : pass_(std::move(pass)), rank_(rank), model_(std::move(model)) {
    for (uint32_t i = 0; i < pass_.tensor_count(); ++i) {
      const TensorRecord record = pass_.tensor(i);
      if (!record.group.empty() && has_values(pass_, i)) {
        decodable_.resize(pass_.tensor_count());
        decodable_[i] = true;
      }
      if (record.role != kGeneratorRole) rows_.push_back(i);
    }
    if (rows_.size() == pass_.tensor_count()) rows_ = {};
  }

  size_t tensor_count() const override { return rows_.empty() ? pass_.tensor_count() : rows_.size(); }
  TensorRecord tensor(size_t index) const override {
    const size_t row = row_of(index);
    TensorRecord record = pass_.tensor(row);
    if (!decodable_.empty() && decodable_[row]) record.has_bytes = true;
    return record;
  }
  size_t event_count() const override { return pass_.event_count(); }
  EventRecord event(size_t index) const override { return pass_.event(index); }
  UseRecord use(size_t event, size_t index) const override {
    UseRecord use = pass_.use(event, index);
    if (!rows_.empty() && use.record < pass_.tensor_count())
      use.record = static_cast<uint32_t>(std::ranges::lower_bound(rows_, use.record) - rows_.begin());
    return use;
  }
  const PassInfo& info() const override { return pass_.info(); }
  const ModuleFacts* module(std::string_view name) const override {
    const auto found = model_.modules.find(name);
    return found == model_.modules.end() ? nullptr : &found->second;
  }
  const ModulesByName* optimizers() const override { return &model_.optimizers; }

  Result<SideBytes> read(size_t index) const override {
    TTAP_ASSIGN(Values values, read_values(pass_, row_of(index)));
    return SideBytes{.view = values.view, .shape = std::move(values.shape), .decoded = std::move(values.owned)};
  }

  Result<QuantPicture> picture(size_t index, const TensorView* twin) const override {
    TTAP_ASSIGN(const GroupParts parts, group_of(pass_, row_of(index)));
    TTAP_ASSIGN(const QuantGroup group, read_group(pass_, parts));
    return quant_picture(group, twin);
  }
  Result<QuantStats> quant_stats(size_t index, const TensorView& twin) const override {
    TTAP_ASSIGN(const GroupParts parts, group_of(pass_, row_of(index)));
    TTAP_ASSIGN(const QuantGroup group, read_group(pass_, parts));
    const RealValues values(twin);
    return quant_statistics(values.view(), group);
  }

  // A file that TensorTap did not name has no rank and no number.
  std::string place() const override {
    const auto& path = pass_.info().path;
    std::error_code ignored;
    if (!parse_pass_name(path, std::filesystem::is_directory(path, ignored)) && !parse_step_folder(path))
      return path.filename().string();
    return fmt::format("rank {}, pass {}", rank_, pass_.info().number);
  }

 private:
  // The row of the pass that a tensor is.
  size_t row_of(size_t index) const { return rows_.empty() ? index : rows_[index]; }

  Pass pass_;
  uint32_t rank_;
  ModelFacts model_;
  std::vector<uint32_t> rows_;   // what is compared: all but states of random generators; empty: all
  std::vector<bool> decodable_;  // quantized tensors that can be read; empty when there is none
};

}  // namespace

Result<Pass> open_found_pass(const PassFile& file) {
  auto opened = Pass::open(file.path);
  if (opened.ok() || file.path.extension() != ".incomplete") return opened;
  auto renamed = file.path;
  return Pass::open(renamed.replace_extension());
}

std::unique_ptr<Side> make_side(Pass pass, uint32_t rank, ModelFacts model) {
  return std::make_unique<PassSide>(std::move(pass), rank, std::move(model));
}

}  // namespace ttap
