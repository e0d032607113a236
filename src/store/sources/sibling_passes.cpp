#include "store/sources/sibling_passes.h"

#include <fmt/format.h>

#include "store/sources/run_layout.h"

namespace ttap {

std::filesystem::path SiblingPasses::path_of(uint32_t pass) const { return directory_ / (pass_stem(pass) + ".ttap"); }

SiblingPasses::Sibling SiblingPasses::open(uint32_t pass) const {
  Sibling sibling;
  auto file = MappedFile::open(path_of(pass));
  if (!file.ok()) {
    const Error& error = file.error();
    sibling.problem =
        error.code == ErrorCode::kNotFound ? "is not here" : fmt::format("cannot be read: {}", error.message);
    return sibling;
  }
  const auto view = format::SegmentView::parse((*file)->bytes());
  if (!view.ok()) {
    sibling.problem = fmt::format("cannot be read: {}", view.error().message);
    return sibling;
  }
  if (!view->problem().empty()) sibling.problem = fmt::format("is damaged: {}", view->problem());
  for (size_t i = 0; i < view->tensor_count(); ++i) {
    const format::TensorRow row = view->tensor_row(i);
    if ((row.flags & format::kHasBytes) == 0) continue;
    sibling.blobs.emplace(Hash128{row.hash_low, row.hash_high}, view->blob(i));
  }
  sibling.file = std::move(file).value();
  return sibling;
}

const SiblingPasses::Sibling& SiblingPasses::opened(uint32_t pass) const {
  const auto found = opened_.find(pass);
  return found != opened_.end() ? found->second : opened_.emplace(pass, open(pass)).first->second;
}

std::string SiblingPasses::problem_of(uint32_t pass) const {
  const std::lock_guard lock(mutex_);
  return opened(pass).problem;
}

std::optional<std::span<const std::byte>> SiblingPasses::find(uint32_t pass, const Hash128& hash,
                                                              uint64_t byte_count) const {
  const std::lock_guard lock(mutex_);
  const auto& blobs = opened(pass).blobs;
  const auto found = blobs.find(hash);
  if (found == blobs.end() || found->second.size() != byte_count) return std::nullopt;
  return found->second;
}

}  // namespace ttap
