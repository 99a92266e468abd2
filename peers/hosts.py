"""Hosts on one machine: network namespaces with names of their own, joined by a network that has
a bandwidth and a latency. Linux, as root, with iproute2.

    with Network(hosts=4, rate="1gbit", delay=1e-3) as network:
        subprocess.run(within(1, ["hostname"]))

Each host has one device, `tun0`, and the address 10.77.0.<number>, from 1 on. What it sends goes
through a token bucket of the kernel (the bandwidth of a rank), and then through a relay, a process
that hands every packet to its host when the delay is over. Kernels with `netem` could do without the
relay; not all have it.
"""

import collections
import fcntl
import os
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

PREFIX = "hwa-host-"
# A packet: large, so that the relay has few of them.
MTU = 60_000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


class Network:
    def __init__(self, hosts, rate=None, delay=0.0):
        self.hosts, self.rate, self.delay, self.relay = hosts, rate, delay, None

    def __enter__(self):
        self.__exit__()
        for host in range(1, self.hosts + 1):
            ip("netns", "add", name(host))
            ip("-n", name(host), "link", "set", "lo", "up")
        here = [sys.executable, __file__, str(self.hosts), str(self.delay)]
        self.relay = subprocess.Popen(here, stdout=subprocess.PIPE, text=True)
        if self.relay.stdout.readline() != "ready\n":
            raise SystemExit("there is no relay")
        for host in range(1, self.hosts + 1):
            inside = ["-n", name(host)]
            ip(*inside, "addr", "add", f"{address(host)}/24", "dev", "tun0")
            ip(*inside, "link", "set", "tun0", "mtu", str(MTU), "up")
            if self.rate:
                bucket = ["rate", self.rate, "burst", str(2 * MTU), "limit", str(64 * MTU)]
                shaped = ["tc", "qdisc", "replace", "dev", "tun0", "root", "tbf", *bucket]
                subprocess.run(within(host, shaped), check=True)
        return self

    def __exit__(self, *_):
        if self.relay:
            self.relay.terminate()
            self.relay.wait()
            self.relay = None
        for host in range(1, self.hosts + 1):
            subprocess.run(["ip", "netns", "del", name(host)], stderr=subprocess.DEVNULL)

    def measured(self):
        """Seconds of a short message there and back, and bytes per second of long ones, both ways at
        once, between the first two hosts, by sockets alone."""
        here = [sys.executable, __file__]
        server = subprocess.Popen(within(2, [*here, "answer"]), stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        asked = subprocess.run(within(1, [*here, "ask"]), check=True, capture_output=True, text=True)
        server.wait()
        return tuple(map(float, asked.stdout.split()))


def name(host):
    return f"{PREFIX}{host}"


def address(host):
    return f"10.77.0.{host}"


def within(host, command):
    """A command as it is started on a host: with its network and its name."""
    renamed = ["sh", "-c", 'hostname "$0" && exec "$@"', name(host), *map(str, command)]
    return ["ip", "netns", "exec", name(host), "unshare", "--uts", *renamed]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def device(host):
    """Opens the device of a host. It stays there when this process has left."""
    with open("/proc/self/ns/net") as home, open(f"/run/netns/{name(host)}") as there:
        os.setns(there.fileno(), os.CLONE_NEWNET) if hasattr(os, "setns") else setns(there)
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
        os.setns(home.fileno(), os.CLONE_NEWNET) if hasattr(os, "setns") else setns(home)
    return tun


def setns(namespace):
    """For Pythons before 3.12."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def relay(hosts, delay):
    """Hands packets on, each after the delay."""
    tuns = {host: device(host) for host in range(1, hosts + 1)}
    print("ready", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    under_way = collections.deque()
    while True:
        wait = max(under_way[0][0] - time.monotonic(), 0.0) if under_way else None
        for tun in select.select(list(tuns.values()), [], [], wait)[0]:
            try:
                while True:
                    packet = os.read(tun, MTU + 100)
                    under_way.append((time.monotonic() + delay, packet))
                    if not delay:
                        break
            except BlockingIOError:
                pass
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            packet = under_way.popleft()[1]
            # The last byte of the address it goes to, if it is a packet of IPv4.
            to = tuns.get(packet[19]) if packet[0] >> 4 == 4 else None
            if to is not None:
                try:
                    os.write(to, packet)
                except (BlockingIOError, OSError):
                    pass  # lost, as on any network


LONG, SHORT_ONES = 16_000_000, 50


def answer():
    """The second host: gives short messages back, and a long one while it gets a long one."""
    with socket.create_server((address(2), 7700)) as server:
        print("ready", flush=True)
        with server.accept()[0] as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(SHORT_ONES):
                peer.sendall(peer.recv(1))
            swap(peer)


def ask():
    """The first host: prints what `Network.measured` gives."""
    with socket.create_connection((address(2), 7700)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(SHORT_ONES):
            began = time.perf_counter()
            peer.sendall(b"?")
            peer.recv(1)
            trips.append(time.perf_counter() - began)
        print(statistics.median(trips), LONG / swap(peer))


def swap(peer):
    """A long message there and one back at the same time: how many seconds that takes."""
    began = time.perf_counter()
    sender = threading.Thread(target=peer.sendall, args=[bytes(LONG)])
    sender.start()
    left = LONG
    while left:
        left -= len(peer.recv(1 << 20))
    sender.join()
    return time.perf_counter() - began


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["answer"]:
            answer()
        case ["ask"]:
            ask()
        case [hosts, delay]:
            relay(int(hosts), float(delay))
