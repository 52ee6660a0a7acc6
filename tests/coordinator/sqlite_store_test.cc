#include "coordinator/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/file.h"
#include "tests/coordinator/store_conformance.h"

namespace twinpath::coordinator {
namespace {

using ::testing::HasSubstr;

class SqliteStoreTest : public StoreConformance {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    SqliteStoreOptions options;
    options.clock = &clock_;
    auto store = SqliteStore::Open(folder_.path(), options);
    ASSERT_THAT(store, IsOk());
    store_ = std::move(*store);
  }
  Store& store() override { return *store_; }

  FakeClock clock_;
  TempDirectory folder_ = *TempDirectory::Make();
  std::unique_ptr<SqliteStore> store_;
};

TWINPATH_STORE_CONFORMANCE(SqliteStoreTest)

TEST_F(SqliteStoreTest, ReopenKeepsEverything) {
  AddOneCell();
  Reopen();
  EXPECT_EQ(ReadCell("c").cell.host_id(), "h");
}

TEST_F(SqliteStoreTest, TwoProcessesNeverShareAFolder) {
  SqliteStoreOptions options;
  options.clock = &clock_;
  EXPECT_THAT(SqliteStore::Open(folder_.path(), options),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("another coordinator")));
}

TEST_F(SqliteStoreTest, NewerSchemaIsRefused) {
  store_.reset();
  {
    auto db = SqliteDb::Open(JoinPath(folder_.path(), "twinpath.db"));
    ASSERT_THAT(db, IsOk());
    ASSERT_THAT((*db)->Execute("PRAGMA user_version=999;"), IsOk());
  }
  SqliteStoreOptions options;
  options.clock = &clock_;
  EXPECT_THAT(
      SqliteStore::Open(folder_.path(), options),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("schema 999")));
}

TEST_F(SqliteStoreTest, NotADatabaseIsDataLoss) {
  store_.reset();
  const std::string path = JoinPath(folder_.path(), "twinpath.db");
  ASSERT_THAT(WriteFileAtomic(path, std::string(8192, 'x')), IsOk());
  SqliteStoreOptions options;
  options.clock = &clock_;
  EXPECT_THAT(SqliteStore::Open(folder_.path(), options),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
}

TEST_F(SqliteStoreTest, FullDiskIsToldBeforeConfirmingAndLosesNothing) {
  AddOneCell();
  ASSERT_THAT(store_->SetMaxPages(64), IsOk());
  // Fill it until it refuses; every confirmed result must be there afterwards.
  int confirmed = 0;
  absl::Status status;
  for (int i = 0; i < 1000; ++i) {
    ResultRow row;
    row.host_id = "h";
    row.received = clock_.Now();
    row.result.set_result_id(std::to_string(i));
    row.result.set_cell_id("c");
    row.result.add_observations()->mutable_stdout()->set_head(
        std::string(20'000, 'x'));
    status = store_->Write(
        [&](StoreTransaction& t) { return t.InsertResult(row).status(); });
    if (!status.ok()) break;
    ++confirmed;
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("make room")));
  EXPECT_GT(confirmed, 0);
  // Room again: the store goes on, with nothing lost and nothing left over.
  ASSERT_THAT(store_->SetMaxPages(1'000'000), IsOk());
  Write([](StoreTransaction& t) { return t.RaiseSession("h").status(); });
  Reopen();
  ASSERT_THAT(store_->Read([&](const StoreView& view) {
    EXPECT_EQ(view.ListResults("c")->size(), static_cast<size_t>(confirmed));
    return absl::OkStatus();
  }),
              IsOk());
}

TEST_F(SqliteStoreTest, OneWorkTooLargeDoesNotSinkTheOthers) {
  AddOneCell();
  ASSERT_THAT(store_->SetMaxPages(100), IsOk());
  // The three are queued while the first work holds the writer.
  Mutex mutex;
  CondVar condition;
  bool go = false;
  std::vector<absl::Status> statuses(3);
  int finished = 0;
  store_->Submit(
      [&](StoreTransaction&) {
        MutexLock lock(mutex);
        while (!go) condition.Wait(mutex);
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
  for (int i = 0; i < 3; ++i) {
    store_->Submit(
        [i](StoreTransaction& t) {
          ResultRow row;
          row.host_id = "h";
          row.received = absl::FromUnixSeconds(1);
          row.result.set_result_id(std::to_string(i));
          row.result.set_cell_id("c");
          row.result.add_observations()->mutable_stdout()->set_head(
              std::string(i == 1 ? 4'000'000 : 100, 'x'));
          return t.InsertResult(row).status();
        },
        [&, i](const absl::Status& status) {
          MutexLock lock(mutex);
          statuses[static_cast<size_t>(i)] = status;
          ++finished;
          condition.NotifyAll();
        });
  }
  MutexLock lock(mutex);
  go = true;
  condition.NotifyAll();
  while (finished < 3) condition.Wait(mutex);
  EXPECT_THAT(statuses[0], IsOk());
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(statuses[2], IsOk());
}

TEST_F(SqliteStoreTest, QueueIsBounded) {
  store_.reset();
  SqliteStoreOptions options;
  options.clock = &clock_;
  options.max_backlog = 2;
  auto store = SqliteStore::Open(folder_.path(), options);
  ASSERT_THAT(store, IsOk());
  Mutex mutex;
  CondVar condition;
  bool go = false;
  bool started = false;
  (*store)->Submit(
      [&](StoreTransaction&) {
        MutexLock lock(mutex);
        started = true;
        condition.NotifyAll();
        while (!go) condition.Wait(mutex);
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
  {
    MutexLock lock(mutex);
    while (!started) condition.Wait(mutex);
  }
  absl::Status last;
  for (int i = 0; i < 3; ++i) {
    (*store)->Submit([](StoreTransaction&) { return absl::OkStatus(); },
                     [&](const absl::Status& status) { last = status; });
  }
  // The third found the queue full, at once.
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ((*store)->Backlog(), 3);
  {
    MutexLock lock(mutex);
    go = true;
    condition.NotifyAll();
  }
  // What is queued refers to this frame.
  store->reset();
}

}  // namespace
}  // namespace twinpath::coordinator
