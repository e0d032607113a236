#include "store/sibling_passes.h"

#include "store/run_layout.h"

namespace ttap {

std::filesystem::path SiblingPasses::path_of(uint32_t pass) const { return directory_ / (pass_stem(pass) + ".ttap"); }

SiblingPasses::Sibling SiblingPasses::open(uint32_t pass) const {
  Sibling sibling;
  auto file = MappedFile::open(path_of(pass));
  if (!file.ok()) return sibling;
  const auto view = format::SegmentView::parse((*file)->bytes());
  if (!view.ok()) return sibling;
  for (size_t i = 0; i < view->tensor_count(); ++i) {
    const format::TensorRow row = view->tensor_row(i);
    if ((row.flags & format::kHasBytes) == 0) continue;
    sibling.blobs.emplace(Hash128{row.hash_low, row.hash_high}, view->blob(i));
  }
  sibling.file = std::move(file).value();
  return sibling;
}

std::optional<std::span<const std::byte>> SiblingPasses::find(uint32_t pass, const Hash128& hash,
                                                              uint64_t byte_count) const {
  const std::lock_guard lock(mutex_);
  auto sibling = opened_.find(pass);
  if (sibling == opened_.end()) sibling = opened_.emplace(pass, open(pass)).first;
  const auto found = sibling->second.blobs.find(hash);
  if (found == sibling->second.blobs.end() || found->second.size() != byte_count) return std::nullopt;
  return found->second;
}

}  // namespace ttap
