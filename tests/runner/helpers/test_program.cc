// The program under test of the runner's tests. Its first argument says what it
// does; everything it says goes to standard output.

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern char** environ;

namespace {

void WriteFile(const std::string& path, const char* text) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const ssize_t ignored = write(fd, text, std::strlen(text));
  static_cast<void>(ignored);
  close(fd);
}

[[noreturn]] void SleepForEver() {
  while (true) pause();
}

int PrintEnvironment() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::printf("%s\n", *variable);
  }
  return 0;
}

// `bytes` bytes: the letter 'a', then 'b's, the last 'z'.
int Flood(long bytes) {
  std::string block(1 << 16, 'b');
  std::printf("a");
  for (long left = bytes - 2; left > 0;) {
    const size_t size = left < static_cast<long>(block.size())
                            ? static_cast<size_t>(left)
                            : block.size();
    std::fwrite(block.data(), 1, size, stdout);
    left -= static_cast<long>(size);
  }
  std::printf("z");
  return 0;
}

// Leaves a process behind that holds a lock on `path` as long as it lives and
// is in a session of its own.
int Daemon(const char* path) {
  int ready[2];
  if (pipe(ready) != 0) return 9;
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    const int fd = open(path, O_CREAT | O_RDWR, 0666);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) _exit(1);
    const ssize_t ignored = write(ready[1], "x", 1);
    static_cast<void>(ignored);
    SleepForEver();
  }
  close(ready[1]);
  char byte;
  return read(ready[0], &byte, 1) == 1 ? 0 : 9;
}

// Forks until it is told no.
int ForkBomb() {
  while (true) {
    const pid_t pid = fork();
    if (pid < 0) {
      std::printf("told no: %s\n", std::strerror(errno));
      return 7;
    }
    if (pid == 0) SleepForEver();
  }
}

// Starts `count` processes, says so and ends them; 7 if it is told no before.
int Fork(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid < 0) {
      std::printf("told no: %s\n", std::strerror(errno));
      return 7;
    }
    if (pid == 0) SleepForEver();
  }
  std::printf("all there\n");
  return 0;
}

// Takes the memory, says so and ends.
int Take(size_t bytes) {
  char* memory = static_cast<char*>(malloc(bytes));
  if (memory == nullptr) return 9;
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
  // Long enough for a watch that looks ten times a second.
  usleep(500'000);
  std::printf("took it\n");
  return 0;
}

int Allocate(size_t bytes) {
  char* memory = static_cast<char*>(malloc(bytes));
  if (memory == nullptr) return 9;
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
  SleepForEver();
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  if (connect(fd, reinterpret_cast<struct sockaddr*>(&address),
              sizeof(address)) == 0) {
    std::printf("connected\n");
    return 0;
  }
  std::printf("connect: %s\n", std::strerror(errno));
  return 1;
}

int CountProcesses() {
  int count = 0;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return 9;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') ++count;
  }
  closedir(folder);
  std::printf("%d\n", count);
  return 0;
}

int TryWrite(const char* path) {
  const int fd = open(path, O_CREAT | O_WRONLY, 0600);
  if (fd >= 0) {
    std::printf("wrote\n");
    return 0;
  }
  std::printf("%s\n", std::strerror(errno));
  return 1;
}

// Fills a file and sends it into a socket that nobody reads, so that it has
// neither a name nor a descriptor.
int SendAway(size_t bytes) {
  const int fd = open("on-the-way", O_CREAT | O_RDWR, 0600);
  unlink("on-the-way");
  const std::string block(1 << 20, 'x');
  for (size_t left = bytes; left > 0;) {
    const ssize_t wrote =
        write(fd, block.data(), left < block.size() ? left : block.size());
    if (wrote <= 0) return 9;
    left -= static_cast<size_t>(wrote);
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 8;
  char byte = 'x';
  struct iovec part = {&byte, 1};
  alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof(room);
  struct cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &fd, sizeof(int));
  if (sendmsg(ends[0], &message, 0) != 1) return 7;
  close(fd);
  return 0;
}

// Hides bytes in such files, a tenth in each, says so and waits.
int HideOnTheWay(size_t bytes) {
  for (int i = 0; i < 10; ++i) {
    if (const int error = SendAway(bytes / 10); error != 0) return error;
  }
  std::printf("on its way\n");
  std::fflush(stdout);
  SleepForEver();
}

// What a CUDA program does to the runner's folders.
int Driver() {
  if (const char* log = std::getenv("CUDA_LOG_FILE"); log != nullptr) {
    WriteFile(log, "[CUDA] Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU)\n");
  }
  if (const char* cache = std::getenv("CUDA_CACHE_PATH"); cache != nullptr) {
    mkdir((std::string(cache) + "/a").c_str(), 0700);
    WriteFile(std::string(cache) + "/index", "12345");
    WriteFile(std::string(cache) + "/a/b", "1234567");
  }
  std::printf("PASS\n");
  return 0;
}

// Replaces what the runner reads afterwards by traps.
int Traps() {
  const char* log = std::getenv("CUDA_LOG_FILE");
  const char* cache = std::getenv("CUDA_CACHE_PATH");
  if (log == nullptr || cache == nullptr) return 9;
  unlink(log);
  if (mkfifo(log, 0600) != 0) return 8;
  if (rmdir(cache) != 0) return 7;
  if (symlink("/usr/bin", cache) != 0) return 6;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const char* value = argc > 2 ? argv[2] : "0";
  if (what == "environment") return PrintEnvironment();
  if (what == "exit") return std::atoi(value);
  if (what == "signal") {
    kill(getpid(), std::atoi(value));
    SleepForEver();
  }
  if (what == "flood") return Flood(std::atol(value));
  if (what == "sleep") SleepForEver();
  if (what == "ignore-term") {
    signal(SIGTERM, SIG_IGN);
    SleepForEver();
  }
  if (what == "daemon") return Daemon(value);
  if (what == "fork-bomb") return ForkBomb();
  if (what == "fork") return Fork(std::atoi(value));
  if (what == "take") return Take(static_cast<size_t>(std::atol(value)));
  if (what == "ignore-term-for") {
    signal(SIGTERM, SIG_IGN);
    sleep(static_cast<unsigned>(std::atoi(value)));
    std::printf("still here\n");
    return 0;
  }
  if (what == "allocate")
    return Allocate(static_cast<size_t>(std::atol(value)));
  if (what == "connect") return Connect(std::atoi(value));
  if (what == "processes") return CountProcesses();
  if (what == "write") return TryWrite(value);
  if (what == "hide-on-the-way") {
    return HideOnTheWay(static_cast<size_t>(std::atol(value)));
  }
  if (what == "driver") return Driver();
  if (what == "traps") return Traps();
  if (what == "arguments") {
    for (int i = 2; i < argc; ++i) std::printf("[%s]", argv[i]);
    return 0;
  }
  if (what == "folder") {
    char buffer[4096];
    std::printf("%s\n", getcwd(buffer, sizeof(buffer)));
    return 0;
  }
  if (what == "read") {
    FILE* file = std::fopen(value, "r");
    if (file == nullptr) {
      std::printf("%s\n", std::strerror(errno));
      return 1;
    }
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
      std::putchar(c);
    }
    return 0;
  }
  return 99;
}
