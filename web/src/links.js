// Where on this page something is shown.
import {page, table} from "./data.js";

// Tables with a view of their own.
const VIEWS = {
  findings: "answer",
  layers: "layers",
  steps: "steps",
  phases: "steps",
  latency: "steps",
  algorithms: "algorithms",
  candidates: "algorithms",
  tuning: "algorithms",
  layout: "layout",
  gemm: "products",
  copies: "copies",
  gpu_idle: "gpu",
  devices: "gpu",
  overlap: "gpu",
  ranks: "ranks",
  collectives: "ranks",
  counters: "counters",
  counters_over_time: "counters",
  callers: "callers",
  stacks: "callers",
  capabilities: "environment",
  summary: "environment",
  accounting: "accounting",
};

// The address of a table; null: this page does not have it.
export function addressOf(name) {
  const found = table(name);
  if (!found || found.rows.length === 0) return null;
  return VIEWS[name] && page().kind === "report" ? "#" + VIEWS[name] : "#table/" + name;
}

// "table gemm, column types" -> the address of the table gemm.
export function addressOfEvidence(evidence) {
  const found = /\btable (\w+)/.exec(evidence || "");
  return found ? addressOf(found[1]) : null;
}
