// What a child process finds out, as a struct that JSON has (NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE).
#pragma once

#include <nlohmann/json.hpp>

#include "analyzer/symbols/isolated.h"

namespace dlhook::analyzer::inline symbols {

// Why there is no answer; empty: there is one.
template <typename Work, typename Answer>
std::string AskIsolated(int seconds, const Work& work, Answer* answer,
                        IsolatedMemory memory = IsolatedMemory::kBounded) {
  using Json = nlohmann::json;
  const auto text = [&](size_t) { return Json(work()).dump(-1, ' ', false, Json::error_handler_t::replace); };
  const IsolatedResult result = RunIsolated(1, seconds, text, memory).front();
  if (result.failure.empty()) Json::parse(result.bytes).get_to(*answer);
  return result.failure;
}

}  // namespace dlhook::analyzer::symbols
