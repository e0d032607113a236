#include <cstdint>

#include "foreign/formats.h"
#include "store/foreign/npy.h"

// No bytes may crash the reader, and every tensor it hands out must lie inside them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto parsed = ttap::parse_npy(bytes); parsed.ok()) ttap::test::touch(*parsed);
  return 0;
}
