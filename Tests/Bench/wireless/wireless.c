// wireless ROUNDS SOCKET LINK SSID:FREQUENCY:BSSID SSID:FREQUENCY:BSSID:
// measures the time from the kernel's message that a Wi-Fi link has joined another network
// (NL80211_CMD_CONNECT) to the end of a flow that connd guards on SOCKET. The reference is a
// subscriber of the simplest daemon: a process that reads nl80211, asks the kernel once for the
// link's SSID, and sends it on. The two are measured one after the other, so that neither waits for
// the other on a single processor. Both networks are open, and share a subnet. The link has an
// address and the default route.
#define _GNU_SOURCE
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/nl80211.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/flows.h"
#include "../common/samples.h"

enum { patience = 60000 };

static unsigned link_index;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

// MARK: - nl80211

static struct {
  uint16_t family;
  uint32_t mlme;
} wireless;

static int read_groups(const struct nlattr *groups) {
  const struct nlattr *group, *attribute;
  mnl_attr_for_each_nested(group, groups) {
    const char *name = "";
    uint32_t number = 0;
    mnl_attr_for_each_nested(attribute, group) {
      if (mnl_attr_get_type(attribute) == CTRL_ATTR_MCAST_GRP_NAME) name = mnl_attr_get_str(attribute);
      if (mnl_attr_get_type(attribute) == CTRL_ATTR_MCAST_GRP_ID) number = mnl_attr_get_u32(attribute);
    }
    if (!strcmp(name, "mlme")) wireless.mlme = number;
  }
  return MNL_CB_OK;
}

static int read_family(const struct nlmsghdr *message, void *context) {
  (void)context;
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr)) {
    if (mnl_attr_get_type(attribute) == CTRL_ATTR_FAMILY_ID) wireless.family = mnl_attr_get_u16(attribute);
    if (mnl_attr_get_type(attribute) == CTRL_ATTR_MCAST_GROUPS) read_groups(attribute);
  }
  return MNL_CB_OK;
}

static struct mnl_socket *open_generic(void) {
  struct mnl_socket *netlink = mnl_socket_open(NETLINK_GENERIC);
  if (!netlink || mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) < 0) fail("generic netlink");
  return netlink;
}

static struct nlmsghdr *begin(char *buffer, uint16_t family, uint8_t command) {
  struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = family;
  message->nlmsg_flags = NLM_F_REQUEST;
  struct genlmsghdr *header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
  header->cmd = command;
  header->version = 1;
  return message;
}

static void ask(struct mnl_socket *netlink, struct nlmsghdr *message, mnl_cb_t read, void *context) {
  static unsigned sequence;
  char buffer[16384];
  message->nlmsg_seq = ++sequence;
  if (mnl_socket_sendto(netlink, message, message->nlmsg_len) < 0) fail("generic netlink");
  ssize_t count = mnl_socket_recvfrom(netlink, buffer, sizeof(buffer));
  if (count < 0 || mnl_cb_run(buffer, (size_t)count, sequence, mnl_socket_get_portid(netlink), read, context) < 0)
    fail("answer");
}

static struct mnl_socket *listen_to_wireless(void) {
  struct mnl_socket *netlink = open_generic();
  if (mnl_socket_setsockopt(netlink, NETLINK_ADD_MEMBERSHIP, &wireless.mlme, sizeof(int))) fail("mlme");
  return netlink;
}

static int find_connect(const struct nlmsghdr *message, void *is_there) {
  const struct genlmsghdr *header = mnl_nlmsg_get_payload(message);
  if (message->nlmsg_type == wireless.family && header->cmd == NL80211_CMD_CONNECT) *(int *)is_there = 1;
  return MNL_CB_OK;
}

/// Whether the received messages say that a link has joined a network.
static int tells_connect(struct mnl_socket *netlink) {
  char buffer[32768];
  int is_there = 0;
  ssize_t count = recv(mnl_socket_get_fd(netlink), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (count > 0) mnl_cb_run(buffer, (size_t)count, 0, 0, find_connect, &is_there);
  return is_there;
}

// MARK: - The floor

/// The floor's message: the time of the kernel's message, and the network.
struct news {
  double heard;
  char ssid[64];
};

static int read_ssid(const struct nlmsghdr *message, void *ssid) {
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, message, sizeof(struct genlmsghdr)) {
    if (mnl_attr_get_type(attribute) == NL80211_ATTR_SSID)
      snprintf(ssid, 64, "%.*s", mnl_attr_get_payload_len(attribute), (const char *)mnl_attr_get_payload(attribute));
  }
  return MNL_CB_OK;
}

