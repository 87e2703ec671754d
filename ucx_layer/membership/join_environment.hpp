// The environment of jobs that newcomers may join: UCFT_JOINABLE, UCFT_JOIN, UCFT_JOIN_SECRET_FILE, UCFT_JOB_SECRET.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeout_detector/addresses.hpp"
#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail {

const char* variable(const char* name);  // null also if it is empty
bool is_on(const char* text);            // y, yes, on, 1
// False: `error` names the variable.
bool read_secret(bootstrap::Secret& secret, std::string& error);
// Of UCFT_JOIN: "host:port", "[::1]:port", with commas between. Empty: `error` names what is wrong.
std::vector<ListenerName> listeners_in(const std::string& text, std::string& error);
std::int32_t wanted_seat();  // UCFT_RANK; -1: any

}  // namespace ucft::detail
