// Numbers for people, as analyzer/table/table_ops.cc writes them: three digits and a prefix.

const TIMES = [
  [1, "ns"],
  [1e3, "us"],
  [1e6, "ms"],
  [1e9, "s"],
];
const BYTES = [
  [1, "B"],
  [2 ** 10, "KiB"],
  [2 ** 20, "MiB"],
  [2 ** 30, "GiB"],
  [2 ** 40, "TiB"],
];
const FLOPS = [
  [1, "FLOP"],
  [1e3, "kFLOP"],
  [1e6, "MFLOP"],
  [1e9, "GFLOP"],
  [1e12, "TFLOP"],
  [1e15, "PFLOP"],
];
const SCALES = {ns: TIMES, bytes: BYTES, flops: FLOPS};

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scaled(value, scales) {
  let i = 0;
  while (i + 1 < scales.length && Math.abs(value) >= scales[i + 1][0] * 0.9995) ++i;
  return (i === 0 ? value.toFixed(0) : threeDigits(value / scales[i][0])) + " " + scales[i][1];
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

// The value of a cell with its unit and all its digits.
export function exact(value, unit) {
  if (typeof value !== "number") return value === null ? "not known" : String(value);
  const number = Number.isInteger(value) ? groups(value) : String(value);
  return unit ? number + " " + unit : number;
}
