// Numbers for people, as analyzer/table/table_ops.cc writes them: three digits and a prefix.

// Units and how many of one are the next.
const SCALES = {
  ns: [1000, "ns", "us", "ms", "s"],
  bytes: [1024, "B", "KiB", "MiB", "GiB", "TiB"],
  flops: [1000, "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"],
};

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scaled(value, [step, ...units]) {
  let i = 0;
  while (i + 1 < units.length && Math.abs(value) >= step ** (i + 1) * 0.9995) ++i;
  return (i === 0 ? value.toFixed(0) : threeDigits(value / step ** i)) + " " + units[i];
}

export function human(value, unit, type) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (SCALES[unit]) return scaled(value, SCALES[unit]);
  if (unit === "%") return value.toFixed(1) + " %";
  return type === "integer" || Math.abs(value) >= 1000 ? groups(Math.round(value)) : threeDigits(value);
}

export const time = (ns) => human(ns, "ns");
export const percent = (value) => human(value, "%");

// 12 345 678, with narrow spaces.
export function groups(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

// Whether human() writes the unit.
export const hasUnitInside = (unit) => !unit || unit === "%" || SCALES[unit] !== undefined;

// The same always with its unit.
export function amount(value, unit, type) {
  if (unit === "GFLOP/s" && value >= 1000) return amount(value / 1000, "TFLOP/s");
  if (unit === "GB/s" && value < 0.1) return amount(value * 1000, "MB/s");
  return human(value, unit, type) + (hasUnitInside(unit) || typeof value !== "number" ? "" : " " + unit);
}

// The value of a cell with its unit and all its digits.
export function exact(value, unit) {
  if (typeof value !== "number") return value === null ? "not known" : String(value);
  const number = Number.isInteger(value) ? groups(value) : String(value);
  return unit ? number + " " + unit : number;
}
