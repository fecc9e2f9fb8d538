// The formats of --format.
#include "analyzer/render/renderer.h"

namespace dlhook::analyzer::inline render {

const std::vector<Renderer>& Renderers() {
  static const auto& kRenderers = *new std::vector<Renderer>{
      {"text", "aligned columns and units for people", RenderText, true},
      {"csv", "a header line and raw numbers; tables are separated by an empty line", RenderCsv, false, CsvNotes},
      {"json", "one object: tables with typed columns, and the run", RenderJson},
      {"markdown", "tables for issues and wikis, with the values of text", RenderMarkdown, true},
      {"html", "the tables alone, as a plain page without scripts; with pictures: --html FILE", RenderHtml, true},
  };
  return kRenderers;
}

}  // namespace dlhook::analyzer::render
