#include <cstring>

#include "format/layout.h"
#include "store/pass_source.h"
#include "store/run_layout.h"

namespace ttap {
namespace fs = std::filesystem;
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Result<Pass> Pass::open(const fs::path& path) {
  TTAP_ASSIGN(const auto file, MappedFile::open(path));
  (void)starts_with;
  TTAP_ASSIGN(auto source, open_segment_source(path));
  return Pass(std::move(source));
}

Pass::Pass(std::unique_ptr<Source> source) : source_(std::move(source)) {}
Pass::Pass(Pass&&) noexcept = default;
Pass& Pass::operator=(Pass&&) noexcept = default;
Pass::~Pass() = default;

const PassInfo& Pass::info() const { return source_->info; }
size_t Pass::event_count() const { return source_->event_count(); }
EventRecord Pass::event(size_t index) const { return source_->event(index); }
size_t Pass::tensor_count() const { return source_->tensor_count(); }
TensorRecord Pass::tensor(size_t index) const { return source_->tensor(index); }
std::optional<size_t> Pass::find(const Key& key) const { return source_->find(key); }
Result<TensorView> Pass::read(size_t index) const { return source_->read(index); }

}  // namespace ttap
