"""The soak's processes inside the namespaces: load.py client|server|bulk|garbage|slow ..."""

import errno
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import time

BULK_PORT = 4999


def ports(group):
    """The ports of a server process. There are several processes, because each has a limit of
    descriptors."""
    return range(5000 + 8 * group, 5008 + 8 * group)


BUFFER = bytes(65536)
# Bytes that a flow writes at once: less than a segment.
WRITE_BYTES = 300
TICK_S = 0.1


def many_files():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Server:
    """Accepts connections and discards their data."""

    def __init__(self, group, addresses):
        self.poll = select.epoll()
        self.listeners, self.open = {}, {}
        for address in addresses:
            for port in [*ports(group), BULK_PORT][: 9 if group == 0 else 8]:
                listener = socket.socket(family(address), socket.SOCK_STREAM)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, port))
                listener.listen(4096)
                listener.setblocking(False)
                self.listeners[listener.fileno()] = listener
                self.poll.register(listener, select.EPOLLIN)

    def run(self):
        print("ready", flush=True)
        while True:
            for number, _ in self.poll.poll():
                if listener := self.listeners.get(number):
                    self.accept(listener)
                else:
                    self.read(number)

    def accept(self, listener):
        try:
            for _ in range(256):
                connection, _ = listener.accept()
                connection.setblocking(False)
                self.open[connection.fileno()] = connection
                self.poll.register(connection, select.EPOLLIN)
        except OSError:
            pass

    def read(self, number):
        try:
            if self.open[number].recv_into(bytearray(BUFFER), 65536) > 0:
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        # Closing the socket also removes its descriptor from the poll set.
        self.open.pop(number).close()


class Client:
    """Keeps many connections open, writes a little on some of them, closes some and opens
    others."""

    def __init__(self, group, addresses, flows, writes_per_s, churn_per_s, seed):
        self.ports = ports(group)
        self.addresses, self.flows, self.writes, self.churn = addresses, flows, writes_per_s, churn_per_s
        self.random = random.Random(seed)
        self.open = []
        self.counts = {"opened": 0, "closed": 0, "failed": 0, "written": 0}

    def connect(self):
        address = self.random.choice(self.addresses)
        connection = socket.socket(family(address), socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            wrong = connection.connect_ex((address, self.random.choice(self.ports)))
        except OSError as error:
            wrong = error.errno
        if wrong not in (0, errno.EINPROGRESS):
            self.counts["failed"] += 1
            connection.close()
            return
        self.counts["opened"] += 1
        self.open.append(connection)

    def take(self, place):
        """Removes a connection; the order of the others is not preserved."""
        self.open[place], self.open[-1] = self.open[-1], self.open[place]
        return self.open.pop()

    def close(self, place):
        connection = self.take(place)
        # Close every fourth connection with RST.
        if self.random.random() < 0.25:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        self.counts["closed"] += 1

    def write(self, place):
        try:
            self.counts["written"] += self.open[place].send(BUFFER[:WRITE_BYTES])
        except (BlockingIOError, BrokenPipeError) as error:
            if isinstance(error, BrokenPipeError):
                self.close(place)
        except OSError as error:
            # A connection that is not established yet is not a failure.
            if error.errno != errno.ENOTCONN:
                self.counts["failed"] += 1
                self.close(place)

    def run(self):
        ending = []
        signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
        due, output, to_close = time.monotonic(), 0.0, 0.0
        while not ending:
            for _ in range(min(max(self.flows - len(self.open), 0), 200)):
                self.connect()
            if len(self.open) >= self.flows:
                to_close += self.churn * TICK_S
                while to_close >= 1:
                    to_close -= 1
                    self.close(self.random.randrange(len(self.open)))
            for _ in range(round(self.writes * TICK_S)):
                if self.open:
                    self.write(self.random.randrange(len(self.open)))
            now = time.monotonic()
            if now - output >= 1:
                output = now
                print(json.dumps({"open": len(self.open), **self.counts}), flush=True)
            # After a stop (SIGSTOP) the missed ticks are skipped.
            due = max(due + TICK_S, now)
            time.sleep(max(0.0, due - time.monotonic()))
        for connection in self.open:
            connection.close()


def bulk(address, flows):
    """Connections that always have data to send."""
    connections = [socket.create_connection((address, BULK_PORT)) for _ in range(flows)]
    poll = select.epoll()
    by_number = {c.fileno(): c for c in connections}
    for connection in connections:
        connection.setblocking(False)
        poll.register(connection, select.EPOLLOUT)
    print("ready", flush=True)
    while True:
        for number, _ in poll.poll():
            try:
                by_number[number].send(BUFFER)
            except BlockingIOError:
                pass


def garbage(address, port, count, seed):
    """Sends messages to the group's port: noise, valid headers followed by noise, empty datagrams
    and datagrams of maximum length."""
    chance = random.Random(seed)
    sender = socket.socket(family(address), socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for number in range(count):
        body = chance.randbytes(chance.choice((0, 1, 21, 55, 59, 80, 91, 94, 160, 161, 1400)))
        if number % 2 and len(body) > 2:
            body = bytes((0x10 | chance.randrange(1, 10), chance.randrange(64))) + body[2:]
        try:
            sender.sendto(body, (address, port))
        except OSError:
            pass
        if number % 100 == 99:
            time.sleep(0.01)


def slow(address, port, count, seconds):
    """Clients that send one byte every 0.8 s and read nothing."""
    request = b"GET / HTTP/1.1\r\nHost: slow\r\nX: " + b"x" * 4096
    clients = []
    for _ in range(count):
        try:
            clients.append(socket.create_connection((address, port), timeout=2))
        except OSError:
            pass
    print(f"ready {len(clients)}", flush=True)
    end, at = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for client in clients:
            try:
                client.send(request[at : at + 1])
            except OSError:
                pass
        at += 1
        time.sleep(0.8)


def main(word, *rest):
    many_files()
    match word:
        case "server":
            group, *addresses = rest
            Server(int(group), addresses).run()
        case "client":
            group, flows, writes, churn, seed, *addresses = rest
            Client(int(group), addresses, int(flows), float(writes), float(churn), int(seed)).run()
        case "bulk":
            bulk(rest[0], int(rest[1]))
        case "garbage":
            garbage(rest[0], int(rest[1]), int(rest[2]), int(rest[3]))
        case "slow":
            slow(rest[0], int(rest[1]), int(rest[2]), float(rest[3]))


if __name__ == "__main__":
    # This process also ends with its parent (the parent sets PR_SET_PDEATHSIG).
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        os._exit(130)