/// Starts the floor, and returns the descriptor of its subscriber.
static int start_floor(pid_t *process) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) fail("socketpair");
  if ((*process = fork())) return close(ends[1]), ends[0];
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // Priority over connd, but below the measuring process, which is woken immediately.
  sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 11});
  struct mnl_socket *events = listen_to_wireless(), *questions = open_generic();
  struct pollfd wait = {mnl_socket_get_fd(events), POLLIN, 0};
  for (;;) {
    if (poll(&wait, 1, -1) < 0) fail("poll");
    if (!tells_connect(events)) continue;
    struct news news = {.heard = now()};
    char buffer[512];
    struct nlmsghdr *message = begin(buffer, wireless.family, NL80211_CMD_GET_INTERFACE);
    mnl_attr_put_u32(message, NL80211_ATTR_IFINDEX, link_index);
    ask(questions, message, read_ssid, news.ssid);
    if (send(ends[1], &news, sizeof(news), MSG_NOSIGNAL) < 0) exit(0);
  }
}

// MARK: - Measurement

static struct {
  int answered, ended;
} flow;

static void take(void *context, const uint8_t *message, size_t length) {
  (void)context;
  struct answer answer = read_answer(message, length);
  if (answer.event == refused) fprintf(stderr, "connd has refused the flow\n"), exit(1);
  if (answer.event == path_told) flow.answered = 1;
  if (answer.event == invalidated && answer.severity == destroy) flow.ended = 1;
}

/// Joins a network with iw(8): SSID:FREQUENCY:BSSID. The BSSID itself has colons.
static void join(const char *link, char *network) {
  char command[256], copy[128], *rest = strcpy(copy, network);
  char *ssid = strsep(&rest, ":"), *frequency = strsep(&rest, ":");
  snprintf(command, sizeof(command), "iw dev %s disconnect 2>/dev/null; exec iw dev %s connect %s %s %s >/dev/null", link, link,
           ssid, frequency, rest);
  if (system(command)) fprintf(stderr, "%s failed\n", command), exit(1);
}

/// The times since the kernel's message: the floor's, or connd's without a floor.
static void measure(int rounds, char **arguments, int floor, struct call *call, struct samples *samples) {
  static uint64_t last_flow;
  struct mnl_socket *events = listen_to_wireless();
  for (int round = 0; round < rounds; round++) {
    flow.answered = flow.ended = 0;
    add_flow(call, ++last_flow, 0x11000001);
    while (!flow.answered)
      if (poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, patience) > 0) read_messages(call);
    join(arguments[3], arguments[4 + round % 2]);
    // The kernel's sending time is unknown: the time counts from the first of two receptions.
    double heard = 0, told = floor < 0 ? -1 : 0, ended = 0;
    struct news news = {0};
    while (!heard || !told || !ended) {
      struct pollfd waits[] = {
          {mnl_socket_get_fd(events), POLLIN, 0}, {floor, POLLIN, 0}, {call->descriptor, POLLIN, 0}};
      if (poll(waits, 3, patience) <= 0)
        fprintf(stderr, "round %d: an event is missing after a minute: kernel %d, floor %d, connd %d\n", round, heard > 0, told > 0, ended > 0), exit(1);
      double moment = now();
      if (waits[0].revents && tells_connect(events)) heard = moment;
      if (waits[1].revents && read(floor, &news, sizeof(news)) == sizeof(news)) told = moment;
      if (waits[2].revents) read_messages(call);
      if (flow.ended && !ended) ended = moment;
    }
    double start = news.heard && news.heard < heard ? news.heard : heard;
    add_sample(samples, (floor < 0 ? ended : told) - start);
    pause_for(500);
  }
  mnl_socket_close(events);
}

int main(int argc, char **argv) {
  if (argc != 6) return fprintf(stderr, "usage: wireless ROUNDS SOCKET LINK NETWORK NETWORK\n"), 64;
  int rounds = atoi(argv[1]);
  link_index = if_nametoindex(argv[3]);
  char buffer[512];
  struct nlmsghdr *question = begin(buffer, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
  mnl_attr_put_strz(question, CTRL_ATTR_FAMILY_NAME, "nl80211");
  struct mnl_socket *questions = open_generic();
  ask(questions, question, read_family, NULL);

  struct call call = {.take = take};
  open_call(&call, argv[2], "Guard");
  static struct samples floors, connds;
  pid_t process;
  measure(rounds, argv, start_floor(&process), &call, &floors);
  kill(process, SIGKILL);
  measure(rounds, argv, -1, &call, &connds);
  print_times_header("change", "floor");
  print_times("another network", "the floor, in C", &floors, &floors);
  print_times("another network", "a guarded flow", &connds, &floors);
}
