#pragma once

#include <cstdint>
#include <string>

#include "property_tests/campaign.h"
#include "tools/report.h"
#include "tools/stopwatch.h"

namespace mlacheck {

// Shows a campaign while it runs.
class CampaignDisplay : public CampaignWatcher {
 public:
  CampaignDisplay(Report& report, bool prints_each) : report_(report), prints_each_(prints_each) {}

  void starts(const Contestant& contestant, const Recipe& recipe, std::int64_t cases) override;
  void found(const CheckResult& result) override;
  void shrunk(const Failure& failure) override;
  void hung(const Failure& failure) override;
  void not_appended(const Failure& failure, const std::string& error) override;
  void broke(const std::string& error) override { report_.error(error); }
  void ran_out(std::int64_t left_out) override;
  bool stops() override;

  // What the regression file lacks; empty where it has all.
  std::string not_appended() const;
  // The kernel that was called last and how to call it again.
  const std::string& at() const { return at_; }
  // Why not all cases were tried; empty where they were.
  const std::string& end() const { return end_; }
  double cases_per_second() const { return static_cast<double>(cases_) / watch_.seconds(); }

 private:
  std::string state() const;

  Report& report_;
  bool prints_each_;
  Stopwatch watch_, last_move_, last_line_;
  std::int64_t cases_ = 0;
  std::size_t failures_ = 0, not_appended_ = 0;
  std::string write_error_, at_, end_;
};

}  // namespace mlacheck
