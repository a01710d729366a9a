#include "prep/wire/image_fields.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/json_fields.h"
#include "base/random.h"
#include "prep/testing/same.h"
#include "prep/wire/enum_names.h"

namespace forebay::prep {
namespace {

using base::each_field;
using base::FieldReader;
using base::FieldWriter;
using nlohmann::json;

// Fills described values with any numbers, whether they make sense or not.
class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed, base::Purpose::kTest) {}

  template <class T>
  void fill(T* out) {
    if constexpr (std::is_same_v<T, bool>) {
      *out = random_.below(2) == 1;
    } else if constexpr (std::is_same_v<T, double>) {
      fill_number<uint64_t>(out);
    } else if constexpr (std::is_same_v<T, float>) {
      fill_number<uint32_t>(out);
    } else if constexpr (std::is_integral_v<T>) {
      *out = static_cast<T>(random_.next_u64());
    } else if constexpr (std::is_enum_v<T>) {
      do {
        *out = static_cast<T>(random_.below(32));
      } while (name_of(*out) == nullptr);
    } else {
      each_field(*out, [&](const char*, auto& field) { fill(&field); });
    }
  }
  template <class T>
  void fill(std::optional<T>* out) {
    if (random_.below(2) == 1) fill(&out->emplace());
  }
  template <class... Kinds>
  void fill(std::variant<Kinds...>* out) {
    fill_kind(out, random_.below(sizeof...(Kinds)));
  }
  template <class... Kinds>
  void fill_kind(std::variant<Kinds...>* out, size_t kind) {
    size_t at = 0;
    const auto fill_one = [&]<class Kind>(const Kind*) {
      if (at++ == kind) fill(&out->template emplace<Kind>());
    };
    (fill_one(static_cast<const Kinds*>(nullptr)), ...);
  }
  template <class T, size_t kCount>
  void fill(std::array<T, kCount>* out) {
    for (T& each : *out) fill(&each);
  }
  template <class T>
  void fill(std::vector<T>* out) {
    if (++depth_ < 4) out->resize(random_.below(4));
    for (T& each : *out) fill(&each);
    --depth_;
  }

 private:
  template <class Bits, class T>
  void fill_number(T* out) {
    do {
      *out = std::bit_cast<T>(static_cast<Bits>(random_.next_u64()));
    } while (!std::isfinite(*out) || *out == 0);
    if (random_.below(8) == 0) *out = 0;
  }

  base::Random random_;
  int depth_ = 0;
};

template <class T>
void expect_round_trip(const T& value, uint64_t seed) {
  FieldWriter writer("job");
  const std::string text = writer.write(value).dump();
  ASSERT_TRUE(writer.status().ok()) << writer.status().message() << ", seed " << seed;
  FieldReader reader("job");
  T read;
  reader.read(json::parse(text), &read);
  ASSERT_TRUE(reader.status().ok()) << reader.status().message() << ", seed " << seed;
  EXPECT_TRUE(Same()(value, read)) << text << ", seed " << seed;
  EXPECT_EQ(FieldWriter("job").write(read).dump(), text);
}

TEST(ImageFields, EveryKindOfStepComesBackWithAnyNumbers) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Filler filler(seed);
    for (size_t kind = 0; kind < std::variant_size_v<image::Step>; ++kind) {
      image::Step step;
      filler.fill_kind(&step, kind);
      ASSERT_EQ(step.index(), kind);
      expect_round_trip(step, seed);
    }
  }
}

TEST(ImageFields, EveryKindOfActionComesBackWithAnyNumbers) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Filler filler(seed);
    for (size_t kind = 0; kind < std::variant_size_v<image::Action>; ++kind) {
      image::Action action;
      filler.fill_kind(&action, kind);
      ASSERT_EQ(action.index(), kind);
      expect_round_trip(action, seed);
    }
  }
}

TEST(ImageFields, TransformsComeBackWithAnyNumbers) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    image::Transform transform;
    image::TensorOptions tensor;
    Filler filler(seed);
    filler.fill(&transform);
    filler.fill(&tensor);
    expect_round_trip(transform, seed);
    expect_round_trip(tensor, seed);
  }
}

template <class T>
std::string error_of(const char* text) {
  FieldReader reader("job");
  T read{};
  reader.read(json::parse(text), &read);
  EXPECT_TRUE(reader.status().ok() || reader.status().code() == base::Code::kInvalid);
  return reader.status().message();
}

TEST(ImageFields, ErrorsNameThePlace) {
  using image::Step;
  EXPECT_EQ(error_of<Step>(R"({"RandomApply":{"probability":0.5,"steps":[{"Pad":3}]}})"),
            "job: RandomApply.steps.0.Pad must be an object");
  EXPECT_EQ(error_of<Step>(R"({"Cropping":{"crop":{"CentreCrop":{"resize":null}}}})"),
            "job: Cropping.size is missing");
  EXPECT_EQ(error_of<Step>(R"({"No\n":{}})"),
            R"(job: its text has a member that Forebay does not know: "No\n")");
  EXPECT_EQ(error_of<image::Range>(R"({"max":1.5,"min":0})"),
            "job: min must be a number with a point or an exponent");
  EXPECT_EQ(error_of<image::Range>(R"({"max":1.5,"min":0.0,"mid":0.0})"),
            R"(job: its text has a member that Forebay does not know: "mid")");
  EXPECT_EQ(error_of<image::PermuteChannels>(R"({"order":[0,1,256]})"),
            "job: order.2 must be a whole number from 0 to 255");
  EXPECT_EQ(error_of<image::PermuteChannels>(R"({"order":[0,1]})"),
            "job: order must be a list of 3");
  EXPECT_EQ(error_of<image::WarpOptions>(R"({"fill":[0.0,1e39,0.0],"interpolation":"nearest"})"),
            "job: fill.1 is too large");
  EXPECT_EQ(error_of<image::WarpOptions>(R"({"fill":null,"interpolation":"cubic"})"),
            "job: interpolation must be the name of a known value");
}

TEST(ImageFields, NumbersThatJsonDoesNotHaveAreRefused) {
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    FieldWriter writer("job");
    static_cast<void>(writer.write(image::Range{value, 1}));
    EXPECT_EQ(writer.status().code(), base::Code::kInvalid) << value;
  }
}

TEST(ImageFields, EnumeratorsHaveNames) {
  FieldWriter writer("job");
  static_cast<void>(writer.write(static_cast<image::Policy>(3)));
  EXPECT_EQ(writer.status().code(), base::Code::kInvalid);
}

}  // namespace
}  // namespace forebay::prep
