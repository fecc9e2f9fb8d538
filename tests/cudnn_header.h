// The enumerators of the genuine headers of cuDNN, if a wheel has brought them.
#pragma once

#include <glob.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace dlhook {

using Enumerators = std::vector<std::pair<std::string, int64_t>>;  // in order; several may have one number

// std::regex would do for all of this, but needs a stack frame for each character.
inline std::string WithoutComments(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const bool is_block = text.compare(at, 2, "/*") == 0;
    if (is_block || text.compare(at, 2, "//") == 0) {
      const size_t end = text.find(is_block ? "*/" : "\n", at + 2);
      at = end == std::string::npos ? text.size() : end + (is_block ? 2 : 0);
    } else {
      result += text[at++];
    }
  }
  return result;
}

// What stands before an attribute.
inline std::string FirstWord(const std::string& text) { return text.substr(0, text.find_first_of(" \t\r\n")); }

inline std::string Stripped(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// Of "A, B = 3, C = B".
inline Enumerators EnumeratorsIn(const std::string& body) {
  Enumerators all;
  std::map<std::string, int64_t> known;
  int64_t next = 0;
  std::istringstream parts(body);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    const std::string name = FirstWord(Stripped(part.substr(0, equals)));
    if (name.empty()) continue;
    if (equals != std::string::npos) {
      const std::string value = Stripped(part.substr(equals + 1));  // a number, or an earlier one's name
      next = known.contains(value) ? known[value] : strtoll(value.c_str(), nullptr, 0);
    }
    known[name] = next;
    all.emplace_back(name, next++);
  }
  return all;
}

// By the enum's name; empty: there are no headers. They are those of the nvidia-cudnn wheels of build/venv-nvidia of `root`, or of
// the folders in DLHOOK_NVIDIA_INCLUDE.
inline std::map<std::string, Enumerators> ReadCudnnEnums(const std::string& root) {
  const char* const folders = getenv("DLHOOK_NVIDIA_INCLUDE");
  std::string pattern = root + "/build/venv-nvidia/lib/python3*/site-packages/nvidia/cudnn/include";
  if (folders != nullptr && *folders != '\0') {
    pattern = std::string("{") + folders + ",}";
    std::replace(pattern.begin(), pattern.end(), ':', ',');
  }
  glob_t found = {};
  std::map<std::string, Enumerators> enums;
  if (glob((pattern + "/cudnn_*_v[0-9]*.h").c_str(), GLOB_BRACE, nullptr, &found) != 0) return enums;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    std::ifstream file(found.gl_pathv[i]);
    const std::string text = WithoutComments(std::string(std::istreambuf_iterator<char>(file), {}));
    for (size_t at = text.find("enum"); at != std::string::npos; at = text.find("enum", at + 1)) {
      const size_t open = text.find_first_not_of(" \t\r\n", at + 4);
      if (open == std::string::npos || text[open] != '{') continue;
      const size_t close = text.find('}', open), end = text.find(';', open);
      if (close == std::string::npos || end == std::string::npos) break;
      Enumerators& all = enums[FirstWord(Stripped(text.substr(close + 1, end - close - 1)))];
      const Enumerators more = EnumeratorsIn(text.substr(open + 1, close - open - 1));
      all.insert(all.end(), more.begin(), more.end());
    }
  }
  globfree(&found);
  return enums;
}

}  // namespace dlhook
