// Kernels with one thing wrong each, through the program: verdicts, exit codes, reports.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli_testing.h"
#include "tools/xml_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;

const std::string kCensus =
    "mlacheck1 op=sparse_attention t=1 h=4 k=64 n=256 fill=census poison=on";
const std::string kGaussian = "mlacheck1 op=sparse_attention t=1 h=4 k=64 n=256 page=16";

std::string library(const std::string& kernel) {
  return std::string(WRONG_KERNELS) + "/libwrong_kernel_" + kernel + ".so";
}

struct Judged {
  Outcome outcome;
  std::map<std::string, std::string> statuses;  // of the library's kernel, by output
  std::string junit;
  std::string html;
};

// The page is XML, but for how it begins.
std::string flaw_of_html(std::string page) {
  const std::string begin = "<!DOCTYPE html>\n";
  if (!page.starts_with(begin)) return "no document type";
  return flaw_of_xml("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + page.substr(begin.size()));
}

Judged judge(const std::string& kernel, const std::string& recipe,
             const Environment& environment = {}) {
  const TemporaryFolder folder;
  Judged judged;
  judged.outcome =
      mlacheck({"run", recipe, "--kernel", library(kernel), "--json", folder / "a.json", "--junit",
                folder / "a.xml", "--html", folder / "a.html"},
               environment);
  const std::string prefix = "libwrong_kernel_" + kernel + ".so:" + kernel;
  for (const auto& [name, status] : statuses(folder / "a.json")) {
    if (name.starts_with(prefix))
      judged.statuses[name == prefix ? "" : name.substr(prefix.size() + 1)] = status;
    else
      EXPECT_EQ(status, "PASS") << name;  // the reference
  }
  judged.junit = read_file(folder / "a.xml");
  judged.html = read_file(folder / "a.html");
  EXPECT_EQ(flaw_of_xml(judged.junit), "");
  EXPECT_TRUE(is_utf8(judged.junit));
  EXPECT_EQ(flaw_of_html(judged.html), "");
  EXPECT_THAT(judged.outcome.out, Not(HasSubstr("\x1b")));
  return judged;
}

using Statuses = std::map<std::string, std::string>;

// Of one call's outputs.
Statuses outputs(const std::string& out, const std::string& lse, const std::string& max_logit,
                 const std::string& stage = "") {
  return {{stage + "sparse_attention.out", out},
          {stage + "sparse_attention.lse", lse},
          {stage + "sparse_attention.max_logit", max_logit}};
}

// Both of a kernel's modes alike.
Statuses both_modes(const std::string& out, const std::string& lse, const std::string& max_logit) {
  Statuses statuses = outputs(out, lse, max_logit);
  statuses.merge(outputs(out, lse, max_logit, "batch invariant "));
  return statuses;
}

TEST(Html, ShowsWhereAnOutputIsWrong) {
  const std::string page = judge("zeros", kCensus).html;
  // Of all heads, and of the dims that are not 0 in truth: pieces of one colour.
  EXPECT_THAT(page, AllOf(HasSubstr("fill=\"#a4161a\" d=\"M0 0h4v1h-4z\""),
                          HasSubstr("fill=\"#a4161a\" d=\"M0 0h15v1h-15z"),
                          HasSubstr("across: dim 0 … 511, 8 a cell")));
  EXPECT_LT(page.find("class=\"FAIL\""), page.find("class=\"PASS\""));
  EXPECT_THAT(judge("base_2", kCensus).html, Not(HasSubstr("fill=\"#a4161a\"")));
}

TEST(WrongKernels, ZerosFail) {
  const Judged census = judge("zeros", kCensus);
  EXPECT_EQ(census.outcome.code, 1);
  // With q = 0 the largest logit is 0.
  EXPECT_EQ(census.statuses, both_modes("FAIL", "FAIL", "PASS"));
  const Judged gaussian = judge("zeros", kGaussian);
  EXPECT_EQ(gaussian.outcome.code, 1);
  EXPECT_EQ(gaussian.statuses, both_modes("FAIL", "FAIL", "FAIL"));
  EXPECT_THAT(gaussian.junit, HasSubstr("failures=\"6\""));
}

// All that it returns is subnormal, and it declares that it flushes such.
TEST(WrongKernels, ZerosOfSubnormalsAreMistrusted) {
  const std::string subnormal = kGaussian + " kv_power=-126";
  const Judged flushes = judge("zeros_of_subnormals", subnormal);
  EXPECT_EQ(flushes.statuses.at("sparse_attention.out"), "MISTRUSTED") << flushes.outcome.out;
  EXPECT_EQ(flushes.outcome.code, 4);
  EXPECT_EQ(judge("zeros_of_subnormals", kGaussian).outcome.code, 1);
  EXPECT_EQ(judge("base_2", subnormal).statuses.at("sparse_attention.out"), "PASS");
}

TEST(WrongKernels, OffsetsOf32BitsFailWherePagesLieFarApart) {
  const Judged near = judge("offsets_of_32_bits", kGaussian);
  EXPECT_EQ(near.statuses, both_modes("PASS", "PASS", "PASS"));
  const Judged far = judge("offsets_of_32_bits", kGaussian + " stretch=on");
  EXPECT_EQ(far.outcome.code, 1);
  EXPECT_EQ(far.statuses, both_modes("FAIL", "FAIL", "FAIL"));
}

// Alone or among others: wrong alike, so that the rows' bits agree.
TEST(WrongKernels, ZerosOfTheBatchInvariantModeAloneFail) {
  for (const std::string& recipe :
       {kGaussian, std::string("mlacheck1 op=sparse_attention t=3 h=4 k=64 n=256")}) {
    const Judged judged = judge("zeros_when_batch_invariant", recipe);
    EXPECT_EQ(judged.outcome.code, 1);
    Statuses expected = outputs("PASS", "PASS", "PASS");
    expected.merge(outputs("FAIL", "FAIL", "FAIL", "batch invariant "));
    EXPECT_EQ(judged.statuses, expected);
  }
}

// A row alone is asked for without max_logit.
TEST(WrongKernels, OneThatWritesAnOutputThatNobodyWantsCrashes) {
  const Judged judged = judge("expects_max_logit", kGaussian);
  EXPECT_EQ(judged.outcome.code, 1);
  Statuses expected = both_modes("PASS", "PASS", "PASS");
  expected["batch invariant row alone"] = "CRASHED";
  EXPECT_EQ(judged.statuses, expected);
}

TEST(WrongKernels, ARefusalOfAPromisedModeIsAFailure) {
  const Judged judged = judge("refuses_batch_invariant", kGaussian);
  EXPECT_EQ(judged.outcome.code, 1);
  Statuses expected = outputs("PASS", "PASS", "PASS");
  expected["batch invariant"] = "FAIL";
  EXPECT_EQ(judged.statuses, expected);
  EXPECT_THAT(judged.outcome.out, HasSubstr("promised, but refused: batch_invariant 1: 0 only"));
}

TEST(WrongKernels, AnLseOfTheWrongBaseFailsAndNothingElse) {
  for (const std::string& recipe : {kCensus, kGaussian}) {
    const Judged judged = judge("mislabels_lse", recipe);
    EXPECT_EQ(judged.outcome.code, 1);
    EXPECT_EQ(judged.statuses, both_modes("PASS", "FAIL", "PASS"));
  }
}

TEST(WrongKernels, ADroppedKeyFails) {
  for (const std::string& recipe : {kCensus, kGaussian}) {
    const Judged judged = judge("drops_last_key", recipe);
    EXPECT_EQ(judged.outcome.code, 1);
    EXPECT_EQ(judged.statuses.at("sparse_attention.out"), "FAIL") << recipe;
    EXPECT_EQ(judged.statuses.at("sparse_attention.lse"), "FAIL") << recipe;
  }
}

TEST(WrongKernels, ADroppedKeyOfTwoThousandFails) {
  const Judged judged =
      judge("drops_last_key", "mlacheck1 op=sparse_attention t=1 h=2 k=2048 n=4096 fill=census");
  EXPECT_EQ(judged.outcome.code, 1);
  EXPECT_EQ(judged.statuses.at("sparse_attention.out"), "FAIL");
}

TEST(WrongKernels, AnotherBaseIsFineWhenItIsDeclared) {
  for (const std::string& recipe : {kCensus, kGaussian, kGaussian + " absent=rows"}) {
    const Judged judged = judge("base_2", recipe);
    EXPECT_EQ(judged.outcome.code, 0) << judged.outcome.out;
    EXPECT_EQ(judged.statuses, both_modes("PASS", "PASS", "PASS"));
  }
}

// Its reason holds a quote, an ampersand, an escape sequence and a byte that is no UTF-8.
TEST(WrongKernels, ARefusalIsNoFailureAndKeepsItsReason) {
  const Judged judged = judge("refuses", kCensus);
  EXPECT_EQ(judged.outcome.code, 77);  // whatever the reference does
  EXPECT_EQ(judged.statuses, (Statuses{{"", "REFUSED"}}));
  EXPECT_THAT(judged.outcome.out, HasSubstr("h: \"<64>\" & more only"));
  EXPECT_THAT(judged.junit, AllOf(HasSubstr("skipped=\"1\""),
                                  HasSubstr("REFUSED: h: &quot;&lt;64&gt;&quot; &amp; more only")));
  EXPECT_EQ(judge("base_2", kCensus + " sink=zero").statuses, (Statuses{{"", "REFUSED"}}));
}

TEST(WrongKernels, ARefusalWithoutAWordIsOneToo) {
  const Judged judged = judge("refuses_without_a_word", kCensus);
  EXPECT_EQ(judged.outcome.code, 77);
  EXPECT_EQ(judged.statuses, (Statuses{{"", "REFUSED"}}));
  EXPECT_THAT(judged.outcome.out, HasSubstr("gave no reason"));
  const Outcome asked = mlacheck({"kernels", library("refuses_without_a_word"), "--for", kCensus});
  EXPECT_THAT(asked.out, HasSubstr("refuses: gave no reason"));
}

TEST(WrongKernels, ACrashIsAVerdictAndTheRunGoesOn) {
  const TemporaryFolder folder;
  const Outcome outcome = mlacheck({"run", kCensus, "--kernel", library("crashes"), "--kernel",
                                    library("base_2"), "--json", folder / "a.json"});
  EXPECT_EQ(outcome.code, 1);
  const std::map<std::string, std::string> found = statuses(folder / "a.json");
  EXPECT_THAT(
      found, IsSupersetOf({Pair("libwrong_kernel_crashes.so:crashes", "CRASHED"),
                           Pair("libwrong_kernel_base_2.so:base_2 sparse_attention.out", "PASS")}));
  EXPECT_THAT(outcome.out, HasSubstr("signal 6"));
}

// When its process is asked to end.
TEST(WrongKernels, ACrashAfterTheLastAnswerIsAVerdict) {
  const Outcome outcome = mlacheck({"run", kCensus, "--kernel", library("crashes_at_exit")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("CRASHED    libwrong_kernel_crashes_at_exit.so end"),
                                 HasSubstr("after its last answer: killed by signal 6"),
                                 HasSubstr("repeat: mlacheck run 'mlacheck1 op=")));
}

TEST(WrongKernels, AFailureNamesWorstElementBoundAndBudgetAndRepeatsItself) {
  const Judged judged = judge("zeros", kCensus);
  for (const char* said : {"worst [", "expected", " in [", "budget used", "repeat: mlacheck run '"})
    EXPECT_THAT(judged.outcome.out, HasSubstr(said));
  EXPECT_THAT(judged.outcome.out, HasSubstr("--kernel " + library("zeros")));
  EXPECT_THAT(judge("drops_last_key", kCensus).outcome.out,
              HasSubstr("as if: the last entry was left out; stage: selection"));
}

TEST(WrongKernels, AreReportedWhereNobodyReadsStandardOutput) {
  const TemporaryFolder folder;
  const std::string json = folder / "a.json";
  for (const auto& [kernel, code, status] :
       {std::tuple("base_2", 3, "PASS"), {"zeros", 1, "FAIL"}}) {
    EXPECT_EQ(mlacheck_unread({"run", kCensus, "--kernel", library(kernel), "--json", json}), code);
    EXPECT_EQ(
        statuses(json).at(fmt::format("libwrong_kernel_{0}.so:{0} sparse_attention.out", kernel)),
        status);
  }
  EXPECT_EQ(mlacheck_unread({"run", kCensus, "--kernel", "/nowhere.so"}), 3);
}

TEST(WrongKernels, GitHubSeesEachFailureOnALineOfItsOwn) {
  const Judged judged = judge("zeros", kGaussian, {{"GITHUB_ACTIONS", "1"}});
  std::size_t lines = 0;
  for (std::size_t at = 0;
       (at = judged.outcome.out.find("\n::error title=mlacheck FAIL::", at)) != std::string::npos;
       ++at)
    ++lines;
  EXPECT_EQ(lines, 6u);
  EXPECT_THAT(judge("zeros", kCensus).outcome.out, Not(HasSubstr("::error")));
}

TEST(WrongKernels, AreSkippedForAnOperatorThatTheyLack) {
  const TemporaryFolder folder;
  const Outcome outcome = mlacheck({"run", "mlacheck1 op=top_k t=2 n=64 k=8", "--kernel",
                                    library("zeros"), "--json", folder / "a.json"});
  EXPECT_EQ(outcome.code, 77);
  EXPECT_THAT(statuses(folder / "a.json"),
              ::testing::Contains(Pair("libwrong_kernel_zeros.so", "SKIPPED")));
  EXPECT_THAT(outcome.out, HasSubstr("has no kernel for top_k; it has sparse_attention"));
}

TEST(WrongKernels, OfMapSlotsAloneAreSkippedWithoutABlockTable) {
  const Outcome outcome =
      mlacheck({"run", "mlacheck1 op=index_scores t=2 h=2 n=16", "--kernel", MAP_SLOTS_KERNELS});
  EXPECT_EQ(outcome.code, 77);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("SKIPPED"),
                                 HasSubstr("has no kernel for index_scores without a block table; "
                                           "it has map_slots")));
}

