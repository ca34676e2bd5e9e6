# --- Network. Everything listens outside, on this machine.


def connects(family, address, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as stream:
        stream.settimeout(3)
        stream.connect(address)


@attempt
def udp(w):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(3)
        # Only a connected socket is told that nobody listens.
        sender.connect(("127.0.0.1", w.udp))
        sender.send(b"out")
        sender.recv(16)


@attempt
def listen_for_others(w):
    with socket.socket(socket.AF_INET) as stream:
        stream.bind(("127.0.0.1", 0))
        stream.listen()


@attempt
def unix_socket_from_a_pair(w):
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"out", f"{w.outside}/datagrams")


@attempt
def abstract_socket_from_a_pair(w):
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"out", f"\0{w.marker}-datagrams")


@attempt
def listed_other_host(w):
    import urllib.request, urllib.error

    try:
        urllib.request.urlopen(f"http://127.0.0.1:{w.web}/", timeout=3)
    except urllib.error.HTTPError as error:
        raise Stopped(f"HTTP {error.code}")


table(
    tcp=lambda w: connects(socket.AF_INET, ("127.0.0.1", w.port)),
    tcp_over_ipv6=lambda w: connects(socket.AF_INET6, ("::1", needed(w.port6, "there is no IPv6"))),
    multipath_tcp=lambda w: connects(socket.AF_INET, ("127.0.0.1", needed(w.mptcp, "there is no MPTCP")), 262),
    raw_socket=lambda w: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    packet_socket=lambda w: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    netlink_socket=lambda w: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    vsock=lambda w: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM),
    unix_socket_by_path=lambda w: connects(socket.AF_UNIX, f"{w.outside}/stream"),
    unix_socket_by_abstract_name=lambda w: connects(socket.AF_UNIX, f"\0{w.marker}"),
    unix_socket_of_the_yard=lambda w: connects(socket.AF_UNIX, "socket"),
)

# The same with `network: allow`, and with a list of hosts.
for name in ("raw_socket", "multipath_tcp", "unix_socket_by_path", "unix_socket_by_abstract_name"):
    ATTEMPTS[f"allowed_{name}"] = ATTEMPTS[name]
for name in ("tcp", "udp"):
    ATTEMPTS[f"listed_{name}"] = ATTEMPTS[name]


