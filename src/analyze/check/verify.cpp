#include "analyze/check/verify.h"

namespace ttap {

VerifyReport verify_bytes(const Pass& pass, const ScanOptions& options) {
  VerifyReport report;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    if (options.progress) options.progress(record);
    if (options.wanted && !options.wanted(record)) continue;
    // Bytes that were kept in another pass and are not there any more were kept, too: reading them says so.
    if (!record.has_bytes && !pass.missing_from(i)) {
      ++report.without_bytes;
    } else if (!record.has_fingerprint) {
      ++report.without_hash;
    } else if (auto view = pass.read(i); !view.ok()) {
      report.damaged.push_back({i, std::move(view).error()});
    } else {
      ++report.tensors;
      report.bytes += record.byte_count;
    }
  }
  return report;
}

}  // namespace ttap
