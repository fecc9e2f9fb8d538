// A renderer turns a report into bytes. It is a pure function: no I/O, no state.
//
// To add a format:
//   1. write analyzer/render/NAME.cc with a function `std::string RenderName(const Report&)`,
//   declared below;
//   2. add its line to kRenderers in analyzer/render/formats.cc.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline render {

struct Report {
  const TraceModel* run = nullptr;  // for its name, processes, losses and oddities; null: the tables belong to no run
  std::vector<Table> tables;
  int width = 80;                                        // characters of a line
  bool color = false;                                    // whether the output understands colour
  const TraceModel* base = nullptr;                      // for a diff: the run that `run` is compared with
  std::vector<const TraceModel*> more_bases, more_runs;  // of a diff of several runs a side: those behind the first
  std::string environment;                               // for a diff: what the runs ran on differently; empty: nothing
};

struct Renderer {
  absl::string_view name;
  absl::string_view summary;  // for --help
  std::string (*render)(const Report&);
  bool is_for_people = false;  // rows in the order of their weight, without empty tables
  // What it has no place for, to be said elsewhere; null: nothing.
  std::vector<std::string> (*notes)(const Report&) = nullptr;
};

const std::vector<Renderer>& Renderers();

std::string RenderText(const Report& report);  // for people
std::string RenderCsv(const Report& report);   // RFC 4180
std::vector<std::string> CsvNotes(const Report& report);
std::string RenderJson(const Report& report);
std::string RenderMarkdown(const Report& report);

// What a report says about the run in addition to its tables.

// Why something was lost, for the user.
std::string LossSentence(LossReason reason);

// Remarks that a reader of the tables must know: losses, capabilities that were refused or lost, output in another
// place, traces without an end, oddities. Most severe first; empty if there are none.
std::vector<std::string> RunRemarks(const TraceModel& run);
// Of the report's run; of a diff those of both sides, marked with the side.
std::vector<std::string> ReportRemarks(const Report& report);

}  // namespace dlhook::analyzer::render
