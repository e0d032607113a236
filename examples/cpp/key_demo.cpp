// Keys: how one tensor of a pass is addressed, printed and read back.
#include <ttap/key.h>

#include <cstdio>

int main() {
  const ttap::Key key{.name = "model.layers.0/attn", .call = 2, .role = "in", .path = ttap::append_path("", "query")};
  const std::string text = ttap::to_string(key);
  std::printf("printed    %s\n", text.c_str());
  std::printf("file name  %s\n", ttap::file_name_of(text).c_str());

  const auto parsed = ttap::parse_key(text);
  if (!parsed || *parsed != key) {
    std::fprintf(stderr, "the key did not come back as it was written\n");
    return 1;
  }
  const auto wrong = ttap::parse_key("mlp@/0");
  std::printf("not a key  %s\n", wrong ? "?" : wrong.error().describe().c_str());
  return wrong ? 1 : 0;
}
