#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "ttap/api.h"

namespace ttap {

// One code per cause, so that a caller can act on it and a test can name it.
enum class ErrorCode : uint8_t {
  kInvalidArgument,  // the caller asked for something that cannot be
  kNotFound,         // no such file, run, pass or key
  kIo,               // the operating system said no; errno is in the message
  kNoSpace,          // the disk or the quota is full
  kNotThisFormat,    // the bytes are of another kind of file
  kVersion,          // a version or variant this build cannot read
  kTruncated,        // the file ends before what it promises
  kCorrupt,          // a checksum, hash or structure does not hold
  kUnsupported,      // legal, but outside what this reader or writer handles
  kTooLarge,         // larger than a documented limit
  kForbidden,        // a pickle that wants to run code
  kNotRecorded,      // the record is there, its bytes are not
};

TTAP_API const char* to_string(ErrorCode code);

// What happened, where, and what to do about it. Empty fields are left out of describe().
struct TTAP_API Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
  std::string path = {};                // the file, if there is one
  std::optional<uint64_t> offset = {};  // where in it
  std::string hint = {};                // how to mend it

  std::string describe() const;
  Error&& with_path(std::string p) && {
    if (path.empty()) path = std::move(p);
    return std::move(*this);
  }
};

namespace detail {
[[noreturn]] TTAP_API void check_failed(const char* what, const char* file, int line);
}

// Guards our own bugs, never data; stays on in release builds.
#define TTAP_CHECK(condition) ((condition) ? void(0) : ::ttap::detail::check_failed(#condition, __FILE__, __LINE__))

// Either a value or an Error. Reading the wrong one is a bug of ours and aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return held(std::get_if<0>(&state_)); }
  const T& value() const& { return held(std::get_if<0>(&state_)); }
  T&& value() && { return std::move(held(std::get_if<0>(&state_))); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return held(std::get_if<1>(&state_)); }
  Error&& error() && { return std::move(held(std::get_if<1>(&state_))); }

 private:
  template <class U>
  static U& held(U* side) {
    TTAP_CHECK(side != nullptr);
    return *side;
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return TTAP_CHECK(!ok()), *error_; }
  Error&& error() && { return TTAP_CHECK(!ok()), std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

#define TTAP_CONCAT_(a, b) a##b
#define TTAP_CONCAT(a, b) TTAP_CONCAT_(a, b)

// TTAP_TRY(expr): return the error of a Status, or go on.
#define TTAP_TRY(expr)                                            \
  do {                                                            \
    auto ttap_status = (expr);                                    \
    if (!ttap_status.ok()) return std::move(ttap_status).error(); \
  } while (0)

// TTAP_ASSIGN(auto x, expr): x is the value of a Result, or the function returns its error.
#define TTAP_ASSIGN(lhs, expr) TTAP_ASSIGN_(TTAP_CONCAT(ttap_result_, __LINE__), lhs, expr)
#define TTAP_ASSIGN_(result, lhs, expr)               \
  auto result = (expr);                               \
  if (!result.ok()) return std::move(result).error(); \
  lhs = std::move(result).value()

}  // namespace ttap
