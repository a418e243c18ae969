#include "cuda/plugin/worker_socket.h"

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mlacheck {

namespace {

// Room for one file descriptor beside a packet.
union Control {
  cmsghdr header;
  char room[CMSG_SPACE(sizeof(int))];
};

}  // namespace

bool send_packet(int socket, std::string_view text, int file_descriptor) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control = {};
  if (file_descriptor >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    control.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(&control.header), &file_descriptor, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

std::optional<std::string> receive_packet(int socket) {
  std::array<char, kMostPacketBytes> text = {};
  ssize_t got = 0;
  do {
    got = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  return std::string(text.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
}

Request receive_request(int socket) {
  std::array<char, kMostPacketBytes> text = {};
  iovec part = {text.data(), text.size()};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof(control);
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return {};
  Request request = {std::string(text.data(), static_cast<std::size_t>(got))};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(&request.file_descriptor, CMSG_DATA(header), sizeof(int));
  return request;
}

}  // namespace mlacheck
