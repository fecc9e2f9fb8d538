// Three significant digits and a prefix.
#include "analyzer/table/human.h"

#include <cmath>
#include <cstddef>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dlhook::analyzer::inline table {
namespace {

struct Scale {
  double factor;
  absl::string_view unit;
};

// The largest scale that leaves at least 1 before the point.
constexpr Scale kTimes[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
constexpr Scale kBytes[] = {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
constexpr Scale kFlops[] = {{1, "FLOP"},    {1e3, "kFLOP"},  {1e6, "MFLOP"},
                            {1e9, "GFLOP"}, {1e12, "TFLOP"}, {1e15, "PFLOP"}};

std::string ThreeDigits(double value) {
  const double size = std::fabs(value);
  return absl::StrFormat("%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value);
}

// 999.6 would be rounded to 1000: use 1.00 of the next unit.
template <size_t kCount>
std::string Scaled(double value, const Scale (&scales)[kCount]) {
  size_t i = 0;
  while (i + 1 < kCount && std::fabs(value) >= scales[i + 1].factor * 0.9995) ++i;
  if (i == 0) return absl::StrCat(absl::StrFormat("%.0f", value), " ", scales[0].unit);
  return absl::StrCat(ThreeDigits(value / scales[i].factor), " ", scales[i].unit);
}

std::string HumanNumber(double value, absl::string_view unit, bool is_integer) {
  if (!std::isfinite(value)) return "-";
  if (unit == "ns") return Scaled(value, kTimes);
  if (unit == "bytes") return Scaled(value, kBytes);
  if (unit == "flops") return Scaled(value, kFlops);
  if (unit == "%") return absl::StrFormat("%.1f%%", value);
  return is_integer ? absl::StrFormat("%.0f", value) : ThreeDigits(value);
}

}  // namespace

std::string HumanCell(const Cell& cell, absl::string_view unit) {
  if (const auto* text = std::get_if<CellString>(&cell)) return *text;
  if (const auto* real = std::get_if<double>(&cell)) return HumanNumber(*real, unit, false);
  if (const auto* integer = std::get_if<int64_t>(&cell)) {
    if (unit.empty()) return absl::StrCat(*integer);
    return HumanNumber(static_cast<double>(*integer), unit, true);
  }
  return "-";
}

std::string HumanTime(double ns) { return HumanNumber(ns, "ns", false); }

bool IsUnitInCell(absl::string_view unit) {
  return unit.empty() || unit == "ns" || unit == "bytes" || unit == "flops" || unit == "%";
}

}  // namespace dlhook::analyzer::table
