#include <cstdint>
#include <cstring>

#include "foreign/formats.h"
#include "mended_segment.h"
#include "read_pass.h"

// Two segments of a rank, of which the second may have bytes in the first: four bytes say how long the first one is.
// Whatever they hold, the second can be opened and read, with its quantized tensors, or says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttap;
  static const test::TemporaryFolder folder;
  uint32_t length = 0;
  if (size < sizeof length) return 0;
  std::memcpy(&length, data, sizeof length);
  const std::string_view rest(reinterpret_cast<const char*>(data) + sizeof length, size - sizeof length);
  length = std::min<uint32_t>(length, static_cast<uint32_t>(rest.size()));
  std::vector<std::byte> first = test::bytes_of(rest.substr(0, length)), second = test::bytes_of(rest.substr(length));
  fuzz::mend_segment(first);
  fuzz::mend_segment(second);
  const auto write = [](const char* name, const std::vector<std::byte>& bytes) {
    test::write_text(folder / name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  write("pass00000.ttap", first);
  write("pass00001.ttap", second);
  if (const auto pass = Pass::open(folder / "pass00001.ttap"); pass.ok()) fuzz::read_everything(*pass);
  return 0;
}
