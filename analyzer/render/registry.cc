// The formats of --format.
#include "analyzer/render/renderer.h"

namespace dlhook::analyzer::inline render {

const std::vector<Renderer>& Renderers() {
  static const auto& kRenderers = *new std::vector<Renderer>{
      {"text", "aligned columns and units for people", RenderText},
      {"csv", "a header line and raw numbers; tables are separated by an empty line", RenderCsv},
      {"json", "one object: tables with typed columns, and the run", RenderJson},
  };
  return kRenderers;
}

}  // namespace dlhook::analyzer::render