// The layer's own queries, keys and rows; then attention on what the library selects.
TEST(WrongKernels, AreFoundOnACapturedLayerToo) {
  const std::string capture = MLACHECK_SOURCE_DIR "/golden/captures/glm5_tiny.h5";
  const Outcome right = mlacheck({"oracle", capture, "--kernel", MLACHECK_REFERENCE_LIBRARY});
  EXPECT_EQ(right.code, 0) << right.out;
  EXPECT_THAT(right.out, AllOf(HasSubstr(":index_scores index_scores"),
                               HasSubstr(":index_scores unmasked index_scores outside"),
                               HasSubstr(":index_select index_select"),
                               HasSubstr("chain libmlacheck_reference.so:sparse_attention")));
  const Outcome zeros = mlacheck({"oracle", capture, "--kernel", library("zeros")});
  EXPECT_EQ(zeros.code, 1);
  EXPECT_THAT(zeros.out, HasSubstr("FAIL       glm5_tiny.h5 layer0/fp64 libwrong_kernel_zeros.so"));
}

TEST(WrongKernels, SayWhatTheyDeclare) {
  const Outcome outcome = mlacheck({"kernels", library("base_2"), "--for", kCensus + " sink=zero"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("lse base 2"), HasSubstr("refuses: bf16 rows without sink only")));
}

