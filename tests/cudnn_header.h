// The enumerators of the genuine headers of cuDNN, if a wheel has brought them.
#ifndef DLHOOK_TESTS_CUDNN_HEADER_H_
#define DLHOOK_TESTS_CUDNN_HEADER_H_

#include <glob.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace dlhook {

using Enumerators = std::vector<std::pair<std::string, int64_t>>;  // in order; several may have one number

// By the enum's name; empty: there are no headers. They are those of the nvidia-cudnn wheels of build/venv-nvidia of `root`, or of
// the folders in DLHOOK_NVIDIA_INCLUDE.
inline std::map<std::string, Enumerators> ReadCudnnEnums(const std::string& root) {
  const char* const folders = getenv("DLHOOK_NVIDIA_INCLUDE");
  std::string pattern = root + "/build/venv-nvidia/lib/python3*/site-packages/nvidia/cudnn/include";
  if (folders != nullptr && *folders != '\0')
    pattern = "{" + std::regex_replace(std::string(folders), std::regex(":"), ",") + ",}";
  glob_t found = {};
  std::map<std::string, Enumerators> enums;
  if (glob((pattern + "/cudnn_*_v[0-9]*.h").c_str(), GLOB_BRACE, nullptr, &found) != 0) return enums;
  const std::regex comments(R"(/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|//[^\n]*)");
  const std::regex one_enum(R"(enum\s*\{([^{}]*)\}\s*(\w+))");
  const std::regex enumerator(R"((\w+)[^=,]*(?:=\s*([^,]*[^,\s]))?)");
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    std::ifstream file(found.gl_pathv[i]);
    const std::string text = std::regex_replace(std::string(std::istreambuf_iterator<char>(file), {}), comments, "");
    for (std::sregex_iterator it(text.begin(), text.end(), one_enum); it != std::sregex_iterator(); ++it) {
      const std::string body = (*it)[1];
      Enumerators& all = enums[(*it)[2]];
      std::map<std::string, int64_t> known;
      int64_t next = 0;
      for (std::sregex_iterator e(body.begin(), body.end(), enumerator); e != std::sregex_iterator(); ++e) {
        const std::string value = (*e)[2];  // nothing, a number, or an earlier one's name
        if (!value.empty()) next = known.contains(value) ? known[value] : strtoll(value.c_str(), nullptr, 0);
        known[(*e)[1]] = next;
        all.emplace_back((*e)[1], next++);
      }
    }
  }
  globfree(&found);
  return enums;
}

}  // namespace dlhook

#endif  // DLHOOK_TESTS_CUDNN_HEADER_H_
