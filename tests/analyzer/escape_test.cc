// Each kind of output, character by character. Whole commands on hostile traces: hostile_strings_test.cc.
#include "analyzer/render/escape.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/render/text_columns.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer {
namespace {

TEST(VisibleText, KeepsWhatCanBeSeen) {
  EXPECT_EQ(VisibleText("f(int) jos\u00e9 \u20ac \U0001f40d \u4e2d"), "f(int) jos\u00e9 \u20ac \U0001f40d \u4e2d");
  EXPECT_EQ(VisibleText(""), "");
}

TEST(VisibleText, SpellsOutWhatActsOnTerminals) {
  EXPECT_EQ(VisibleText("a\nb\tc\r\x7f\x1b[31m\x07"), "a\\nb\\tc\\x0d\\x7f\\x1b[31m\\x07");
  EXPECT_EQ(VisibleText(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(VisibleText("\u0080\u009b\u009f\u00a0"), "\\u0080\\u009b\\u009f\u00a0");
}

TEST(VisibleText, SpellsOutWhatTurnsOrHidesText) {
  EXPECT_EQ(VisibleText("\u202a\u202e\u2066\u2069\u200e\u200f\u061c"),
            "\\u202a\\u202e\\u2066\\u2069\\u200e\\u200f\\u061c");
  EXPECT_EQ(VisibleText("\u200b\u200d\u2028\u2029\u2060\ufeff\u00ad"),
            "\\u200b\\u200d\\u2028\\u2029\\u2060\\ufeff\\u00ad");
  EXPECT_EQ(VisibleText("\U000e0041"), "\\U000e0041");
}

TEST(VisibleText, SpellsOutWhatIsNoUtf8) {
  EXPECT_EQ(VisibleText("\xbd broken \xc3"), "\\xbd broken \\xc3");
  EXPECT_EQ(VisibleText("\xc3\xa9\xff"), "\u00e9\\xff");
  EXPECT_EQ(VisibleText("\xc0\x9b"), "\\xc0\\x9b");                    // overlong
  EXPECT_EQ(VisibleText("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");           // overlong
  EXPECT_EQ(VisibleText("\xf0\x80\x82\x9b"), "\\xf0\\x80\\x82\\x9b");  // overlong
  EXPECT_EQ(VisibleText("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a pair
  EXPECT_EQ(VisibleText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(VisibleText("\xe2\x80"), "\\xe2\\x80");                    // cut off
}

TEST(VisibleLines, KeepsLinesAndOwnColours) {
  const std::string styled = Styled("title", Style::kTitle, true) + Styled("12 ns", Style::kHot, true);
  EXPECT_EQ(VisibleLines(absl::StrCat(styled, "\nmore\n")), absl::StrCat(styled, "\nmore\n"));
  EXPECT_EQ(VisibleLines("\x1b[2J\x1b]0;x\x07\t\r\n"), "\\x1b[2J\\x1b]0;x\\x07\\t\\x0d\n");
}

TEST(CsvField, IsOneFieldOnOneLine) {
  EXPECT_EQ(CsvField("plain text"), "plain text");
  EXPECT_EQ(CsvField("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvField("say \"x\"\n"), "\"say \"\"x\"\"\\n\"");
}

TEST(CsvField, IsNoFormula) {
  for (const char* formula :
       {"=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(A1)", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"}) {
    EXPECT_EQ(CsvField(formula), absl::StrCat("'", formula));
  }
  EXPECT_EQ(CsvField("=A1,B1"), "\"'=A1,B1\"");
  EXPECT_EQ(CsvField("\t=1"), "\\t=1");
  EXPECT_EQ(CsvField("a=1"), "a=1");
}

TEST(EscapedJson, ReadsBackAsWritten) {
  const nlohmann::json json = {{"a\x1b\u009b", "x\n\x7f\u202e\U000e0041\u00e9"}};
  const std::string escaped = EscapedJson(json.dump(1));
  EXPECT_EQ(escaped, "{\n \"a\\u001b\\u009b\": \"x\\n\\u007f\\u202e\\udb40\\udc41\u00e9\"\n}");
  EXPECT_EQ(nlohmann::json::parse(escaped), json);
}

TEST(EscapedTextproto, ReadsBackAsWritten) {
  trace::Trace trace;
  trace.add_packet()->mutable_header()->set_tool_version("x\n\x7f\u009b\u202e\u00e9");
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string printed;
  printer.PrintToString(trace, &printed);
  const std::string escaped = EscapedTextproto(printed);
  EXPECT_NE(escaped.find("\"x\\n\\177\\302\\233\\342\\200\\256\u00e9\""), std::string::npos) << escaped;
  trace::Trace again;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(escaped, &again));
  EXPECT_EQ(again.SerializeAsString(), trace.SerializeAsString());
}

TEST(MarkdownText, HasNoSignsOfTheFormat) {
  EXPECT_EQ(MarkdownText("a|b `c` *d* __init__ [e](f) <script>&#27;\n\\"),
            "a\\|b \\`c\\` \\*d\\* \\_\\_init\\_\\_ \\[e\\](f) &lt;script&gt;&amp;\\#27;\\\\n\\\\");
  EXPECT_EQ(MarkdownText("4.66 s"), "4.66 s");
  EXPECT_EQ(MarkdownText("1. no list"), "1\\. no list");
  EXPECT_EQ(MarkdownText("- no list"), "\\- no list");
  EXPECT_EQ(MarkdownText("# no heading"), "\\# no heading");
}

TEST(FoldedFrame, HasNoSignsOfTheFormat) {
  EXPECT_EQ(FoldedFrame("a;b\n"), "a:b\\n");
  EXPECT_EQ(FoldedFrame("reorder 64"), "reorder_64");
  EXPECT_EQ(FoldedFrame(" "), "?");
}

}  // namespace
}  // namespace dlhook::analyzer