TEST(WrongKernels, ThatCrashWhenAskedTakeNobodyDown) {
  const Outcome outcome =
      mlacheck({"kernels", library("crashes_when_asked"), library("base_2"), "--for", kCensus});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("CRASHED: killed by signal 6"),
                                 HasSubstr("base_2 (sparse_attention)"), HasSubstr("supports it")));
}

TEST(Run, ARepeatLineCanBeCopied) {
  const TemporaryFolder folder;
  const std::filesystem::path odd = folder / "it's a kernel.so";
  std::filesystem::copy_file(WRONG_KERNELS "/libwrong_kernel_zeros.so", odd);
  const Outcome run =
      mlacheck({"run", "mlacheck1 op=sparse_attention t=1 h=1 k=8 n=16", "--kernel", odd.string()});
  EXPECT_EQ(run.code, 1) << run.out;
  const auto at = run.out.find("repeat: mlacheck");
  ASSERT_NE(at, std::string::npos) << run.out;
  const auto arguments = at + std::string_view("repeat: mlacheck").size();
  const std::string repeat =
      MLACHECK_PROGRAM + run.out.substr(arguments, run.out.find('\n', at) - arguments);
  EXPECT_EQ(WEXITSTATUS(std::system((repeat + " >/dev/null 2>&1").c_str())), 1) << repeat;
}

}  // namespace
}  // namespace mlacheck::testing
