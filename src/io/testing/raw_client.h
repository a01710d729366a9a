// For tests of servers: a client that sends any bytes.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <string>
#include <string_view>

namespace forebay::io::testing {

// Connects to this machine's port, sends the bytes and nothing more, and returns all that comes
// until the server closes the connection, or ten seconds have passed.
inline std::string exchange(uint16_t port, std::string_view bytes) {
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context);
  // Connections from one address run out of ports when there are very many.
  static std::atomic<uint32_t> number = 0;
  boost::system::error_code error = boost::asio::error::interrupted;
  while (error == boost::asio::error::interrupted) {  // by a timer's signal, as fuzzers use it
    if (socket.is_open()) socket.close();
    socket.open(boost::asio::ip::tcp::v4());
    socket.bind({boost::asio::ip::address_v4(0x7f000001 + number++ % 250), 0});
    socket.connect({boost::asio::ip::address_v4::loopback(), port}, error);
  }
  if (error) throw boost::system::system_error(error, "connect");
  boost::system::error_code ignored;
  boost::asio::write(socket, boost::asio::buffer(bytes), ignored);
  socket.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  std::string answer;
  boost::asio::async_read(socket, boost::asio::dynamic_buffer(answer), [](auto, size_t) {});
  context.run_for(std::chrono::seconds(10));
  return answer;
}

}  // namespace forebay::io::testing
