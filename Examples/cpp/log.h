#pragma once

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

// Writes a line that starts with the time.
inline void Log(const std::string& text) {
  auto now = std::chrono::system_clock::now();
  auto second = std::chrono::system_clock::to_time_t(now);
  auto fraction = now - std::chrono::floor<std::chrono::seconds>(now);
  std::tm local;
  char time[16];
  std::strftime(time, sizeof time, "%T", localtime_r(&second, &local));
  std::printf("%s.%03d %s\n", time, static_cast<int>(fraction / std::chrono::milliseconds(1)), text.c_str());
  std::fflush(stdout);
}
