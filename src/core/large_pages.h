#pragma once

#include <cstddef>

namespace ttap {

// Asks for large pages for memory that is about to be written whole, where it is much: a first write to a page costs
// more than filling it, and a large page is 512 of them. Nothing is lost where there are none.
void prefer_large_pages(void* data, size_t bytes);

}  // namespace ttap
