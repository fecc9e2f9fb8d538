// Op definitions as text, decoded.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "analyzer/ops/decode_op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer {

inline trace::OpDefinition ParseDefinition(const std::string& text) {
  trace::OpDefinition definition;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &definition)) << text;
  return definition;
}

inline Op DecodeText(const std::string& text) { return DecodeOp(ParseDefinition(text)); }

}  // namespace dlhook::analyzer
