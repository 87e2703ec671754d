#include "ucx_layer/transport/rdma_ports.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <poll.h>

#include <algorithm>
#include <string_view>

namespace ucft::detail {

namespace {

class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  int size() const { return list_ == nullptr ? 0 : count_; }
  ibv_device* at(int index) const { return list_[index]; }

 private:
  int count_ = 0;
  ibv_device** list_;
};

std::string upper_state(ibv_port_state state) {
  std::string text = ibv_port_state_str(state);  // "PORT_ACTIVE", "invalid state"
  if (text.rfind("PORT_", 0) == 0) text.erase(0, 5);
  return text;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(AF_INET6, gid.raw, text, sizeof text) == nullptr ? "?" : text;
}

const char* gid_type(std::uint32_t type) {
  return type == IBV_GID_TYPE_IB        ? "IB"
         : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
         : type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2"
                                        : "?";
}

std::vector<RdmaGid> gids_of(ibv_context* context, std::uint32_t port, int table_length) {
  std::vector<RdmaGid> gids;
  for (int index = 0; index < table_length; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(index), &entry, 0) != 0) continue;  // not set
    char network[IF_NAMESIZE] = {};
    if (entry.ndev_ifindex != 0) if_indextoname(entry.ndev_ifindex, network);
    gids.push_back({static_cast<std::uint32_t>(index), gid_text(entry.gid), gid_type(entry.gid_type), network});
  }
  return gids;
}

// "rxe0:1" and "rxe0" name rxe0, "rxe01" doesn't.
bool is_named(std::string_view devices, std::string_view name) {
  while (!devices.empty()) {
    const std::string_view one = devices.substr(0, devices.find(','));
    devices.remove_prefix(std::min(devices.size(), one.size() + 1));
    if (one == "all" || one.substr(0, one.find(':')) == name) return true;
  }
  return false;
}

}  // namespace

std::vector<RdmaPort> rdma_ports() {
  std::vector<RdmaPort> ports;
  const DeviceList devices;
  for (int i = 0; i < devices.size(); ++i) {
    ibv_context* context = ibv_open_device(devices.at(i));
    if (context == nullptr) continue;
    ibv_device_attr device{};
    const std::uint32_t count = ibv_query_device(context, &device) == 0 ? device.phys_port_cnt : 0;
    for (std::uint32_t number = 1; number <= count; ++number) {
      ibv_port_attr port{};
      if (ibv_query_port(context, static_cast<std::uint8_t>(number), &port) != 0) continue;
      ports.push_back({ibv_get_device_name(devices.at(i)), number, upper_state(port.state),
                       port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand", port.lid,
                       128u << port.active_mtu, gids_of(context, number, port.gid_tbl_len)});
    }
    ibv_close_device(context);
  }
  return ports;
}

struct RdmaWatch::Device {
  std::string name;
  ibv_context* context;
  ~Device() { ibv_close_device(context); }
};

RdmaWatch::RdmaWatch(const char* wanted) {
  const DeviceList devices;
  for (int i = 0; i < devices.size(); ++i) {
    const std::string name = ibv_get_device_name(devices.at(i));
    if (wanted != nullptr && !is_named(wanted, name)) continue;
    ibv_context* context = ibv_open_device(devices.at(i));
    if (context == nullptr) continue;
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    devices_.push_back(std::unique_ptr<Device>(new Device{name, context}));
  }
}

RdmaWatch::~RdmaWatch() = default;

std::vector<std::string> RdmaWatch::look() {
  std::vector<std::string> news;
  for (const auto& device : devices_) {
    pollfd entry{device->context->async_fd, POLLIN, 0};
    if (poll(&entry, 1, 0) <= 0) continue;
    ibv_async_event event{};
    while (ibv_get_async_event(device->context, &event) == 0) {
      const int port = event.element.port_num;
      const auto is_this = [&](const Down& down) { return down.device == device->name && down.port == port; };
      if (event.event_type == IBV_EVENT_PORT_ERR) {
        news.push_back(fmt::format("port {} of {} is down", port, device->name));
        if (std::none_of(down_.begin(), down_.end(), is_this))
          down_.push_back({device->name, port, std::chrono::steady_clock::now()});
      } else if (event.event_type == IBV_EVENT_PORT_ACTIVE) {
        news.push_back(fmt::format("port {} of {} is up", port, device->name));
        std::erase_if(down_, is_this);
      } else if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
        news.push_back(fmt::format("{} has failed", device->name));
      }
      ibv_ack_async_event(&event);
    }
  }
  return news;
}

std::string RdmaWatch::down_text() const {
  std::string text;
  for (const Down& down : down_) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - down.since;
    text += fmt::format("{}port {} of {} has been down for {:.1f} s", text.empty() ? "" : ", ", down.port, down.device,
                        time.count());
  }
  return text;
}

}  // namespace ucft::detail
