#include "cli/arguments/against.h"

#include <algorithm>

namespace ttap::cli {

Result<Against> Against::open(const std::string& path) {
  Against against;
  if (path.empty()) return against;
  auto run = Run::open(path);
  if (!run.ok()) {
    Error error = std::move(run).error();
    error.message = "--against: " + error.message;
    return error;
  }
  against.run_ = std::make_unique<const Run>(std::move(run).value());
  return against;
}

Result<const Pass*> Against::pass_for(const SelectedPass& selected) {
  pass_.reset();
  if (run_ == nullptr) return nullptr;
  const auto rank = run_->ranks.size() == 1 ? run_->ranks.begin()
                                            : std::ranges::find(run_->ranks, selected.rank->number, &Rank::number);
  if (rank == run_->ranks.end()) return nullptr;
  const auto file = rank->passes.size() == 1
                        ? rank->passes.begin()
                        : std::ranges::find(rank->passes, selected.file->number, &PassFile::number);
  if (file == rank->passes.end()) return nullptr;
  TTAP_ASSIGN(Pass pass, open_pass({&*rank, &*file}));
  pass_ = std::make_unique<const Pass>(std::move(pass));
  return pass_.get();
}

}  // namespace ttap::cli
