// Machines as hwloc describes them: this one, and some that are not here.
#include "ucx_layer/bootstrap/machine.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace ucft::detail::test {
namespace {

std::vector<int> own_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void run_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

class MachineTest : public testing::Test {
 protected:
  MachineTest() : before_(own_cpus()) { forget(); }
  ~MachineTest() override {
    forget();
    run_on(before_);
  }
  static void forget() {
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XMLFILE");
  }
  static std::unique_ptr<Machine> load() {
    std::string error;
    std::unique_ptr<Machine> machine = Machine::load(error);
    EXPECT_EQ(error, "");
    if (machine == nullptr) std::abort();
    return machine;
  }
  static std::unique_ptr<Machine> described(const char* text) {
    setenv("HWLOC_SYNTHETIC", text, 1);
    return load();
  }

 private:
  std::vector<int> before_;
};

TEST_F(MachineTest, UnitsOfThisMachineShareOutTheAllowedCpus) {
  const auto machine = load();
  EXPECT_TRUE(machine->is_this_system());
  for (Bind bind : {Bind::none, Bind::core, Bind::l3, Bind::numa, Bind::package}) {
    std::vector<int> all;
    for (const Machine::Unit& unit : machine->units(bind)) {
      EXPECT_FALSE(unit.cpus.empty());
      all.insert(all.end(), unit.cpus.begin(), unit.cpus.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, own_cpus());
  }
}

TEST_F(MachineTest, WhoRunsOnAUnitIsAtItsSite) {
  for (Bind bind : {Bind::none, Bind::core, Bind::l3, Bind::numa, Bind::package})
    for (const Machine::Unit& unit : load()->units(bind)) {
      const std::vector<int> before = own_cpus();
      run_on(unit.cpus);
      EXPECT_EQ(load()->own_site(), unit.site);
      run_on(before);
    }
}

// Whose cores have numbers of the host, though others can't be used.
TEST_F(MachineTest, AProcessThatIsConfinedHasTheUnitsThatAreLeft) {
  const std::vector<Machine::Unit> all = load()->units(Bind::core);
  const Machine::Unit last = all.back();
  run_on(last.cpus);
  for (Bind bind : {Bind::none, Bind::core, Bind::l3, Bind::numa, Bind::package}) {
    const std::vector<Machine::Unit> left = load()->units(bind);
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].cpus, last.cpus);
    EXPECT_EQ(left[0].site, last.site);
  }
}

TEST_F(MachineTest, AnotherMachineIsAsDescribed) {
  const auto machine = described("package:2 [numa] l3:8 core:8 pu:2");
  EXPECT_FALSE(machine->is_this_system());
  EXPECT_EQ(machine->own_site(), HostSite());
  const Machine::Counts counts = machine->counts();
  EXPECT_EQ(counts.packages, 2);
  EXPECT_EQ(counts.numa_nodes, 2);
  EXPECT_EQ(counts.l3_caches, 16);
  EXPECT_EQ(counts.cores, 128);
  const std::vector<Machine::Unit> cores = machine->units(Bind::core), caches = machine->units(Bind::l3);
  ASSERT_EQ(cores.size(), 128u);
  EXPECT_EQ(cores[9].cpus, (std::vector<int>{18, 19}));
  EXPECT_EQ(cores[9].site, (HostSite{0, 0, 1}));
  EXPECT_EQ(cores[127].site, (HostSite{1, 1, 15}));
  ASSERT_EQ(caches.size(), 16u);
  EXPECT_EQ(caches[8].site, (HostSite{1, 1, 8}));
  EXPECT_EQ(caches[8].cpus.size(), 16u);
  ASSERT_EQ(machine->units(Bind::numa).size(), 2u);
  EXPECT_EQ(machine->units(Bind::numa)[1].site, (HostSite{1, 1, -1}));
  EXPECT_EQ(machine->units(Bind::package)[1].cpus.size(), 128u);
  ASSERT_EQ(machine->units(Bind::none).size(), 1u);
  EXPECT_EQ(machine->units(Bind::none)[0].site, HostSite());
  EXPECT_EQ(machine->units(Bind::none)[0].cpus.size(), 256u);
}

TEST_F(MachineTest, WithoutL3CachesPackagesTakeTheirPlace) {
  const auto machine = described("package:2 numa:2 core:4 pu:1");
  const std::vector<Machine::Unit> units = machine->units(Bind::l3);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[1].site, (HostSite{1, -1, -1}));
  EXPECT_EQ(machine->units(Bind::core)[5].site, (HostSite{0, 1, -1}));
}

TEST_F(MachineTest, MemoryOfTwoKindsIsNotTwoUnits) {
  const auto machine = described("package:2 [numa] [numa] core:4 pu:1");
  EXPECT_EQ(machine->counts().numa_nodes, 4);
  const std::vector<Machine::Unit> units = machine->units(Bind::numa);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].site, (HostSite{0, 0, -1}));
  EXPECT_EQ(units[1].site, (HostSite{1, 2, -1}));
}

TEST_F(MachineTest, ADescriptionThatCannotBeReadIsNotThisMachine) {
  std::string error;
  setenv("HWLOC_SYNTHETIC", "two packages", 1);
  EXPECT_EQ(Machine::load(error), nullptr);
  EXPECT_NE(error.find("HWLOC_SYNTHETIC"), std::string::npos) << error;
  EXPECT_NE(error.find("'two packages'"), std::string::npos) << error;
  for (const char* file : {"/no/such/file", "/etc/passwd"}) {
    setenv("HWLOC_XMLFILE", file, 1);
    EXPECT_EQ(Machine::load(error), nullptr);
    EXPECT_NE(error.find(file), std::string::npos) << error;
  }
}

TEST(RanksOnUnits, CoresInTurnOthersEvenlyOneAfterTheOther) {
  const auto units_of = [](Bind bind, int ranks, std::size_t units) {
    std::vector<std::size_t> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(unit_of_rank(bind, rank, ranks, units));
    return all;
  };
  using Units = std::vector<std::size_t>;
  EXPECT_EQ(units_of(Bind::core, 5, 3), (Units{0, 1, 2, 0, 1}));
  for (Bind bind : {Bind::l3, Bind::numa, Bind::package}) {
    EXPECT_EQ(units_of(bind, 4, 2), (Units{0, 0, 1, 1}));
    EXPECT_EQ(units_of(bind, 7, 3), (Units{0, 0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(units_of(bind, 2, 8), (Units{0, 1}));
  }
  EXPECT_EQ(units_of(Bind::none, 3, 1), (Units{0, 0, 0}));
}

TEST(RanksOnUnits, BindsHaveNames) {
  EXPECT_EQ(bind_named("core"), Bind::core);
  EXPECT_EQ(bind_named("none"), Bind::none);
  EXPECT_EQ(bind_named("socket"), std::nullopt);
  EXPECT_EQ(bind_named(""), std::nullopt);
}

}  // namespace
}  // namespace ucft::detail::test
