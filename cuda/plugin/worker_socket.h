#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mlacheck {

// Packets of text between a worker and the process that asks it (PROTOCOL.md): a socket of the kind
// SOCK_SEQPACKET, which keeps them apart.
inline constexpr std::size_t kMostPacketBytes = 4096;

// Sends text, and a file descriptor if there is one. False when the other side is gone or takes
// nothing in.
bool send_packet(int socket, std::string_view text, int file_descriptor = -1);

// What has come; empty text: the other side has closed its end. Longer packets are cut. Nothing
// when none is there yet. File descriptors that come along are closed.
std::optional<std::string> receive_packet(int socket);

// The worker's side: waits for a packet and the file descriptor that comes with it, which is the
// caller's to close; -1 when none does.
struct Request {
  std::string text;
  int file_descriptor = -1;
};
Request receive_request(int socket);

}  // namespace mlacheck
