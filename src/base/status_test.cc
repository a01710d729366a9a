// An error travels up through RETURN_IF_ERROR and ASSIGN_OR_RETURN with its message.
#include "base/status.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::kInvalid, "{} is odd", n);
  return n / 2;
}
Status quarter(int n, int* out) {
  ASSIGN_OR_RETURN(const int h, half(n));
  ASSIGN_OR_RETURN(*out, half(h));
  return {};
}

TEST(Status, CarriesItsMessageUp) {
  int out = 0;
  EXPECT_TRUE(quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  const Status status = quarter(6, &out).at("quarter");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(), "quarter: 3 is odd");
}

}  // namespace
}  // namespace forebay::base
